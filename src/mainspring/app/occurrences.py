"""The part of the application object that is about single occurrences of jobs."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from ..core.queries.job_view import JobView

if TYPE_CHECKING:
    from .mainspring import Mainspring
    from .parts import Parts

T = TypeVar("T")


class OccurrenceMethods:
    if TYPE_CHECKING:

        async def _ready(self) -> Parts: ...

    async def skip_occurrence(self, name: str, at: Any, *, by: str = "system") -> JobView:
        """Leave out the run that is due at that instant; a record says by whom. Without an offset, `at` is a time in
        the zone of the job."""
        return await (await self._ready()).steering.skip_occurrence(name, at, by=by)

    async def move_occurrence(self, name: str, at: Any, to: Any, *, by: str = "system") -> JobView:
        """Run what is due at that instant at another one, earlier or later, with the window it would have had."""
        return await (await self._ready()).steering.move_occurrence(name, at, to, by=by)

    async def restore_occurrence(self, name: str, at: Any, *, by: str = "system") -> JobView:
        """Take back a skip or a move."""
        return await (await self._ready()).steering.restore_occurrence(name, at, by=by)


class SyncOccurrenceMethods:
    """The same, blocking."""

    _app: Mainspring

    if TYPE_CHECKING:

        def _call(self, coroutine: Coroutine[Any, Any, T]) -> T: ...

    def skip_occurrence(self, name: str, at: Any, *, by: str = "system") -> JobView:
        return self._call(self._app.skip_occurrence(name, at, by=by))

    def move_occurrence(self, name: str, at: Any, to: Any, *, by: str = "system") -> JobView:
        return self._call(self._app.move_occurrence(name, at, to, by=by))

    def restore_occurrence(self, name: str, at: Any, *, by: str = "system") -> JobView:
        return self._call(self._app.restore_occurrence(name, at, by=by))
