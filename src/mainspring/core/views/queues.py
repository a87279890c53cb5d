"""Views of queues and handlers: what waits and runs there, which workers serve them, and their controls."""

from __future__ import annotations

from datetime import datetime

import msgspec


class PauseView(msgspec.Struct, frozen=True, kw_only=True):
    """A pause of a queue or a handler."""

    since: datetime
    """When it began."""
    by: str | None
    """Who paused it."""
    note: str | None = None
    """What they wrote about it."""
    resume_at: datetime | None = None
    """Its automatic end."""


class QueueHandler(msgspec.Struct, frozen=True, kw_only=True):
    """The executions of one handler in a queue."""

    name: str
    """The name of the handler."""
    ready: int
    """Its executions that could begin now."""
    planned: int
    """Its executions that are due later."""
    parked: int
    """Its executions that wait for a limit."""
    running: int
    """Its executions that run."""
    paused: bool
    """Whether the handler is paused."""


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    """A queue at one moment."""

    name: str
    """Its name."""
    own: bool = False
    """Whether it is Mainspring's own queue, which you need not serve and cannot pause."""
    ready: int = 0
    """Executions that could begin now."""
    planned: int = 0
    """Executions that are due later, or wait for their retry or for a paused job."""
    parked: int = 0
    """Executions that wait for a limit."""
    running: int = 0
    """Executions that run."""
    oldest: float | None = None
    """How many seconds the oldest ready one has been due."""
    next_due_at: datetime | None = None
    """When the next planned one is due."""
    rate_in: float = 0.0
    """Executions added per minute, over the last five minutes."""
    rate_out: float = 0.0
    """Executions ended per minute, over the last five minutes."""
    workers: int = 0
    """Processes that serve it."""
    workers_alive: int = 0
    """Those with a recent heartbeat."""
    slots: int = 0
    """How many executions these can run at once."""
    pause: PauseView | None = None
    """The pause of the queue, if it is paused."""
    concurrency: int | None = None
    """How many executions of the queue may run at once, if an operator set a ceiling."""
    rate: float | None = None
    """How many may begin per second, if an operator set a ceiling."""
    handlers: tuple[QueueHandler, ...] = ()
    """The same by handler."""

    @property
    def paused(self) -> bool:
        """Whether it is paused."""
        return self.pause is not None


class HandlerView(msgspec.Struct, frozen=True, kw_only=True):
    """A handler that a running worker has, or that an operator paused."""

    name: str
    """Its name."""
    workers: int
    """How many running workers have it."""
    ready: int = 0
    """Its executions that could begin now."""
    running: int = 0
    """Its executions that run."""
    pause: PauseView | None = None
    """The pause of the handler, if it is paused."""

    @property
    def paused(self) -> bool:
        """Whether it is paused."""
        return self.pause is not None


class ScaleView(msgspec.Struct, frozen=True, kw_only=True):
    """What an autoscaler needs to know about one queue, or about all of them."""

    queue: str | None
    """The queue; None for all."""
    due: int
    """Executions that a further process could begin at once."""
    running: int
    """Executions that run."""
    oldest: float
    """How many seconds the oldest due one has waited."""
    next_due: float | None
    """In how many seconds the next one is due; None if nothing is planned."""
    capacity: int
    """How many executions these processes can run at once."""
    processes: int
    """How many processes serve the queue."""
    wanted: int
    """How many processes there should be."""
