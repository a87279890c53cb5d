"""`mainspring workers` and `mainspring locks`: the running processes, and the locks they hold."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ...app.mainspring import Mainspring
from ...core.locks import LockNotFound
from ...core.render.entities import lock_json, worker_json
from ...core.views.records import LockPage, WorkerView
from ..parameters import short_id
from ..root import EXIT_CODES, CommandGroup
from ..screens.output import moment, without_distance
from ..screens.table import Column, print_table
from ..session import ClientSession, client_options, operator


@click.command()
@client_options
def workers(session: ClientSession) -> None:
    """Running processes, with their last heartbeat."""
    found = session.call(lambda app: app.workers())
    session.show([worker_json(worker) for worker in found], lambda: _print_workers(found))


@click.group(cls=CommandGroup, epilog=EXIT_CODES)
def locks() -> None:
    """What keeps work from running: named locks and the keys of executions, who holds them, since when, until when."""


@locks.command("list")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="At most so many.")
@click.option("--cursor", help="Go on from here: the cursor that the page before ended with.")
@client_options
def list_locks(session: ClientSession, limit: int, cursor: str | None) -> None:
    """Named locks, then the keys that running and waiting executions hold against others."""
    found = session.call(lambda app: app.locks.page(limit, cursor))
    session.show([lock_json(lock) for lock in found.items], lambda: _print_locks(found))


@locks.command("release")
@click.argument("name")
@client_options
def release_lock(session: ClientSession, name: str) -> None:
    """Take a named lock from its holder, without notice: use it when the holder is gone."""

    async def work(app: Mainspring) -> None:
        if not await app.locks.release(name, by=operator()):
            raise LockNotFound(name, [lock.name for lock in (await app.locks.page()).items])

    session.call(work)
    session.show({"lock": name, "released": True}, lambda: click.echo(f"lock {name!r} released"))


def _print_workers(found: Sequence[WorkerView]) -> None:
    if not found:
        click.echo("No process is running. Start one with: mainspring run MODULE:APP")
        return
    columns = [
        Column("WORKER", lambda worker: worker.id, "keep", short_id),
        Column("HOST", lambda worker: worker.host, "cut"),
        Column("PID", lambda worker: str(worker.pid)),
        Column("RUNNING", lambda worker: f"{worker.running}/{worker.concurrency}"),
        Column("LAST HEARTBEAT", lambda worker: moment(worker.last_heartbeat_at), "keep", without_distance),
        Column("ROLES", lambda worker: ",".join(worker.roles), "drop"),
        Column("QUEUES", lambda worker: "all" if worker.queues is None else ",".join(worker.queues), "drop"),
        Column("STARTED", lambda worker: moment(worker.started_at), "drop"),
        Column("VERSION", lambda worker: worker.version, "drop"),
    ]
    print_table(columns, found)


def _print_locks(found: LockPage) -> None:
    if not found.items:
        click.echo("No lock is held.")
        return
    columns = [
        Column("KIND", lambda lock: lock.kind),
        Column("NAME", lambda lock: lock.name, "cut"),
        Column("JOB", lambda lock: lock.job or "-", "cut"),
        Column("OWNER", lambda lock: lock.owner or f"({lock.status})", "cut"),
        Column("SINCE", lambda lock: moment(lock.acquired_at), "keep", without_distance),
        Column("UNTIL", lambda lock: "-" if lock.expires_at is None else moment(lock.expires_at)),
        Column("EXECUTION", lambda lock: lock.execution_id or "-", "drop"),
    ]
    print_table(columns, found.items)
    if found.next_cursor is not None:
        click.echo(f"There are more. Go on with: --cursor '{found.next_cursor}'")
