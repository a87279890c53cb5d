"""An application under test: the user's own object on a store in memory and a clock that the test moves.

The application's code does not change: its store, clock, settings and resources are exchanged on entry, and put back on
exit.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar

from ..core.loops import inside_event_loop
from ..model.errors import InvalidValue
from ..model.values.payload import presentable
from ..model.values.reading import instant
from .clock import FakeClock
from .kit import BlockingKit, Kit, KitBase
from .recording import RecordingStore, immediately

if TYPE_CHECKING:
    from ..app.mainspring import Mainspring
    from ..app.parts import Parts
    from ..app.runtime import Runtime

FOR_A_TEST: dict[str, Any] = {
    "database_url": "memory://",
    "locks": "store",
    "redis_wakeups": False,
    "prune": False,
    "enabled": False,
}
"""Nothing reaches outside the process. Not enabled: code under test that starts the application, such as a web
framework, starts no second worker."""

_EXCHANGED = ("clock", "settings", "resources", "arguments", "given_store", "parts")


class harness:
    """`with harness(app) as kit:` in a plain test, `async with harness(app) as kit:` in an async one.

    - `start` is when the test begins: an instant, or text that is read in the application's zone  [2026-01-01 UTC];
    - `raise_errors=False` lets handlers fail and be retried, as in production;
    - `resources` replace those of the application that have the same name;
    - `patience` is how many seconds of real time a handler may take;
    - `seed` decides all that is left to chance: the jitter of retries, ids.
    """

    _blocking_kit: ClassVar[type[BlockingKit]] = BlockingKit
    _async_kit: ClassVar[type[Kit]] = Kit

    def __init__(
        self,
        app: Mainspring,
        *,
        start: datetime | str | None = None,
        clock: FakeClock | None = None,
        raise_errors: bool = True,
        resources: Mapping[str, Any] | None = None,
        patience: float = 30.0,
        seed: int = 0,
    ) -> None:
        self._app = _checked(app)
        if start is not None and clock is not None:
            raise InvalidValue("start", start, "nothing beside clock=", "A clock has its own start")
        self._clock = clock or _clock(app, start)
        self._resources = dict(resources or {})
        self._options = (raise_errors, float(patience), seed)
        self._before: dict[str, Any] | None = None
        self._had_facade = False

    # --- plain tests --------------------------------------------------------------------------------------
    def __enter__(self) -> BlockingKit:
        if inside_event_loop():
            raise RuntimeError(
                "this test has an event loop: write `async with harness(app) as kit`, and await its calls"
            )
        self._kit = self._blocking_kit(self._app, self._exchange(), self._clock, *self._options)
        return self._kit

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._kit.close()
        self._put_back()

    # --- async tests --------------------------------------------------------------------------------------
    async def __aenter__(self) -> Kit:
        return self.enter_async()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.exit_async()

    def enter_async(self) -> Kit:
        """Do what `async with` does at its start, for a fixture that is not a coroutine."""
        return self._async_kit(self._app, self._exchange(), self._clock, *self._options)

    def exit_async(self) -> None:
        """Do what `async with` does on exit."""
        self._put_back()

    # --- the exchange -------------------------------------------------------------------------------------
    def _exchange(self) -> RecordingStore:
        runtime = self._app._runtime
        if self._before is not None:
            raise RuntimeError("this harness is in use: make one of its own for every test")
        if runtime.parts is not None and runtime.parts.node is not None:
            raise RuntimeError("the application runs already: a test starts no application, the harness runs its jobs")
        _ = runtime.declares  # imports the modules that declare jobs, before anything is exchanged
        self._before = {name: getattr(runtime, name) for name in _EXCHANGED}
        self._had_facade = "sync" in vars(self._app)
        store = RecordingStore(self._clock)
        runtime.clock = self._clock
        runtime.settings = runtime.settings.with_changes(FOR_A_TEST)
        runtime.resources = {**runtime.resources, **self._resources}
        runtime.arguments = {**runtime.arguments, **FOR_A_TEST}
        runtime.given_store, runtime.parts = store, _seeded_parts(runtime, store, self._options[2])
        try:
            immediately(self._app.open())
        except BaseException:
            self._put_back()
            raise
        return store

    def _put_back(self) -> None:
        runtime, before = self._app._runtime, self._before
        assert before is not None
        _end_heartbeat(runtime.parts)
        if not self._had_facade and (facade := vars(self._app).pop("sync", None)) is not None:
            facade._caller.close()  # not `facade.close`, which refuses to block a running event loop
        for name, value in before.items():
            setattr(runtime, name, value)
        self._before = None


def _checked(app: Any) -> Mainspring:
    from ..app.mainspring import Mainspring

    if not isinstance(app, Mainspring):
        remedy = "Import the object that your jobs are declared on: from shop.jobs import app"
        raise InvalidValue("app", presentable(app), "a Mainspring object", remedy)
    return app


def _clock(app: Mainspring, start: datetime | str | None) -> FakeClock:
    return FakeClock() if start is None else FakeClock(instant("start", start, tz=app.settings.timezone))


def _seeded_parts(runtime: Runtime, store: RecordingStore, seed: int) -> Parts:
    """Made here and not by the application, so that all ids, from the first on, follow from the seed."""
    from ..app.parts import Parts

    parts = Parts(
        store,
        runtime.registry,
        runtime.settings,
        runtime.clock,
        runtime.emit,
        runtime.activity_counts,
        runtime.tracer_provider,
    )
    parts.chance.seed(seed)
    return parts


def _end_heartbeat(parts: Parts | None) -> None:
    """Work that was tracked inline has started a thread for its heartbeat. It ends when it sees the flag."""
    if parts is not None and parts.inline is not None:
        parts.inline._stopping = True
        parts.inline.wake()


__all__ = ["BlockingKit", "Kit", "KitBase", "harness"]
