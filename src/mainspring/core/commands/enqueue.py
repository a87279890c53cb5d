"""Enqueue: one execution or ten thousand, checked, made and added to the store.

Most calls ask for nothing but parameters. What the executions of one job have in common is then worked out once, as an
`ExecutionMaker`; each execution still has its own instant, id and parameters. All parameters of a large batch are
checked first, as drafts, and the executions are made while the store is busy with the part before.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from inspect import isawaitable
from math import ceil
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import msgspec

from ...model.errors import CommandRefused, HandlerNotFound, InvalidValue, JobNotFound, nearest
from ...model.events import Skipped
from ...model.execution import ExecutionRow, State
from ...model.job import Job
from ...model.policies import Unique
from ...model.store.batches import ExecutionTemplate, batch_of
from ...model.store.messages import Added, Audit
from ...model.time.instants import Micros, seconds_to_micros, to_micros
from ...model.values.ids import Chance, RandomIds
from ...model.values.payload import encode_payload, presentable
from ...model.values.reading import SYSTEM_PREFIX, duration, identifier, instant, whole, words
from ..cancelling import cancel_superseded
from ..declaring.registry import Registry
from ..declaring.signature import Signature
from ..declaring.tenant_options import check_tenant, refuse_unknown_tenants
from ..emitting import emit_enqueued
from ..jobs.job_cache import JobCache
from ..loops import Emit
from ..ports import CallerTransaction, Clock, Store
from ..rules import new_execution
from ..rules.edited_params import ParamsEdit, edited
from ..rules.limits import depends_on_execution
from ..rules.new_execution import secret_of_retry
from ..rules.search_keys import search_labels
from ..rules.secret_params import hide, keep, refuse_mask
from ..store_clock import StoreClock
from .unique_periods import UniquePeriods, check_lasting, refuse_lasting

MANY = 10_000
"""Executions handed to the store at once: it may send them in parts that overlap, but commits no more at a time."""
PART = 2_000
"""Executions of a large batch that are made while the store adds the part before."""
PARTS_AT_ONCE = 2
REREAD_JOB_AFTER = 1_000
MAX_MAKERS = 1_000
DELAYS_BELOW = 1_000_000_000
"""As an instant, a smaller number lies before 2001: the caller meant a delay."""

_DEFAULTS: Mapping[str, Any] = {
    **dict.fromkeys(("start_at", "priority", "queue", "unique", "traceparent", "metadata", "tenant", "share")),
    "by": "system",
}
_NO_OPTIONS: Mapping[str, Any] = {}

EncodeParams = Callable[[Job, Any], str]
Item = TypeVar("Item")
Result = TypeVar("Result")


class Enqueuer:
    def __init__(
        self,
        store: Store,
        registry: Registry,
        job_cache: JobCache,
        clock: StoreClock,
        chance: Chance,
        emit: Emit,
        payload_limit: int,
    ) -> None:
        self._store, self._registry, self._job_cache = store, registry, job_cache
        self._clock, self._chance, self._emit = clock, chance, emit
        self.payload_limit = payload_limit
        self._makers: dict[str, ExecutionMaker] = {}
        self._revision = registry.revision  # of the handlers whose signatures the makers know
        self._periods = UniquePeriods(store, clock, emit)

    # --- enqueue ------------------------------------------------------------------------------------------
    async def enqueue(
        self, handler: object, params: Mapping[str, Any] | None = None, *, connection: Any = None, **options: Any
    ) -> ExecutionRow | None:
        """Add one execution; None when its unique key is taken."""
        if connection is None and not options:  # nearly always
            maker = self._maker_of(await self._enqueueable(handler))
            return (await self.add(maker.make_many((maker.encode(params),))))[0]
        execution = await self.prepare(handler, params, **options)
        unique = options.get("unique")
        if isinstance(unique, Unique) and unique.lasting:
            check_lasting(unique, connection, options.get("start_at"))
            return await self._enqueue_lasting(execution, unique)
        if connection is not None:
            added = self._add_in(connection, [execution])
            return self._results([execution], await added if isawaitable(added) else added)[0]
        return (await self.add([execution]))[0]

    async def _enqueue_lasting(self, execution: ExecutionRow, unique: Unique) -> ExecutionRow | None:
        """With a key that is taken for a period, or debounced."""
        if unique.debounce is not None:
            [added] = await self.add([await self._periods.delayed(execution, unique)])
            if added is not None and added.state is State.PENDING:
                await self._periods.replace_older(added, unique)
            return added
        claim = await self._periods.claim(execution, unique)
        if claim is None:
            return None
        [answer] = await self._store.add([execution])
        if answer.outcome == "duplicate" and await self._periods.given_up(execution.id):
            return None
        [added] = self._results([execution], [answer])
        await (self._periods.release(claim) if added is None else self._periods.confirm(claim))
        if added is not None and added.staged and not added.state.final:
            await self._cancel_superseded(added)
        return added

    async def enqueue_many(
        self, items: Iterable[Sequence[Any]], *, connection: Any = None, **options: Any
    ) -> list[ExecutionRow | None]:
        """Add many: each item is (handler, params) or (handler, params, options)."""
        if connection is not None:
            prepared = await self.prepare_many(items, **options)
            added = self._add_in(connection, prepared)
            return self._results(prepared, await added if isawaitable(added) else added)
        drafts = await self._drafts(items, options)
        makers = makers_of(drafts) if len(drafts) > PART else None
        if makers is not None and all(each.independent for each in makers):
            return await overlapped(self._add_drafts, drafts, PART)
        results: list[ExecutionRow | None] = []
        for start in range(0, len(drafts), MANY):
            results += await self._add_drafts(drafts[start : start + MANY])
        return results

    async def prepare_many(self, items: Iterable[Sequence[Any]], **options: Any) -> list[ExecutionRow]:
        return made_of(await self._drafts(items, options))

    async def _drafts(self, items: Iterable[Sequence[Any]], options: dict[str, Any]) -> list[Draft | ExecutionRow]:
        """All items, checked: an error in the last one keeps the first one from being stored."""
        if not isinstance(items, Iterable):
            raise InvalidValue("items", presentable(items), "a list of (handler, params)")
        drafts: list[Draft | ExecutionRow] = []
        maker: ExecutionMaker | None = None
        known: object = None
        left = 0
        for item in items:
            handler, params, own = read_item(item)
            if maker is None or handler is not known or not left:
                maker = self._maker_of(await self._enqueueable(handler))
                known, left = handler, REREAD_JOB_AFTER
            left -= 1
            if own or options:
                refuse_lasting({**options, **own}.get("unique"))
                drafts.append(self._execution(maker.job, params, **{**options, **own}))
            else:
                drafts.append(Draft(maker, maker.encode(params)))
        return drafts

    async def _add_drafts(self, drafts: Sequence[Draft | ExecutionRow]) -> list[ExecutionRow | None]:
        return await self.add(made_of(drafts))

    # --- in the caller's transaction ----------------------------------------------------------------------
    def enqueue_in(self, connection: Any, executions: Sequence[ExecutionRow]) -> list[ExecutionRow | None]:
        """Store prepared executions inside the caller's own transaction, in the caller's thread."""
        added = self._add_in(connection, executions)
        if isawaitable(added):
            getattr(added, "close", lambda: None)()
            raise InvalidValue("connection", type(connection).__name__, "a blocking connection, or `await app.enqueue`")
        return self._results(executions, added)

    def _add_in(self, connection: Any, executions: Sequence[ExecutionRow]) -> list[Added] | Awaitable[list[Added]]:
        """Awaitable when the connection is asynchronous."""
        store: Any = self._store
        if not hasattr(store, "add_in"):
            raise InvalidValue(
                "connection", type(connection).__name__, "None for this store", "It has no transactions of callers"
            )
        caller: CallerTransaction = store
        return caller.add_in(connection, executions)

    # --- making executions --------------------------------------------------------------------------------
    async def prepare(self, handler: object, params: Mapping[str, Any] | None = None, **options: Any) -> ExecutionRow:
        """The execution that an enqueue would add, checked and rendered, but not stored."""
        job = await self._enqueueable(handler)
        if options.items() <= _DEFAULTS.items():
            maker = self._maker_of(job)
            return maker.make(maker.encode(params), maker.now())
        return self._execution(job, params, **options)

    async def _enqueueable(self, handler: object) -> Job:
        job = self._job_cache.at_hand(handler) if isinstance(handler, str) else None
        if job is None:
            job = await self._job_of(handler)
        if not self._clock.fresh:
            await self._clock.follow(self._store)
        if job.cancelled is not None:
            raise CommandRefused("enqueue", "cancelled", ["the job is reactivated"], f"job {job.name!r}")
        return job

    async def _job_of(self, handler: object) -> Job:
        """The job of a handler, or any job by name: also of handlers that only other processes have."""
        name = handler if isinstance(handler, str) else self.name_of(handler)
        try:
            return await self._job_cache.get(name)
        except JobNotFound as missing:
            if name in self._registry.names:
                raise
            known = [*self._registry.names, missing.suggestion or ""]
            raise HandlerNotFound(name, known) from None

    def name_of(self, handler: object) -> str:
        """The name that a handler is registered under; for a class that only other processes construct, its own."""
        try:
            return self._registry.resolve(handler).name
        except HandlerNotFound:
            own = getattr(handler, "name", None)
            if not isinstance(own, str):
                raise
            return own

    def _maker_of(self, job: Job) -> ExecutionMaker:
        maker = self._makers.get(job.name)
        if maker is None or (maker.job is not job and maker.job != job) or self._revision != self._registry.revision:
            if len(self._makers) >= MAX_MAKERS or self._revision != self._registry.revision:
                self._makers.clear()
                self._revision = self._registry.revision
            encode = partial(self._encode, self.signature_of(job))
            maker = self._makers[job.name] = ExecutionMaker(job, encode, self._clock, self._chance)
        maker.job = job  # a row that was read again and is the same as before
        return maker

    def _execution(
        self,
        job: Job,
        params: Mapping[str, Any] | None,
        *,
        start_at: Any = None,
        priority: int | None = None,
        queue: str | None = None,
        unique: str | Unique | None = None,
        by: str = "system",
        traceparent: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        tenant: str | None = None,
        share: str | None = None,
        **unknown: Any,
    ) -> ExecutionRow:
        for name in unknown:
            guess = nearest(name, _DEFAULTS)
            remedy = f"Did you mean {guess!r}?" if guess else f"Parameters are given as a dict: {{{name!r}: ...}}"
            raise InvalidValue("option", name, ", ".join(_DEFAULTS), remedy)
        fields: dict[str, Any] = {}
        if tenant is not None:
            fields["tenant"] = check_tenant("tenant", tenant)
            self.refuse_unknown_tenants(job, tenant)
        if share is not None:
            fields["share"] = words("share", share)
        if by != "system":
            fields["triggered_by"] = words("by", by)
        if priority is not None:
            fields["priority"] = whole("priority", priority, -32_768, 32_767)
        if queue is not None:
            fields["queue"] = identifier("queue", queue)
        if metadata is not None and not isinstance(metadata, Mapping):
            raise InvalidValue("metadata", presentable(metadata), "a mapping of names to values")
        if metadata is not None:
            fields["metadata_json"] = encode_payload("metadata", dict(metadata), self.payload_limit)
        return new_execution.new_execution(
            job,
            trigger="enqueue",
            now=self._clock.now(),
            chance=self._chance,
            params=self.encode_params(job, params),
            due=self._due(start_at, job.spec.tz),
            unique=unique,
            traceparent=traceparent,
            **fields,
        )

    def _due(self, start_at: Any, tz: str) -> Micros | None:
        """An instant, in the zone of the job if it has no offset; or a delay from now such as "10m" or a timedelta."""
        if start_at is None:
            return None
        if isinstance(start_at, timedelta) or (isinstance(start_at, str) and start_at[-1:] in "smhdw"):
            return self._clock.now() + seconds_to_micros(duration("start_at", start_at, allow_zero=True))
        if isinstance(start_at, int | float) and start_at < DELAYS_BELOW:
            allowed = "a datetime, ISO 8601 text, seconds since 1970, or a delay such as '10m'"
            raise InvalidValue("start_at", start_at, allowed, f"Write a delay as '{start_at}s'")
        return to_micros(instant("start_at", start_at, tz=tz))

    def refuse_unknown_tenants(self, job: Job, tenant: str | None, names: Sequence[str] | None = None) -> None:
        """Refuse a misspelt tenant: its execution would run, and complete if the handler does not check."""
        if names is not None:
            refuse_unknown_tenants(names, self._registry.provider(job.name), "tenants")
        elif tenant is not None:
            refuse_unknown_tenants([check_tenant("tenant", tenant)], self._registry.provider(job.name))

    def signature_of(self, job: Job) -> Signature | None:
        """The signature of the job's handler; None when this process does not have the handler."""
        handler = job.spec.handler
        return self._registry.get(handler).signature if handler in self._registry.names else None

    def encode_params(self, job: Job, params: Mapping[str, Any] | None) -> str:
        """Parameters on top of the job's own, checked against the handler's signature where that is known."""
        return self._encode(self.signature_of(job), job, params)

    def encode_edited(self, job: Job, before: ExecutionRow, edit: ParamsEdit) -> str:
        """The parameters of an execution with some of them changed, checked in the same way. Secrets that are still the
        mask stay."""
        secret = secret_of_retry(job, before)
        given = keep(edited(before.arguments, edit), before.arguments, secret)
        try:
            return self._encoded(self.signature_of(job), given)
        except InvalidValue as error:
            raise hide(error, secret) from None

    def _encode(self, signature: Signature | None, job: Job, params: Mapping[str, Any] | None) -> str:
        if not job.spec.secret:  # nearly always
            return self._encode_plain(signature, job, params)
        refuse_mask(params, job.spec.secret)
        try:
            return self._encode_plain(signature, job, params)
        except InvalidValue as error:
            raise hide(error, job.spec.secret) from None

    def _encode_plain(self, signature: Signature | None, job: Job, params: Mapping[str, Any] | None) -> str:
        given: Any
        if type(params) is dict and not job.spec.params:  # nearly always
            given = params
        elif params is None or isinstance(params, Mapping):
            given = {**job.spec.params, **(params or {})}
        elif signature is None:
            raise InvalidValue("params", presentable(params), "a mapping of parameter names to values")
        else:
            given = params  # a record of the handler's own type
        if signature is None and job.name.startswith(SYSTEM_PREFIX):
            raise CommandRefused("run", "Mainspring's own", ["Mainspring needs it"], f"job {job.name!r}")
        return self._encoded(signature, given)

    def _encoded(self, signature: Signature | None, given: Any) -> str:
        if signature is None:
            return encode_payload("params", given, self.payload_limit)
        return signature.encode(given, self.payload_limit)

    # --- adding -------------------------------------------------------------------------------------------
    async def add(self, executions: Sequence[ExecutionRow]) -> list[ExecutionRow | None]:
        """Store prepared executions; None for each whose unique key is taken."""
        results = self._results(executions, await self._store.add(executions))
        for execution in results:
            if execution is not None and execution.staged and not execution.state.final:
                await self._cancel_superseded(execution)
        return results

    async def add_one(self, execution: ExecutionRow, audit: Audit) -> tuple[ExecutionRow | None, Added]:
        """Add one with its audit record; gives the execution as `enqueue` does, and what the store said."""
        [added] = await self._store.add([execution], [audit])
        [result] = self._results([execution], [added])
        if result is not None and result.state is not State.SKIPPED:
            await self._cancel_superseded(execution)
        return result, added

    def _results(self, executions: Sequence[ExecutionRow], added: Sequence[Added]) -> list[ExecutionRow | None]:
        emit_enqueued(self._emit, executions, added)
        return [
            each.execution or execution if each.outcome == "added" else self._not_added(execution, each)
            for execution, each in zip(executions, added, strict=True)
        ]

    def _not_added(self, given: ExecutionRow, added: Added) -> ExecutionRow | None:
        execution = added.execution or given
        if added.outcome == "unique_taken":
            return None
        if added.outcome == "skipped":
            self._emit(Skipped(execution, "overlap", added.holder))
            return msgspec.structs.replace(execution, state=State.SKIPPED, reason="overlap")
        return execution

    async def _cancel_superseded(self, execution: ExecutionRow) -> None:
        if execution.rules.overlap == "cancel_running":
            await cancel_superseded(self._store, execution, self._emit)


