"""`mainspring workers` and `mainspring locks`: the running processes, and the locks they hold."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ....app.mainspring import Mainspring
from ....core.locks import LockNotFound
from ....core.render.entities import lock_json, worker_json
from ....core.views.records import LockPage, WorkerView, worker_view
from ...completion import names_of
from ...parameters import short_id
from ...root import EXIT_CODES, CommandGroup, example
from ...screens.output import moment, without_distance
from ...screens.output import note as hint
from ...screens.table import Column, print_table
from ...session import ClientSession, client_options, operator
from ...terminal import echo


@example("workers list", "workers drain 0198f0aa")
@click.group(cls=CommandGroup, epilog=EXIT_CODES, invoke_without_command=True)
@client_options
@click.pass_context
def workers(context: click.Context, session: ClientSession) -> None:
    """Running processes, with their last heartbeat. Drain one, so that it takes no more work."""
    if context.invoked_subcommand is None:
        _list_workers(session)


@example("workers list --silent")
@workers.command("list")
@click.option(
    "--silent", is_flag=True, help="Instead, the processes of the last hour that sent no heartbeat within their lease."
)
@client_options
def list_workers(session: ClientSession, silent: bool) -> None:
    """Running processes, with their last heartbeat; or those that fell silent."""
    _list_workers(session, silent)


@example('workers drain 0198f0aa --note "kernel update"')
@workers.command("drain")
@click.argument("id", shell_complete=names_of("worker"))
@click.option("--note", help="The reason; shown with the drain.")
@client_options
def drain_worker(session: ClientSession, id: str, note: str | None) -> None:
    """Drain a process: it takes no more work and finishes what it runs. ID may be the beginning or the end of its
    id."""
    drained = session.call(lambda app: app.drain_worker(id, note=note, by=operator()))
    session.show({"id": drained, "draining": True}, lambda: echo(f"worker {drained} takes no more work"))


@example("workers undrain 0198f0aa")
@workers.command("undrain")
@click.argument("id", shell_complete=names_of("worker"))
@client_options
def undrain_worker(session: ClientSession, id: str) -> None:
    """Let a drained process take work again."""
    worker = session.call(lambda app: app.undrain_worker(id, by=operator()))
    session.show({"id": worker, "draining": False}, lambda: echo(f"worker {worker} takes work again"))


def _list_workers(session: ClientSession, only_silent: bool = False) -> None:
    async def work(app: Mainspring) -> tuple[list[WorkerView], list[WorkerView]]:
        silent = await (await app._runtime.engine()).queries.silent_workers()
        return await app.workers(), sorted(map(worker_view, silent), key=lambda worker: worker.last_heartbeat_at)

    alive, silent = session.call(work)
    found = silent if only_silent else alive
    session.show([worker_json(worker) for worker in found], lambda: _print_workers(found, only_silent))
    if silent and not only_silent:
        hint(f"{len(silent)} fell silent within the last hour: mainspring workers list --silent")


@example("locks list", "locks release import")
@click.group(cls=CommandGroup, epilog=EXIT_CODES)
def locks() -> None:
    """Named locks and the keys of executions, which keep other work from running: who holds each, since when, until
    when."""


@example("locks list --limit 20")
@locks.command("list")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="At most this many.")
@click.option("--cursor", help="Continue from this cursor, which the previous page printed.")
@client_options
def list_locks(session: ClientSession, limit: int, cursor: str | None) -> None:
    """Named locks, then the keys that running and waiting executions hold against others."""
    found = session.call(lambda app: app.locks.page(limit, cursor))
    data = {"items": [lock_json(lock) for lock in found.items], "next_cursor": found.next_cursor}
    session.show(data, lambda: _print_locks(found))
    if found.next_cursor is not None:
        hint(f"There are more. Go on with: --cursor '{found.next_cursor}'")


@example("locks release import")
@locks.command("release")
@click.argument("name", shell_complete=names_of("lock"))
@client_options
def release_lock(session: ClientSession, name: str) -> None:
    """Release a named lock without notifying its holder: use this when the holder is gone."""

    async def work(app: Mainspring) -> None:
        if not await app.locks.release(name, by=operator()):
            raise LockNotFound(name, [lock.name for lock in (await app.locks.page()).items])

    session.call(work)
    session.show({"lock": name, "released": True}, lambda: echo(f"lock {name!r} released"))


def _print_workers(found: Sequence[WorkerView], silent: bool) -> None:
    if not found:
        none = "No process is running. Start one with: mainspring run MODULE:APP"
        echo("No process is silent." if silent else none)
        return
    columns = [
        Column("WORKER", lambda worker: worker.id, "keep", short_id),
        Column("STATE", lambda worker: "silent" if silent else "draining" if worker.draining else "alive"),
        Column("LAST HEARTBEAT", lambda worker: moment(worker.last_heartbeat_at), "keep"),
        Column("HOST", lambda worker: worker.host, "cut"),
        Column("PID", lambda worker: str(worker.pid)),
        Column("RUNNING", lambda worker: f"{worker.running}/{worker.concurrency}"),
        Column("APPLICATION", lambda worker: worker.application or "-", "drop"),
        Column("RELEASE", lambda worker: worker.release or "-", "drop"),
        Column("ROLES", lambda worker: ",".join(worker.roles), "drop"),
        Column("QUEUES", lambda worker: "all" if worker.queues is None else ",".join(worker.queues), "drop"),
        Column("STARTED", lambda worker: moment(worker.started_at), "drop"),
        Column("VERSION", lambda worker: worker.version, "drop"),
    ]
    print_table(columns, found)


def _print_locks(found: LockPage) -> None:
    if not found.items:
        echo("No lock is held.")
        return
    columns = [
        Column("KIND", lambda lock: lock.kind),
        Column("NAME", lambda lock: short_id(lock.name), "cut", readable=16),
        Column("JOB", lambda lock: lock.job or "-", "cut", readable=16),
        Column("OWNER", lambda lock: short_id(lock.owner) if lock.owner else f"({lock.status})", "cut"),
        Column("SINCE", lambda lock: moment(lock.acquired_at), "keep", without_distance),
        Column("UNTIL", lambda lock: moment(lock.expires_at), "keep", without_distance),
        Column("EXECUTION", lambda lock: lock.execution_id or "-", "drop"),
    ]
    print_table(columns, found.items)
