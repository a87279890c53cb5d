"""`mainspring hooks`: addresses where other systems trigger jobs with signed requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import click

from ...core.commands.hooks import HookView, HookWithSecret
from ...core.render.hooks import hook_json, hook_with_secret_json
from ...model.values.webhook_signatures import Style
from ..completion import names_of
from ..parameters import read_text
from ..root import EXIT_CODES, CommandGroup, example
from ..screens.output import moment, note, print_fields
from ..screens.table import Column, print_table
from ..session import ClientSession, client_options, operator
from ..terminal import echo

_SECRET = click.option(
    "--secret-file",
    metavar="FILE",
    help="A file with the secret, or - for standard input  [default: a new one is generated]",
)


@example("hooks list", "hooks set github --job deploy --style github")
@click.group(cls=CommandGroup, epilog=EXIT_CODES)
def hooks() -> None:
    """Incoming hooks: signed requests to /hooks/NAME that trigger a job."""


@example("hooks list")
@hooks.command("list")
@client_options
def list_hooks(session: ClientSession) -> None:
    """Every hook, with its job and its style; without secrets."""
    found = session.call(lambda app: app.hooks.all())
    session.show([hook_json(view) for view in found], lambda: _print_list(found))


@example("hooks show github")
@hooks.command("show")
@click.argument("name", shell_complete=names_of("hook"))
@client_options
def show_hook(session: ClientSession, name: str) -> None:
    """One hook, and since when its secrets are valid."""
    view = session.call(lambda app: app.hooks.get(name))
    session.show(hook_json(view), lambda: _print_one(view))


@example("hooks set github --job deploy --style github")
@hooks.command("set")
@click.argument("name", shell_complete=names_of("hook"))
@click.option(
    "--job",
    required=True,
    shell_complete=names_of("job"),
    help="The job to trigger; its handler takes the parameter payload.",
)
@click.option("--style", default="standard", show_default=True, type=click.Choice(get_args(Style)))
@click.option("--disabled", is_flag=True, help="Refuse deliveries for now.")
@_SECRET
@client_options
def set_hook(session: ClientSession, name: str, job: str, style: Any, disabled: bool, secret_file: str | None) -> None:
    """Create a hook, or replace the one of this name, which keeps its secrets unless you give another. A generated
    secret is printed once: save it now."""
    secret = secret_from(secret_file)
    made = session.call(
        lambda app: app.hooks.set(name, job, style=style, secret=secret, enabled=not disabled, by=operator())
    )
    unchecked = "" if session.knows_handlers else " (--app MODULE:APP checks that its handler takes payload)"
    _show_made(session, made, f"hook {name!r} set: signed requests to {made.hook.path} trigger {job}{unchecked}")


@example("hooks rotate github --overlap 48h")
@hooks.command("rotate")
@click.argument("name", shell_complete=names_of("hook"))
@click.option("--overlap", default="24h", show_default=True, help="How long earlier secrets stay valid.")
@_SECRET
@client_options
def rotate_hook(session: ClientSession, name: str, overlap: str, secret_file: str | None) -> None:
    """Add a secret to a hook. A generated one is printed once: save it now."""
    secret = secret_from(secret_file)
    made = session.call(lambda app: app.hooks.rotate_secret(name, secret, overlap=overlap, by=operator()))
    _show_made(session, made, f"hook {name!r} has a new secret; earlier ones stay valid for {overlap}")


@example("hooks remove github")
@hooks.command("remove")
@click.argument("name", shell_complete=names_of("hook"))
@client_options
def remove_hook(session: ClientSession, name: str) -> None:
    """Delete a hook. Its address answers 404 from then on."""
    session.call(lambda app: app.hooks.remove(name, by=operator()))
    session.show({"removed": name}, lambda: echo(f"hook {name!r} removed"))


def secret_from(path: str | None) -> str | None:
    """From a file or the input: arguments of a command are visible to every user of the machine."""
    if path is None:
        return None
    return read_text(path, "--secret-file").strip()


def _show_made(session: ClientSession, made: HookWithSecret, line: str) -> None:
    def people() -> None:
        if made.secret is not None:
            echo(made.secret.reveal())
            note(f"{line}; the secret is not shown again")
        else:
            echo(line)

    session.show(hook_with_secret_json(made), people)


def _print_list(found: Sequence[HookView]) -> None:
    if not found:
        echo("There are no hooks. Create one with: mainspring hooks set NAME --job JOB")
        return
    columns = [
        Column("HOOK", lambda view: view.name),
        Column("JOB", lambda view: view.job, "cut"),
        Column("STYLE", lambda view: view.style),
        Column("STATUS", _status),
        Column("SECRETS", lambda view: str(len(view.secrets))),
        Column("CHANGED", lambda view: moment(view.updated_at), "drop"),
        Column("BY", lambda view: view.by, "drop"),
    ]
    print_table(columns, found)


def _print_one(view: HookView) -> None:
    secrets = [
        f"since {moment(each.created_at)}" + ("" if each.expires_at is None else f", until {moment(each.expires_at)}")
        for each in view.secrets
    ]
    print_fields(
        {
            "hook": view.name,
            "job": view.job,
            "address": f"POST {view.path}",
            "style": view.style,
            "status": _status(view),
            "secrets": "\n".join(secrets),
            "created": moment(view.created_at),
            "changed": f"{moment(view.updated_at)} by {view.by}",
        }
    )


def _status(view: HookView) -> str:
    return "enabled" if view.enabled else "disabled"
