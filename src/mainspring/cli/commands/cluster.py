"""`mainspring workers` and `mainspring locks`: the running processes, and the locks they hold."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ...app.mainspring import Mainspring
from ...core.locks import LockNotFound
from ...core.render.entities import lock_json, worker_json
from ...core.views.records import LockView, WorkerView
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
    """Named locks: who holds them, since when, until when."""


@locks.command("list")
@client_options
def list_locks(session: ClientSession) -> None:
    """Every lock that is held."""
    found = session.call(lambda app: app.locks.all())
    session.show([lock_json(lock) for lock in found], lambda: _print_locks(found))


@locks.command("release")
@click.argument("name")
@client_options
def release_lock(session: ClientSession, name: str) -> None:
    """Take a lock from its holder, without notice: use it when the holder is gone."""

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


def _print_locks(found: Sequence[LockView]) -> None:
    if not found:
        click.echo("No lock is held.")
        return
    columns = [
        Column("LOCK", lambda lock: lock.name),
        Column("OWNER", lambda lock: lock.owner, "cut"),
        Column("SINCE", lambda lock: moment(lock.acquired_at)),
        Column("UNTIL", lambda lock: moment(lock.expires_at)),
    ]
    print_table(columns, found)