# --- makers and drafts ----------------------------------------------------------------------------------------------


class ExecutionMaker:
    """What executions of one job that differ in parameters alone have in common."""

    def __init__(self, job: Job, encode: EncodeParams, clock: Clock, chance: Chance) -> None:
        self.job = job
        self._encode = encode
        self.now = clock.now
        self._ids = RandomIds(chance)
        self._row = new_execution.new_execution(job, trigger="enqueue", now=clock.now(), chance=chance)
        self._shared = ExecutionTemplate(self._row)
        self._own_limits = depends_on_execution(job)
        self._search = job.spec.search
        self.independent = self._row.overlap_key is None
        """Whether the order of the executions does not matter, because none of them depends on another."""
        self._last = self._row.created
        self._no_params: str | None = None

    def encode(self, params: Any) -> str:
        """Check parameters, and render them as text."""
        if params is not None:
            return self._encode(self.job, params)
        if self._no_params is None:
            self._no_params = self._encode(self.job, None)
        return self._no_params

    def make(self, params: str, now: Micros) -> ExecutionRow:
        self._last = max(now, self._last + 1)  # ids give the order, so no two share an instant
        id = self._ids.at(self._last)
        labels = search_labels(self._search, params)
        made = msgspec.structs.replace(
            self._row, id=id, trace_id=id.replace("-", ""), created=now, due=now, params=params, labels=labels
        )
        if not self._own_limits:
            return made
        return new_execution.with_limits(self.job, msgspec.structs.replace(made, limits=None))

    def make_many(self, params: Sequence[str]) -> list[ExecutionRow]:
        """Executions of one instant, one for each of these encoded parameters; their ids give the order."""
        now = self.now()
        if self._own_limits:
            return [self.make(each, now) for each in params]
        if len(params) == 1:
            made = self.make(params[0], now)
            return batch_of(self._shared, (made,), self._last - now)
        first = max(now, self._last + 1)
        self._last = first + len(params) - 1
        ids = self._ids.following(first, len(params))
        row, replace = msgspec.structs.replace(self._row, created=now, due=now), msgspec.structs.replace
        together = [
            replace(row, id=id, trace_id=id.replace("-", ""), params=each) for id, each in zip(ids, params, strict=True)
        ]
        if self._search:
            together = [replace(each, labels=search_labels(self._search, each.params)) for each in together]
        return batch_of(self._shared, together, self._last - now)


