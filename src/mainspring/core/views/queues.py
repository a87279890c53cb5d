"""Views of queues and handlers: what waits and runs there, which workers serve them, and their controls."""

from __future__ import annotations

from datetime import datetime

import msgspec


class PauseView(msgspec.Struct, frozen=True, kw_only=True):
    """A pause of a queue or a handler. `resume_at` is its automatic end."""

    since: datetime
    by: str | None
    note: str | None = None
    resume_at: datetime | None = None


class QueueHandler(msgspec.Struct, frozen=True, kw_only=True):
    """The executions of one handler in a queue."""

    name: str
    ready: int
    planned: int
    parked: int
    running: int
    paused: bool


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    """A queue at one moment.

    `ready` are executions that could begin now, `planned` are due later (or wait for their retry, or for a paused job),
    `parked` wait for a limit. `oldest` is how many seconds the oldest ready one has been due. `rate_in` and `rate_out`
    are executions per minute over the last five minutes: added, and ended. `concurrency` and `rate` (per second) are
    the ceilings that operators set. `workers` are processes that serve the queue, `workers_alive` those with a recent
    heartbeat, `slots` how many executions these can run at once. A queue that Mainspring keeps for itself is its `own`:
    nobody has to serve it with a worker, and nobody can pause it.
    """

    name: str
    own: bool = False
    ready: int = 0
    planned: int = 0
    parked: int = 0
    running: int = 0
    oldest: float | None = None
    next_due_at: datetime | None = None
    rate_in: float = 0.0
    rate_out: float = 0.0
    workers: int = 0
    workers_alive: int = 0
    slots: int = 0
    pause: PauseView | None = None
    concurrency: int | None = None
    rate: float | None = None
    handlers: tuple[QueueHandler, ...] = ()

    @property
    def paused(self) -> bool:
        return self.pause is not None


class HandlerView(msgspec.Struct, frozen=True, kw_only=True):
    """A handler that a running worker has, or that an operator paused."""

    name: str
    workers: int
    ready: int = 0
    running: int = 0
    pause: PauseView | None = None

    @property
    def paused(self) -> bool:
        return self.pause is not None


class ScaleView(msgspec.Struct, frozen=True, kw_only=True):
    """What an autoscaler needs to know about one queue, or about all of them. `due` are executions that a further
    process could begin at once. `oldest` and `next_due` are seconds; `next_due` is None if nothing is planned."""

    queue: str | None
    due: int
    running: int
    oldest: float
    next_due: float | None
    capacity: int
    processes: int
    wanted: int
