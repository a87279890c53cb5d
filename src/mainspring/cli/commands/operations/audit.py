"""`mainspring audit`: who did what, and when, record by record."""

from __future__ import annotations

import click

from ....app.mainspring import Mainspring
from ....core.filters.fields import past_instant
from ....core.queries.audit_lists import AuditFilter, AuditPage
from ....core.render.entities import audit_json
from ....core.views.records import AuditRecord, audit_record
from ...completion import names_of
from ...parameters import past_time
from ...root import example
from ...screens.changes import before_and_after, subject
from ...screens.output import local_zone, moment, note, now, without_distance
from ...screens.table import Column, print_table
from ...session import ClientSession, client_options
from ...terminal import echo


@example("audit --since 2h", "audit --job crawl --by ana", "audit --action pause --target queue:mail")
@click.command()
@click.option("--job", metavar="NAME", shell_complete=names_of("job"), help="Only commands on this job.")
@click.option("--target", metavar="KIND:NAME", help="Only commands on this target, such as queue:mail or lock:import.")
@click.option("--by", "actor", metavar="NAME", help="Only commands of this person, token or program.")
@click.option("--action", metavar="NAME", help="Only this action, such as pause, edit, retry or cancel.")
@click.option("--since", metavar="TIME", callback=past_time, help="At this time or later; 2h is two hours ago.")
@click.option("--until", metavar="TIME", callback=past_time, help="Before this time.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="At most this many.")
@click.option("--cursor", help="Continue from this cursor, which the previous page printed.")
@client_options
def audit(
    session: ClientSession,
    job: str | None,
    target: str | None,
    actor: str | None,
    action: str | None,
    since: str | None,
    until: str | None,
    limit: int,
    cursor: str | None,
) -> None:
    """Who did what, and when: every command as one record, with the values before and after it, newest first.

    For deploys, starts and stops of processes, and new jobs beside them, see: mainspring changes
    """
    if job is not None and target is not None:
        raise click.UsageError("--job and --target exclude each other; give one of them")

    async def work(app: Mainspring) -> AuditPage:
        engine = await app._runtime.engine()
        present = await engine.queries.now()
        wanted = AuditFilter(
            target=target if job is None else f"job:{job}",
            actor=actor,
            action=action,
            since=None if since is None else past_instant("since", since, present),
            until=None if until is None else past_instant("until", until, present),
        )
        return await engine.audit_lists.page(wanted, limit=limit, cursor=cursor)

    found = session.call(work)
    records = [audit_record(each) for each in found.records]
    data = {"items": [audit_json(each) for each in records], "next_cursor": found.cursor}
    session.show(data, lambda: _print(records))
    if found.cursor is not None:
        note(f"For older records: --cursor {found.cursor}")


def _print(records: list[AuditRecord]) -> None:
    if not records:
        echo("No record matches.")
        return
    at = now()
    columns = [
        Column(f"WHEN ({local_zone(at)})", lambda each: moment(each.at, at), "keep", without_distance),
        Column("BY", lambda each: each.actor, "cut", readable=8),
        Column("ACTION", lambda each: each.action.replace("_", " ")),
        Column("TARGET", lambda each: subject(each.target), "cut", readable=20),
        Column("CHANGE", lambda each: before_and_after(each.before, each.after, at), "cut", readable=30),
        Column("REQUEST", lambda each: each.request_id or "", "drop"),
    ]
    print_table(columns, records)