class Draft(NamedTuple):
    """An execution without its instant and id."""

    maker: ExecutionMaker
    params: str


_maker, _params = attrgetter("maker"), attrgetter("params")


def read_item(item: Any) -> tuple[object, Any, Mapping[str, Any]]:
    """Handler, parameters and options of one item of a batch."""
    if type(item) is tuple and len(item) == 2:  # nearly all of them
        return item[0], item[1], _NO_OPTIONS
    if not isinstance(item, Sequence) or isinstance(item, str) or not 1 <= len(item) <= 3:
        raise InvalidValue("items", presentable(item), "(handler, params) or (handler, params, options)")
    handler, params, own = item if len(item) == 3 else (*item, None, None)[:3]
    if own is not None and not isinstance(own, Mapping):
        raise InvalidValue("items", presentable(own), 'options as a mapping, such as {"priority": 5}')
    return handler, params, own or _NO_OPTIONS


def makers_of(drafts: Sequence[Draft | ExecutionRow]) -> set[ExecutionMaker] | None:
    """The makers of these drafts; None when some are executions that asked for more than parameters."""
    return set(map(_maker, drafts)) if set(map(type, drafts)) == {Draft} else None


def made_of(drafts: Sequence[Draft | ExecutionRow]) -> list[ExecutionRow]:
    """All executions of one call share one instant; their ids give the order."""
    makers = makers_of(drafts)
    if makers is not None and len(makers) == 1:
        [maker] = makers
        return maker.make_many(list(map(_params, drafts)))
    now = next((draft.maker.now() for draft in drafts if isinstance(draft, Draft)), 0)
    return [draft.maker.make(draft.params, now) if isinstance(draft, Draft) else draft for draft in drafts]


async def overlapped(
    do: Callable[[Sequence[Item]], Awaitable[list[Result]]], items: Sequence[Item], size: int
) -> list[Result]:
    """Do it in parts of at most this size, two at a time, with the results in order. The first error is raised. The
    parts are of equal size, and as many as keep both ways busy to the end."""
    rounds = max(ceil(len(items) / (size * PARTS_AT_ONCE)), 1)
    size = max(ceil(len(items) / (rounds * PARTS_AT_ONCE)), 1)
    results: list[Result] = []
    under_way: deque[asyncio.Task[list[Result]]] = deque()

    async def part(some: Sequence[Item]) -> list[Result]:
        return await do(some)

    try:
        async with asyncio.TaskGroup() as group:
            for start in range(0, len(items), size):
                if len(under_way) == PARTS_AT_ONCE:
                    results += await under_way.popleft()
                under_way.append(group.create_task(part(items[start : start + size])))
                await asyncio.sleep(0)  # it is on its way before the next one is made
            for task in under_way:
                results += await task
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return results
