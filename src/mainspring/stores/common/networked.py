"""The base of stores on a server: opening and closing, and wake-ups between the processes that share the server."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from ...core.ports import Topic, Unsubscribe
from ...model.errors import StoreError
from .event_loops import PerLoop
from .listeners import Listeners


class OpenConnections(Protocol):
    """What a store holds while it is open. `listener` receives the wake-ups that the `announcers` of other processes
    send: it has `start()` and `hears`, they have `announce(topics)`."""

    listener: Any
    announcers: PerLoop[Any]

    async def close(self) -> None: ...


OpenedT = TypeVar("OpenedT", bound=OpenConnections)


class NetworkedStore(ABC, Generic[OpenedT]):
    def __init__(self) -> None:
        self._listeners = Listeners()
        self._opened: OpenedT | None = None

    @abstractmethod
    async def _connect(self, listeners: Listeners) -> OpenedT:
        """Connect, and bring the schema up to this release. `listeners` are to be woken by other processes."""

    async def open(self) -> None:
        if self._opened is not None:
            return
        opened = await self._connect(self._listeners)
        if self._opened is None:
            self._opened = opened
        else:  # another call of `open` was faster
            await opened.close()

    async def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()

    @property
    def opened(self) -> OpenedT:
        if self._opened is None:
            raise StoreError("the store is not open; call `await store.open()` first")
        return self._opened

    def listen(self, callback: Callable[[Topic], None]) -> Unsubscribe:
        self.opened.listener.start()
        return self._listeners.add(callback)

    @property
    def hears(self) -> bool:
        """Whether wake-ups of other processes are known to come in."""
        return self._opened is not None and bool(self._opened.listener.hears)

    def wake(self, topics: Iterable[Topic]) -> None:
        """Wake the listeners of this process at once, those of other processes very soon."""
        if topics := set(topics):
            self._listeners.wake(topics)
            self.opened.announcers.here().announce(topics)
