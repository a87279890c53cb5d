"""The part of the application object that is about tenants: what became of them, and running the failed ones again."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from ..core.commands.tenant_retries import TenantRun
from ..core.queries.queries import id_of
from ..core.views.execution import Execution

if TYPE_CHECKING:
    from .mainspring import Mainspring
    from .parts import Parts

T = TypeVar("T")


class TenantMethods:
    if TYPE_CHECKING:

        async def _ready(self) -> Parts: ...

    async def tenants(
        self,
        execution: Execution | str,
        *,
        status: str | Iterable[str] | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[TenantRun]:
        """The records of a parent's tenants: status, attempts, timings, error. Those that failed come first."""
        parts = await self._ready()
        return (await parts.tenants.page(id_of(execution), status, limit, offset)).items

    async def retry_failed(self, execution: Execution | str, *, by: str = "system") -> Execution:
        """Run a parent again, for those of its tenants only that did not complete; a new parent."""
        return Execution(await (await self._ready()).tenants.retry_failed(id_of(execution), by=by))


class SyncTenantMethods:
    """The same, blocking."""

    if TYPE_CHECKING:
        _app: Mainspring

        def _call(self, coroutine: Coroutine[Any, Any, T]) -> T: ...

    def tenants(self, execution: Execution | str, **options: Any) -> list[TenantRun]:
        return self._call(self._app.tenants(execution, **options))

    def retry_failed(self, execution: Execution | str, **options: Any) -> Execution:
        return self._call(self._app.retry_failed(execution, **options))
