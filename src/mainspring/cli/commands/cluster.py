"""`mainspring workers` and `mainspring locks`: who takes part, and who holds what."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ...app.mainspring import Mainspring
from ...core.locks import LockNotFound
from ...core.render.entities import lock_shape, worker_shape
from ...core.views.records import LockView, WorkerView
from ..ids import short_id
from ..root import EXIT_CODES, CommandGroup
from ..screens.output import moment, without_distance
from ..screens.table import Way, print_table
from ..session import Session, client_options, now, operator


@click.command()
@client_options
def workers(session: Session) -> None:
    """Processes that take part now, with their last heartbeat."""
    found = session.call(lambda app: app.workers())
    session.show([worker_shape(worker) for worker in found], lambda: _print_workers(found))


@click.group(cls=CommandGroup, epilog=EXIT_CODES)
def locks() -> None:
    """Named locks: who holds them, since when, until when."""


@locks.command("list")
@client_options
def list_locks(session: Session) -> None:
    """Every lock that is held."""
    found = session.call(lambda app: app.locks.all())
    session.show([lock_shape(lock) for lock in found], lambda: _print_locks(found))


@locks.command("release")
@click.argument("name")
@client_options
def release_lock(session: Session, name: str) -> None:
    """Take a lock from whoever holds it. Its holder is not told: use it when the holder is gone."""

    async def work(app: Mainspring) -> bool:
        known = [lock.name for lock in await app.locks.all()]
        if name not in known:
            raise LockNotFound(name, known)
        return await app.locks.release(name, by=operator())

    released = session.call(work)
    text = f"lock {name!r} released" if released else f"lock {name!r} was not held any more"
    session.show({"lock": name, "released": released}, lambda: click.echo(text))


def _print_workers(found: Sequence[WorkerView]) -> None:
    if not found:
        click.echo("No process is running. Start one with: mainspring run MODULE:APP")
        return
    titles: dict[str, Way] = {
        "WORKER": "keep",
        "HOST": "cut",
        "PID": "keep",
        "RUNNING": "keep",
        "LAST HEARTBEAT": "keep",
        "ROLES": "drop",
        "QUEUES": "drop",
        "STARTED": "drop",
        "VERSION": "drop",
    }
    at = now()
    rows = [
        [
            worker.id,
            worker.host,
            str(worker.pid),
            f"{worker.running}/{worker.concurrency}",
            moment(worker.last_heartbeat_at, at),
            ",".join(worker.roles),
            "all" if worker.queues is None else ",".join(worker.queues),
            moment(worker.started_at, at),
            worker.version,
        ]
        for worker in found
    ]
    print_table(titles, rows, {0: short_id, 4: without_distance})


def _print_locks(found: Sequence[LockView]) -> None:
    if not found:
        click.echo("No lock is held.")
        return
    at = now()
    rows = [[lock.name, lock.owner, moment(lock.acquired_at, at), moment(lock.expires_at, at)] for lock in found]
    print_table({"LOCK": "keep", "OWNER": "cut", "SINCE": "keep", "UNTIL": "keep"}, rows)
