"""`mainspring mcp`: what assistants may read and do, over the Model Context Protocol."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO
from urllib.parse import urlsplit

import click
from click.core import ParameterSource

from ...app.mainspring import Mainspring
from ...config.rules import SecretFile
from ...model.errors import ConfigurationError, InvalidValue
from ...model.values.access import Secret
from ..root import EXIT_CODES, example
from ..screens.output import note
from ..screens.table import Column, print_table
from ..session import ClientSession, source_options

if TYPE_CHECKING:
    from httpx2 import AsyncClient

    from ...assistants.server import Assistant

TOKEN, TOKEN_FILE = "MAINSPRING_API_TOKEN", "MAINSPRING_API_TOKEN_FILE"


@example(
    "mcp --app shop.jobs:app",
    "mcp --url http://localhost:8700 --token-file token.txt",
    "mcp --database-url sqlite:///jobs.db --tools all --list",
)
@click.command(epilog=EXIT_CODES)
@source_options
@click.option("--url", metavar="URL", help="A running server instead, such as http://localhost:8700.")
@click.option(
    "--tools",
    "patterns",
    metavar="PATTERN",
    multiple=True,
    default=["default"],
    show_default=True,
    help="default, all, a tag such as webhooks, or names such as '*_queue'; may be given again.",
)
@click.option("--token-file", metavar="FILE", envvar=TOKEN_FILE, help=f"A file with the API token  [default: {TOKEN}]")
@click.option("--list", "lists", is_flag=True, help="Show the tools and exit.")
@click.pass_context
def mcp(
    context: click.Context,
    session: ClientSession,
    url: str | None,
    patterns: Sequence[str],
    token_file: str | None,
    lists: bool,
) -> None:
    """Serve tools for assistants over standard input and output: the Model Context Protocol.

    The tools are the routes of the HTTP interface. Without a token, they only read; with the token of an operator,
    there are commands too, and each is recorded in the audit trail. An assistant starts this command itself:
    docs/mcp.md shows its configuration.
    """
    token = _token(token_file)
    if url is not None:
        _check_url(context, url)
    _check_installed()
    if url is not None:
        _warn_of_plain_text(url, token)
    wire = None if lists else _taken_output()
    if url is not None:
        asyncio.run(_serve_server(url, token, patterns, wire))
    else:
        session.call(lambda app: _serve_application(app, token, patterns, wire))


def _token(file: str | None) -> Secret | None:
    """Never an option of the command line, which other users of the machine can read."""
    given = os.environ.get(TOKEN)
    if given and file:
        raise ConfigurationError(f"{TOKEN} and a token file are both given; remove one of them")
    if file:
        return Secret(SecretFile(file, "--token-file").reveal())
    return Secret(given) if given else None


def _check_url(context: click.Context, url: str) -> None:
    for other in ("app", "database_url"):
        if context.get_parameter_source(other) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--url names a server, --{other.replace('_', '-')} what to serve here; give one")
    allowed = "an address such as http://localhost:8700"
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise InvalidValue("--url", url, allowed) from None
    if parts.username is not None or parts.password is not None:
        raise InvalidValue("--url", "(not shown)", "an address without a password", f"Give a token in {TOKEN}")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise InvalidValue("--url", url, allowed)


def _warn_of_plain_text(url: str, token: Secret | None) -> None:
    from ...server.access.loopback import is_loopback

    parts = urlsplit(url)
    if token is not None and parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        note(f"warning: the token is sent to {parts.hostname} unencrypted; use https")


def _check_installed() -> None:
    try:
        import mcp.server  # noqa: F401
    except ImportError as error:
        remedy = 'run: pip install "mainspring[mcp]"'
        raise ConfigurationError(f"this command needs {error.name}; {remedy}") from error


def _taken_output() -> TextIO:
    from ...assistants.server import take_standard_output

    return take_standard_output()


async def _serve_application(
    app: Mainspring, token: Secret | None, patterns: Sequence[str], wire: TextIO | None
) -> None:
    from ...assistants.api_client import client_of_application

    await _serve(client_of_application(app, token), patterns, wire)


async def _serve_server(url: str, token: Secret | None, patterns: Sequence[str], wire: TextIO | None) -> None:
    from ...assistants.api_client import client_of_server

    await _serve(client_of_server(url, token), patterns, wire)


async def _serve(client: AsyncClient, patterns: Sequence[str], wire: TextIO | None) -> None:
    from ...assistants.server import assistant_of, serve_stdio

    async with client as http:
        assistant = await assistant_of(http, patterns)
        if wire is None:
            _print_tools(assistant)
            return
        commands = sum(not tool.reads for tool in assistant.tools)
        note(f"serving {len(assistant.tools)} tools, {commands} of them commands, with the role {assistant.role}")
        await serve_stdio(assistant, wire)


def _print_tools(assistant: Assistant) -> None:
    columns = [
        Column("TOOL", lambda tool: tool.name),
        Column("ROLE", lambda tool: tool.role),
        Column("", lambda tool: "reads" if tool.reads else "changes"),
        Column("DESCRIPTION", lambda tool: tool.description, "cut", readable=30),
    ]
    print_table(columns, assistant.tools)
