"""`mainspring queues` and `mainspring handlers`: what waits where, and the controls of operators."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import click

from ....app.mainspring import Mainspring
from ....core.render.queues import paused_handler_json, queue_json, scale_json
from ....core.views.queues import HandlerView, QueueView, ScaleView
from ....model.errors import nearest
from ....model.values.reading import duration
from ....model.values.terminal_text import one_line
from ...completion import names_of
from ...parameters import local_time
from ...root import EXIT_CODES, CommandGroup, example
from ...screens.output import note as hint
from ...screens.queues import ceiling, pause_words, print_handlers, print_queue, print_queues, waits
from ...session import ClientSession, client_options, operator
from ...terminal import echo

Command = TypeVar("Command", bound=Callable[..., Any])


def pause_options(command: Command) -> Command:
    """Adds `--note`, `--for` and `--until`. The command receives `note`, `resume_after` and `resume_at`; at most one of
    the last two is set."""
    note = click.option("--note", help="The reason; shown with the pause.")
    length = click.option(
        "--for",
        "resume_after",
        metavar="DURATION",
        callback=_length,
        help="Resume automatically after this time, such as 2h.",
    )
    end = click.option(
        "--until",
        "resume_at",
        metavar="TIME",
        is_eager=True,
        callback=lambda context, option, value: None if value is None else local_time("--until", value),
        help="Resume automatically at this time, such as 2026-03-01T08:00; without an offset: in your own zone.",
    )
    return note(length(end(command)))


def _length(context: click.Context, option: click.Parameter, value: str | None) -> float | None:
    if value is not None and context.params.get("resume_at") is not None:
        raise click.UsageError("--for and --until exclude each other; give one of them")
    return None if value is None else duration("--for", value)


@example("queues list --sort oldest", "queues limit mail --concurrency 5")
@click.group(cls=CommandGroup, epilog=EXIT_CODES)
def queues() -> None:
    """Queues: their waiting and running executions, their rates, and the workers that serve them. Pause one, or set its
    ceilings."""


@example("queues list --sort oldest")
@queues.command("list")
@click.option(
    "--sort",
    type=click.Choice(["name", "ready", "running", "oldest", "in", "out"]),
    default="name",
    show_default=True,
    help="The largest first, except for names.",
)
@client_options
def list_queues(session: ClientSession, sort: str) -> None:
    """Every queue with its waiting and running executions, its rates, and the number of processes it needs."""

    async def work(app: Mainspring) -> tuple[list[QueueView], ScaleView]:
        return await app.queues.all(), await app.queues.scale()

    found, scale = session.call(work)
    if sort != "name":
        field = {"in": "rate_in", "out": "rate_out"}.get(sort, sort)
        found.sort(key=lambda view: getattr(view, field) or 0.0, reverse=True)
    session.show([queue_json(view) for view in found], lambda: print_queues(found, scale))


@example("queues show mail")
@queues.command("show")
@click.argument("name", shell_complete=names_of("queue"))
@client_options
def show_queue(session: ClientSession, name: str) -> None:
    """One queue: its numbers, its pause and ceilings, and its handlers."""
    view, scale = session.call(lambda app: _with_scale(app, name))
    session.show({**queue_json(view), "scale": scale_json(scale)}, lambda: print_queue(view, scale))


@example('queues pause mail --note "mail server down" --for 2h')
@queues.command("pause")
@click.argument("name", shell_complete=names_of("queue"))
@pause_options
@client_options
def pause_queue(session: ClientSession, name: str, **pause: Any) -> None:
    """Pause a queue: within two seconds, no process begins executions of it until it is resumed. Running executions
    finish."""
    view, known = session.call(lambda app: _steered(app, app.queues.pause(name, by=operator(), **pause)))
    session.show(queue_json(view), lambda: echo(one_line(f"queue {name!r} is {pause_words(view.pause)}{waits(view)}")))
    _hint_at_queue(view, known)


@example("queues resume mail")
@queues.command("resume")
@click.argument("name", shell_complete=names_of("queue"))
@client_options
def resume_queue(session: ClientSession, name: str) -> None:
    """End the pause of a queue."""
    view = session.call(lambda app: app.queues.resume(name, by=operator()))
    session.show(queue_json(view), lambda: echo(f"queue {name!r} resumed: {view.ready} are ready"))


@example("queues limit mail --concurrency 5 --rate 100/m", "queues limit mail --off")
@queues.command("limit")
@click.argument("name", shell_complete=names_of("queue"))
@click.option("--concurrency", type=click.IntRange(1), help="At most this many run at once.")
@click.option("--rate", help="At most this many begin, such as 50/s or 100/m.")
@click.option("--off", is_flag=True, help="Remove both ceilings.")
@client_options
def limit_queue(session: ClientSession, name: str, concurrency: int | None, rate: str | None, off: bool) -> None:
    """Set the ceilings of a queue over all processes. A ceiling that you leave out is removed. Running executions are
    not stopped."""
    if off == (concurrency is not None or rate is not None):
        raise click.UsageError("give --concurrency, --rate or both; or --off to remove the ceilings")
    limiting: dict[str, Any] = {"concurrency": concurrency, "rate": rate}
    view, known = session.call(lambda app: _steered(app, app.queues.limit(name, by=operator(), **limiting)))
    session.show(queue_json(view), lambda: echo(f"queue {name!r}: {ceiling(view) or 'no ceiling'}"))
    if not off:
        _hint_at_queue(view, known)


@example("handlers list", "handlers pause send_invoice --for 2h")
@click.group(cls=CommandGroup, epilog=EXIT_CODES)
def handlers() -> None:
    """Handlers of all running workers. Pause a misbehaving one for all of them at once."""


@example("handlers list")
@handlers.command("list")
@client_options
def list_handlers(session: ClientSession) -> None:
    """Every handler that a running worker has, or that is paused."""
    found = session.call(lambda app: app.handlers.all())
    session.show([paused_handler_json(view) for view in found], lambda: print_handlers(found))


@example('handlers pause send_invoice --note "wrong totals" --for 2h')
@handlers.command("pause")
@click.argument("name", shell_complete=names_of("handler"))
@pause_options
@client_options
def pause_handler(session: ClientSession, name: str, **pause: Any) -> None:
    """Pause a handler: no process begins an execution of it until it is resumed, whatever its job or queue."""

    async def work(app: Mainspring) -> tuple[HandlerView, list[str]]:
        view = await app.handlers.pause(name, by=operator(), **pause)
        return view, [] if view.workers else [each.name for each in await app.handlers.all() if each.name != name]

    view, known = session.call(work)
    words = f"handler {name!r} is {pause_words(view.pause)}{waits(view)}"
    session.show(paused_handler_json(view), lambda: echo(one_line(words)))
    if not view.workers:
        near = nearest(name, known)
        remedy = f"did you mean {near!r}?" if near else "mainspring handlers list shows those they have"
        hint(f"no running worker has a handler {name!r}; {remedy}")


@example("handlers resume send_invoice")
@handlers.command("resume")
@click.argument("name", shell_complete=names_of("handler"))
@client_options
def resume_handler(session: ClientSession, name: str) -> None:
    """End the pause of a handler."""
    view = session.call(lambda app: app.handlers.resume(name, by=operator()))
    session.show(paused_handler_json(view), lambda: echo(f"handler {name!r} resumed: {view.ready} are ready"))


async def _with_scale(app: Mainspring, name: str) -> tuple[QueueView, ScaleView]:
    return await app.queues.get(name), await app.queues.scale(name)


async def _steered(app: Mainspring, command: Awaitable[QueueView]) -> tuple[QueueView, list[str]]:
    """The queue, and the names of those that jobs and executions use."""
    view = await command
    used = {each.queue for each in await app.jobs(limit=1_000)}
    used |= {each.name for each in await app.queues.all() if each.ready or each.planned or each.running}
    return view, sorted(used)


def _hint_at_queue(view: QueueView, known: Sequence[str]) -> None:
    """A queue may be steered before it is used; more often its name is misspelt."""
    if view.name not in known:
        near = nearest(view.name, known)
        remedy = f"did you mean {near!r}?" if near else "mainspring queues list shows those in use"
        hint(f"nothing uses a queue {view.name!r} yet; {remedy}")
