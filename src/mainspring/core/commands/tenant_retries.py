"""The tenants of a parent: their records, and a retry of those that failed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from ...model.errors import CommandRefused
from ...model.execution import FINAL, ExecutionRow, State
from ...model.store.messages import ExecutionQuery
from ...model.values.reading import whole
from ..ports import Store
from ..queries.execution_lists import MAX_OFFSET, MAX_PAGE
from ..queries.queries import Queries, states_of
from .steering import RETRYABLE
from .trigger import ManualRuns

PAGE = 500
TRIES = 5
"""How often a page is read if tenants changed their states meanwhile."""
ORDER = (
    *(State.FAILED, State.PARTIAL, State.SKIPPED, State.CANCELLED),
    *(State.RUNNING, State.WAITING, State.PENDING, State.COMPLETED),
)
"""What a reader has to know first comes first."""


class TenantRun(msgspec.Struct, frozen=True, kw_only=True):
    """The run of one tenant in an execution that ran for many of them."""

    tenant: str
    """The name of the tenant."""
    execution_id: str
    """The execution of this tenant."""
    status: State
    """Its state."""
    attempts: int
    """How many attempts began."""
    max_attempts: int
    """How many attempts it may have."""
    started_at: datetime | None
    """When its first attempt began."""
    finished_at: datetime | None
    """When it ended."""
    next_try_at: datetime | None
    """When it is tried again, if it waits for a retry."""
    duration_ms: float | None
    """How long it took, in milliseconds."""
    error: str | None
    """The error of its last failed attempt."""
    reason: str | None
    """Why it ended as it did, where that needs a reason."""


class TenantPage(msgspec.Struct, frozen=True):
    """A page of records, and how many tenants are in each state."""

    items: list[TenantRun]
    counts: dict[State, int]

    @property
    def total(self) -> int:
        return sum(self.counts.values())


class TenantRuns:
    def __init__(self, store: Store, runs: ManualRuns, queries: Queries) -> None:
        self._store, self._runs, self._queries = store, runs, queries

    async def page(
        self, id: str, status: str | Iterable[str] | None = None, limit: int = 100, offset: int = 0
    ) -> TenantPage:
        """Failed tenants come first, completed ones last, each in the order of the parent's list. An execution that is
        no parent has none."""
        whole("limit", limit, 1, MAX_PAGE)
        whole("offset", offset, 0, MAX_OFFSET)
        wanted = states_of(status)
        parent = await self._queries.get(id)
        for tried in range(TRIES):
            found = await self._store.children(parent.id)
            counts = {each: found[each] for each in ORDER if found.get(each) and (wanted is None or each in wanted)}
            page = TenantPage(await self._runs_of(parent, counts, limit, offset), counts)
            if tried == TRIES - 1 or len(page.items) == min(limit, max(0, page.total - offset)):
                return page
        raise AssertionError("unreachable")

    async def _runs_of(
        self, parent: ExecutionRow, counts: Mapping[State, int], limit: int, offset: int
    ) -> list[TenantRun]:
        """One state after the other. A tenant that changes its state meanwhile may be missed: then there are fewer runs
        than were counted."""
        items: list[TenantRun] = []
        for state, count in counts.items():
            if offset >= count or len(items) == limit:
                offset = max(0, offset - count)
                continue
            query = ExecutionQuery(
                parent_id=parent.id,
                states=frozenset({state}),
                limit=limit - len(items),
                offset=offset,
                oldest_first=True,
            )
            items += [run_of(each) for each in await self._store.find(query) if each.tenant is not None]
            offset = 0
        return items

    async def retry_failed(self, id: str, *, by: str, as_id: str | None = None) -> ExecutionRow:
        """A new parent for those tenants of this one that did not complete."""
        if as_id is not None and (made := await self._store.execution(as_id)) is not None:
            return made
        seen = await self._runs.claims.count(id)
        parent = await self._queries.get(id)
        if not parent.fans_out:
            allowed = ["it has run for several tenants; retry it as a whole"]
            raise CommandRefused("retry", "without tenants", allowed, f"execution {parent.id}")
        if parent.state not in RETRYABLE:
            raise CommandRefused("retry", parent.state, sorted(RETRYABLE), f"execution {parent.id}")
        tenants = await self._unfinished(parent)
        if not tenants:
            why = "failed before it had tenants" if parent.state is not State.PARTIAL else "without failed tenants"
            allowed = ["some of its tenants did not complete; retry it as a whole"]
            raise CommandRefused("retry", why, allowed, f"execution {parent.id}")
        return await self._runs.retry(parent, by, seen, as_id, tenants)

    async def _unfinished(self, parent: ExecutionRow) -> list[str]:
        """In the order of the parent's list. Every tenant of an ended parent has a record, unless retention has deleted
        it."""
        left = FINAL - {State.COMPLETED}
        query = ExecutionQuery(parent_id=parent.id, states=left, limit=PAGE, oldest_first=True)
        names: list[str] = []
        while page := await self._store.find(query):
            names += [each.tenant for each in page if each.tenant is not None]
            query = msgspec.structs.replace(query, after=page[-1].id)
        return names


def run_of(execution: ExecutionRow) -> TenantRun:
    assert execution.tenant is not None, "the execution of a tenant"
    again = execution.state is State.PENDING and execution.attempted
    return TenantRun(
        tenant=execution.tenant,
        execution_id=execution.id,
        status=execution.state,
        attempts=len(execution.attempts) + (execution.state is State.RUNNING),
        max_attempts=execution.rules.max_attempts,
        started_at=execution.started_at,
        finished_at=execution.finished_at,
        next_try_at=execution.start_at if again else None,
        duration_ms=execution.duration_ms,
        error=execution.error,
        reason=execution.reason,
    )
