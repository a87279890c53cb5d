"""`mainspring bulk`: bulk actions, how far they are, and what became of their items."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ....app.mainspring import Mainspring
from ....core.render.entities import bulk_action_json, bulk_item_json
from ....core.views.records import BulkAction
from ....model.bulk import BulkItemRow, ItemStatus
from ....model.errors import BulkNotFound, InvalidValue
from ...bulk_actions import exit_code, filter_words, followed, leaving, print_items, progress_words, show_bulk
from ...completion import names_of
from ...parameters import short_id
from ...root import EXIT_CODES, CommandGroup, example
from ...screens.output import moment, note, status, without_distance
from ...screens.table import Column, print_table
from ...session import ClientSession, client_options, operator
from ...terminal import echo

SHORTEST = 8
ID = click.argument("bulk_id", metavar="ID", shell_complete=names_of("bulk"))


@example("bulk list --limit 5", "bulk show 0123456789ab")
@click.group(cls=CommandGroup, epilog=EXIT_CODES)
def bulk() -> None:
    """Bulk actions: their progress, and the outcome of each item.

    Start one with filters: mainspring executions retry --job NAME --status failed

    For an ID, a beginning or an ending of at least 8 characters is enough if no other bulk action has it.
    """


@example("bulk list --limit 5")
@bulk.command("list")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many ended bulk actions to list."
)
@client_options
def list_bulks(session: ClientSession, limit: int) -> None:
    """Bulk actions under way, and the last ones that have ended, newest first."""
    found = session.call(lambda app: app.bulk.recent(limit))
    session.show([bulk_action_json(each) for each in found], lambda: _print_all(found))


@example("bulk show 0123456789ab")
@bulk.command("show")
@ID
@client_options
def show(session: ClientSession, bulk_id: str) -> None:
    """One bulk action in full."""
    show_bulk(session, session.call(lambda app: _find(app, bulk_id)))


@example("bulk items 0123456789ab --status refused")
@bulk.command("items")
@ID
@click.option("--status", type=click.Choice(("done", "refused", "skipped", "planned")), help="Only these.")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="At most this many.")
@click.option("--after", metavar="CURSOR", help="Continue after this cursor, which the previous page printed.")
@client_options
def items(session: ClientSession, bulk_id: str, status: ItemStatus | None, limit: int, after: str | None) -> None:
    """The outcome of each item, in the order in which they were handled."""

    async def work(app: Mainspring) -> tuple[BulkAction, list[BulkItemRow], str | None]:
        found = await _find(app, bulk_id)
        page = await app.bulk.items(found.id, status, limit, after)
        return found, page.items, page.next

    found, page, next = session.call(work)

    def show() -> None:
        if page:
            print_items(page, found)
        else:
            echo("No item matches.")

    session.show([bulk_item_json(item, found.action) for item in page], show)
    if next is not None:
        note(f"there are more; go on with --after {next}")


@example("bulk wait 0123456789ab")
@bulk.command("wait")
@ID
@client_options
def wait(session: ClientSession, bulk_id: str) -> int:
    """Follow a bulk action to its end; exit code 1 if an item was refused, or if its probe stopped it."""
    seen: list[BulkAction] = []

    async def work(app: Mainspring) -> BulkAction:
        seen.append(await _find(app, bulk_id))
        return await followed(app, seen[0])

    with leaving(seen):
        found = session.call(work)
    show_bulk(session, found)
    return exit_code(found)


@example('bulk abort 0123456789ab --note "enough"')
@bulk.command("abort")
@ID
@click.option("--note", "reason", help="Why; stored with the bulk action.")
@client_options
def abort(session: ClientSession, bulk_id: str, reason: str | None) -> None:
    """Stop a bulk action: no more items are handled. Items already handled stay as they are."""

    async def work(app: Mainspring) -> BulkAction:
        return await app.bulk.abort((await _find(app, bulk_id)).id, by=operator(), reason=reason)

    show_bulk(session, session.call(work))


async def _find(app: Mainspring, text: str) -> BulkAction:
    """The bulk action with this id, or with this beginning or ending of an id."""
    part = text.strip().lstrip("….").lower()
    if len(part) < SHORTEST:
        return await app.bulk.get(text)
    found = [each for each in await app.bulk.recent(1_000) if each.id.startswith(part) or each.id.endswith(part)]
    if not found:
        raise BulkNotFound(text)
    if len(found) > 1:
        fits = f"It fits {found[0].id} and {found[1].id}"
        raise InvalidValue("bulk id", text, "a part that one bulk action has alone", fits)
    return found[0]


def _print_all(found: Sequence[BulkAction]) -> None:
    if not found:
        echo("No bulk action. Start one with: mainspring executions retry --job NAME --status failed")
        return
    columns = [
        Column("BULK", lambda each: each.id, "keep", short_id),
        Column("ACTION", lambda each: f"{each.action} {each.target}"),
        Column("STATUS", lambda each: status(each.state)),
        Column("ITEMS", progress_words),
        Column("OF", filter_words, "cut", readable=36),
        Column("CREATED", lambda each: moment(each.created_at), "drop", without_distance),
        Column("BY", lambda each: each.created_by, "drop"),
    ]
    print_table(columns, found)
