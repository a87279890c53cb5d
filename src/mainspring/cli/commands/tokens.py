"""`mainspring token`: API tokens for the HTTP interface."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ...app.mainspring import Mainspring
from ...core.access.api_tokens import NewToken, TokenView, token_json
from ...model.values.access import Role, RoleName
from ..completion import names_of
from ..root import EXIT_CODES, CommandGroup, example
from ..screens.output import moment, note, without_distance
from ..screens.table import Column, print_table
from ..session import ClientSession, client_options, operator
from ..terminal import echo


@example("token create deploy --role operator --expires 90d", "token list")
@click.group(cls=CommandGroup, epilog=EXIT_CODES)
def token() -> None:
    """API tokens, which programs use to log in to the HTTP interface."""


@example("token create deploy --role operator --expires 90d")
@token.command("create")
@click.argument("name")
@click.option("--role", required=True, type=click.Choice([role.value for role in Role]), help="What the token may do.")
@click.option("--expires", metavar="DURATION", help="How long it is valid, such as 90d  [default: until revoked]")
@client_options
def create_token(session: ClientSession, name: str, role: RoleName, expires: str | None) -> None:
    """Create a token. Its text is printed once and stored nowhere: save it now."""

    async def work(app: Mainspring) -> tuple[NewToken, bool]:
        return await app.tokens.create(name, role, expires=expires, by=operator()), app.settings.api_tokens

    made, taken = session.call(work)
    shape = {"token": made.text.reveal(), **token_json(made.token)}
    session.show(shape, lambda: echo(made.text.reveal()))
    if not session.wants_json:
        end = "until it is revoked" if made.token.expires_at is None else f"until {moment(made.token.expires_at)}"
        note(f"token {made.token.id} ({name}, {role}) is valid {end}; it is not shown again")
    if not taken:
        note("servers accept API tokens once api_tokens is set: MAINSPRING_API_TOKENS=true")


@example("token list")
@token.command("list")
@client_options
def list_tokens(session: ClientSession) -> None:
    """Every token, including expired and revoked ones, without the secrets."""
    found = session.call(lambda app: app.tokens.all())
    session.show([token_json(item) for item in found], lambda: _print_tokens(found))


@example("token revoke deploy")
@token.command("revoke")
@click.argument("token_id", metavar="ID", shell_complete=names_of("token"))
@client_options
def revoke_token(session: ClientSession, token_id: str) -> None:
    """Revoke a token, by its id or its name. Running servers refuse it within seconds."""
    revoked = session.call(lambda app: app.tokens.revoke(token_id, by=operator()))
    session.show(token_json(revoked), lambda: echo(f"token {revoked.id} ({revoked.name}) revoked"))


def _print_tokens(found: Sequence[TokenView]) -> None:
    if not found:
        echo("There are no tokens. Create one with: mainspring token create NAME --role operator")
        return
    columns = [
        Column("ID", lambda token: token.id),
        Column("NAME", lambda token: token.name, "cut"),
        Column("ROLE", lambda token: token.role.value),
        Column("STATUS", lambda token: token.status),
        Column("EXPIRES", lambda token: moment(token.expires_at), "keep", without_distance),
        Column("LAST USED", lambda token: moment(token.last_used_at), "drop", without_distance),
        Column("CREATED", lambda token: moment(token.created_at), "drop", without_distance),
        Column("BY", lambda token: token.created_by, "drop"),
    ]
    print_table(columns, found)
