"""Named locks for users: held across processes, renewed while held, with a fencing token. And the list of everything
that is held: named locks, and the keys of live executions.

async with app.lock("import", ttl="1m") as lock:
    write(..., fence=lock.token)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, NamedTuple, TypeAlias

from ..model.errors import CommandRefused, InvalidValue, LeaseLost, MainspringError, NotFound
from ..model.store.messages import Audit, HeldKey, LockRow
from ..model.values.reading import duration
from .loops import Emit, Outage, trouble
from .ports import Clock, LockBackend, Store

POLL = 0.2
MAX_NAME = 200
KINDS = ("lock", "overlap", "unique")
"""What is held, in the order of the list: named locks, then the keys of executions."""

Held: TypeAlias = LockRow | HeldKey


class HeldPage(NamedTuple):
    """`next_cursor` is where to continue; None after the last row."""

    rows: list[Held]
    next_cursor: str | None


class LockTaken(MainspringError):
    """Another owner holds the lock, and the caller did not wait for it or waited too long."""

    def __init__(self, name: str, holder: str = "another owner") -> None:
        super().__init__(name, holder)
        self.name, self.holder = name, holder

    def __str__(self) -> str:
        return f"lock {self.name!r} is held by {self.holder}"


class LockNotFound(NotFound):
    noun = "lock"


class HeldByExecution(CommandRefused):
    """A key that nobody but its execution releases: others would run beside it."""

    def __init__(self, held: HeldKey) -> None:
        super().__init__("release", held.state, ["no execution holds it"], f"{held.kind} key {held.key!r}")
        self.held = held

    def __str__(self) -> str:
        held = self.held
        where = f"{held.state} on {held.owner}" if held.owner else held.state
        return (
            f"cannot release {self.subject}: execution {held.execution_id} of job {held.job!r} holds it ({where}) "
            f"until it ends; cancel that execution instead (`mainspring executions cancel {held.execution_id}`)"
        )


class Locks:
    """Locks of an application, whichever backend keeps them. `audit` makes the record of a release."""

    def __init__(
        self,
        backend: LockBackend,
        store: Store,
        clock: Clock,
        emit: Emit,
        owner: str,
        audit: Callable[[str, str], Audit],
    ) -> None:
        self.backend, self._store = backend, store
        self._clock, self._emit, self._owner, self._audit = clock, emit, owner, audit

    def lock(self, name: str, ttl: Any, hold_at_least: Any, wait: Any) -> Lock:
        return Lock(self.backend, self._clock, self._emit, self._owner, name, ttl, hold_at_least, wait)

    async def try_lock(self, key: str, ttl: Any) -> bool:
        return await self.backend.lock_take(lock_name(key), self._owner, duration("ttl", ttl)) is not None

    async def unlock(self, key: str) -> bool:
        return await self.backend.lock_release(lock_name(key), None)

    async def release(self, name: str, by: str) -> bool:
        """By an administrator: the holder is not asked, and an audit record says who did it."""
        if await self.backend.lock_release(name, None, audit=self._audit(f"lock:{name}", by)):
            return True
        for kind in KINDS[1:]:
            if (found := await self._held(kind, name, 1)) and cursor_of(found[0]) == f"{kind}:{name}":
                assert isinstance(found[0], HeldKey)
                raise HeldByExecution(found[0])
        return False

    async def page(self, limit: int = 1_000, cursor: str | None = None) -> HeldPage:
        """Everything that is held, by kind and name, each kind along an index."""
        kind, _, first = (cursor or "lock:").partition(":")
        if kind not in KINDS:
            raise InvalidValue("cursor", cursor, "`next_cursor` of the page before")
        rows: list[Held] = []
        for each in KINDS[KINDS.index(kind) :]:
            rows += await self._held(each, first if each == kind else "", limit + 1 - len(rows))
            if len(rows) > limit:
                return HeldPage(rows[:limit], cursor_of(rows[limit]))
        return HeldPage(rows, None)

    async def _held(self, kind: str, first: str, limit: int) -> Sequence[Held]:
        if kind == "lock":
            return await self.backend.locks(first, limit)
        return await self._store.held_keys("overlap" if kind == "overlap" else "unique", first, limit)


class Lock:
    """A named lock, which `app.lock` returns: `async with app.lock("import", ttl="1m") as lock: ...`."""

    def __init__(
        self,
        backend: LockBackend,
        clock: Clock,
        emit: Emit,
        owner: str,
        name: str,
        ttl: Any,
        hold_at_least: Any = 0,
        wait: Any = 0,
    ) -> None:
        self._backend, self._clock, self._emit, self._owner = backend, clock, emit, owner
        self.name = lock_name(name)
        """The name of the lock."""
        self._ttl = duration("ttl", ttl)
        self._hold = duration("hold_at_least", hold_at_least, allow_zero=True)
        self._wait = None if wait is None else duration("wait", wait, allow_zero=True)
        self._row: LockRow | None = None
        self._renewal: asyncio.Task[None] | None = None
        self._lost = False
        self._asked = self._ours_until = self._hold_until = 0.0  # monotonic time

    @property
    def token(self) -> int:
        """The fencing token, which grows with every holder. Pass it to the system that you write to, so that the system
        can refuse an older holder."""
        return self._held().token

    @property
    def held(self) -> bool:
        """Whether this process still holds it: no renewal was refused, and it has not expired."""
        return self._row is not None and not self._lost and self._clock.monotonic() < self._ours_until

    def check(self) -> None:
        """Raise `LeaseLost` if the lock could not be renewed in time."""
        if not self.held:
            raise LeaseLost(f"lock {self.name!r} is no longer held")

    async def __aenter__(self) -> Lock:
        self._row = await self._take()
        self._hold_until = self._clock.monotonic() + self._hold
        self._renewal = asyncio.create_task(self._renew(), name=f"lock-{self.name}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.gather(self._renewal, return_exceptions=True)
        row, self._row = self._held(), None
        left = self._hold_until - self._clock.monotonic()
        try:
            await self._backend.lock_release(row.name, row.token, keep_for=max(0.0, left))
        except Exception as error:  # the work is done, and the lock expires
            self._emit(trouble("locks", error))

    async def _take(self) -> LockRow:
        began = self._clock.monotonic()
        while True:
            self._asked, time = self._clock.monotonic(), max(self._ttl, self._hold)
            row = await self._backend.lock_take(self.name, self._owner, time)
            if row is not None:
                self._ours_until = self._asked + time
                return row
            if self._wait is not None and self._clock.monotonic() - began >= self._wait:
                raise LockTaken(self.name, await self._holder())
            await asyncio.sleep(POLL)

    async def _holder(self) -> str:
        held = await self._backend.locks(self.name, 1)
        return held[0].owner if held and held[0].name == self.name else "another owner"

    async def _renew(self) -> None:
        """Renew at a third of the time, counted from the request before; once refused, the lock is lost. A renewal does
        not shorten the time for which the lock is held at least."""
        outage = Outage("locks", self._emit)
        while not self._lost:
            await asyncio.sleep(max(0.0, self._asked + self._ttl / 3 - self._clock.monotonic()))
            self._asked = self._clock.monotonic()
            time = max(self._ttl, self._hold_until - self._asked)
            try:
                renewed = await self._backend.lock_renew(self.name, self.token, time)
            except Exception as error:  # tried again
                outage.failed(error, self._clock.monotonic())
                continue
            outage.worked(self._clock.monotonic())
            if renewed:
                self._ours_until = self._asked + time
            else:
                self._lost = True

    def _held(self) -> LockRow:
        if self._row is None:
            raise LeaseLost(f"lock {self.name!r} is not held")
        return self._row


def cursor_of(row: Held) -> str:
    """Where a page begins with this row."""
    return f"lock:{row.name}" if isinstance(row, LockRow) else f"{row.kind}:{row.key}"


def lock_name(name: str) -> str:
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME or not name.isprintable():
        raise InvalidValue("lock name", name, f"printable text of 1 to {MAX_NAME} characters")
    return name


def suggested_ttl(expected_seconds: float) -> float:
    """How long a fire-and-forget lock should last for work of this length."""
    for longest, ttl in ((60, 5 * 60), (10 * 60, 30 * 60), (60 * 60, 2 * 3600)):
        if expected_seconds < longest:
            return float(ttl)
    return 2.0 * expected_seconds
