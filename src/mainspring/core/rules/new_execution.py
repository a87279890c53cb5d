"""What an execution looks like when it is made: from a tick, a command, an enqueue or another execution."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from random import Random
from typing import Any

import msgspec

from ...model.execution import ExecutionRow, State, decode_policy, encode_policy, next_token
from ...model.job import Job
from ...model.limits import Limit
from ...model.policies import Unique
from ...model.time.instants import Micros
from ...model.values.ids import Chance, random_id
from ...model.values.trace_context import trace_id_of
from .edited_params import with_difference
from .limits import limits_of, sharing
from .search_keys import search_labels
from .secret_params import union

NO_OVERLAP_RULE = frozenset({"backfill"})
"""Triggers whose executions have caps of their own and hold no overlap key."""

CATCH_UP = "catch_up"
DEPENDENCY = "dependency"
IN_TURN = frozenset({CATCH_UP, DEPENDENCY})
"""Triggers whose executions wait for their turn, however many of them there are."""
NO_KEYS: dict[str, Any] = {"overlap_key": None, "running_overlap_key": None, "staged": False, "overlap_slots": 1}
"""Of a tenant's execution: the overlap rule of its job is about parents."""


def new_execution(
    job: Job,
    *,
    trigger: str,
    now: Micros,
    chance: Chance,
    id: str | None = None,
    params: str | None = None,
    due: Micros | None = None,
    unique: str | Unique | None = None,
    window: tuple[Micros, Micros] | None = None,
    traceparent: str | None = None,
    **fields: Any,
) -> ExecutionRow:
    """A pending execution of this job, with the rules the job has now."""
    id = id or random_id(now, chance)
    fields |= {"id": id, "created": now, "due": now if due is None else due}
    trace_id = None if traceparent is None else trace_id_of(traceparent)
    fields["trace_id"] = trace_id or id.replace("-", "")
    if trace_id is not None:
        fields["traceparent"] = traceparent
    if params is not None:
        fields["params"] = params
        if job.spec.search:
            fields["labels"] = search_labels(job.spec.search, params)
    if window is not None:
        fields["window_begin"], fields["window_end"] = window
    single = job.spec.tenants and fields.get("tenant") is not None
    if single:
        fields |= NO_KEYS | {"policy": tenant_policy(fields.get("policy", job.policy))}
    if unique is not None:
        fields |= staged_keys(({} if single else overlap_keys(job, trigger)) | unique_keys(unique))
    execution = msgspec.structs.replace(_blank(job, trigger), **fields)
    plain = execution.tenant is None and execution.share is None and not job.spec.limits
    return execution if plain else with_limits(job, execution)


def with_limits(job: Job, execution: ExecutionRow) -> ExecutionRow:
    """With its turn among tenants, and with the limits of its job filled in; those it has already stay. A parent has
    none: it does not run the handler, its tenants do."""
    if execution.fans_out:
        return execution
    share = execution.tenant if execution.share is None else execution.share
    limits = execution.limits or limits_of(job, tenant=execution.tenant, queue=execution.queue, params=execution.params)
    return msgspec.structs.replace(execution, limits=limits, **sharing(job, share))


class EnqueueTemplate(msgspec.Struct, frozen=True):
    """An enqueued execution of one job, for a store that makes the row itself: see `enqueue_templates`."""

    execution: ExecutionRow
    limits: tuple[Limit, ...] = ()
    """Their keys still have places such as `{tenant}`, to be filled in with what the request names."""
    weights: Mapping[str, int] = {}
    """By share; "*" stands for all that are not listed, and 1 is the weight of what is not found."""
    search: tuple[str, ...] = ()
    """Paths into the parameters of the request whose values become labels: see `search_keys.search_labels`."""


class EnqueueTemplates(msgspec.Struct, frozen=True):
    """By what a request names: one unique key at most, or one for each stage; a tenant, or none."""

    plain: EnqueueTemplate
    stages: EnqueueTemplate
    tenant: EnqueueTemplate
    tenant_stages: EnqueueTemplate


UNIQUE, RUNNING, TENANT = "{unique}", "{running}", "{tenant}"
"""In a template they stand for what the request names: its unique key (the one until pick-up), its unique key from
pick-up on, and its tenant. What it does not name is None."""
_STAGES = Unique(enqueued=UNIQUE, running=RUNNING)
_UNUSED = Random(0)  # a template has no id of its own


def enqueue_templates(job: Job) -> EnqueueTemplates:
    """The rows that `app.enqueue` would make of this job, for requests that reach a store without passing through here
    (SQL in a trigger, other languages). The store fills in id, instants and what the request names: parameters, keys,
    tenant, share, queue, priority. A row has no share unless the request names one, or a tenant.
    """
    return EnqueueTemplates(
        plain=_enqueue_template(job, unique=UNIQUE),
        stages=_enqueue_template(job, unique=_STAGES),
        tenant=_enqueue_template(job, unique=UNIQUE, tenant=TENANT),
        tenant_stages=_enqueue_template(job, unique=_STAGES, tenant=TENANT),
    )


def _enqueue_template(job: Job, **named: Any) -> EnqueueTemplate:
    execution = new_execution(job, trigger="enqueue", now=0, chance=_UNUSED, **named)
    limits = () if execution.limits is None else job.spec.limits
    if job.spec.search:
        execution = msgspec.structs.replace(execution, labels=())
    return EnqueueTemplate(execution, limits, {} if execution.fans_out else job.spec.weights, job.spec.search)


def _blank(job: Job, trigger: str) -> ExecutionRow:
    """What every execution of this job, as it is now, has in common."""
    blanks: dict[str, ExecutionRow] = job.__dict__.setdefault("blanks", {})
    if trigger not in blanks:
        blanks[trigger] = _made_blank(job, trigger)
    return blanks[trigger]


def _made_blank(job: Job, trigger: str) -> ExecutionRow:
    spec, params = job.spec, job_params(job)
    return ExecutionRow(
        id="",
        job=job.name,
        job_id=job.id,
        handler=spec.handler,
        trigger=trigger,
        queue=spec.queue,
        priority=spec.priority,
        params=params,
        policy=policy_of(job, trigger),
        labels=search_labels(spec.search, params),
        **staged_keys(overlap_keys(job, trigger)),
    )


def policy_of(job: Job, trigger: str) -> str:
    """Catch-up runs and dependents wait for their turn: they do not cancel the running execution."""
    if trigger not in IN_TURN or job.spec.overlap != "cancel_running":
        return job.policy
    return encode_policy(msgspec.structs.replace(job.spec.run_policy(), overlap="queue"))


@lru_cache(maxsize=1024)
def tenant_policy(policy: str, *, with_parent: bool = False) -> str:
    """The rules of one tenant's execution, from those of the job or of its parent: no overlap rule, no next run to
    plan, nobody to ping. With a parent, the time that the run may take is the parent's."""
    rules = decode_policy(policy)
    if rules.fan_out is None:
        return policy
    own = msgspec.structs.replace(
        rules,
        fan_out=None,
        fail_fast=not rules.fan_out.continue_on_failure,
        max_attempts=rules.fan_out.max_attempts,
        retry=rules.fan_out.retry,
        overlap="allow",
        follow_up=False,
        ping=(),
        run_timeout=None if with_parent else rules.run_timeout,
    )
    return encode_policy(own)


def single_try(job: Job) -> str:
    """The job's rules, but for its retries, and those of its tenants."""
    rules = msgspec.structs.replace(job.spec.run_policy(), max_attempts=1)
    if rules.fan_out is not None:
        rules = msgspec.structs.replace(rules, fan_out=msgspec.structs.replace(rules.fan_out, max_attempts=1))
    return encode_policy(rules)


def for_chosen(policy: str) -> str:
    """The same rules for a parent whose tenants the caller chose."""
    rules = decode_policy(policy)
    assert rules.fan_out is not None, "a job that has tenants"
    return encode_policy(msgspec.structs.replace(rules, fan_out=msgspec.structs.replace(rules.fan_out, chosen=True)))


def retry_of(
    job: Job,
    ended: ExecutionRow,
    *,
    triggered_by: str,
    now: Micros,
    chance: Chance,
    id: str | None = None,
    traceparent: str | None = None,
    params: str | None = None,
) -> ExecutionRow:
    """A manual retry: a new execution with the same window and tenant, and the same parameters unless others are
    given."""
    window = None if ended.window_begin is None or ended.window_end is None else (ended.window_begin, ended.window_end)
    return new_execution(
        job,
        trigger="retry",
        triggered_by=triggered_by,
        now=now,
        chance=chance,
        id=id,
        params=ended.params if params is None else params,
        metadata_json=None if params is None else with_difference(ended.params, params, secret_of_retry(job, ended)),
        window=window,
        tick=ended.tick,
        tenant=ended.tenant,
        share=ended.share,
        queue=ended.queue,
        priority=ended.priority,
        traceparent=traceparent,
        unique=_retry_key(job, ended),
        retry_of=ended.id,
        flow=ended.flow or ended.id,
    )


def secret_of_retry(job: Job, before: ExecutionRow) -> tuple[str, ...]:
    """The secret paths in the parameters of an execution and of its retry."""
    return union(job.spec.secret, before.rules.secret)


def edited_waiting(
    job: Job, waiting: ExecutionRow, id: str, params: str, triggered_by: str, now: Micros
) -> ExecutionRow:
    """What takes the place of an execution that waits, with other parameters: it is due at the same time, with the same
    priority, tenant, window and keys."""
    edited = msgspec.structs.replace(
        waiting,
        id=id,
        params=params,
        metadata_json=with_difference(waiting.params, params, secret_of_retry(job, waiting), waiting.metadata),
        trigger="retry",
        triggered_by=triggered_by,
        retry_of=waiting.id,
        flow=waiting.flow or waiting.id,
        created=now,
        number=None,
        token=0,
        failures=0,
        crashes=0,
        attempts_json="[]",
        reason=None,
        error=None,
        started=None,
        claimed=None,
        parked=None,
        limits=None,
        labels=search_labels(job.spec.search, params),
    )
    return with_limits(job, edited)


def _retry_key(job: Job, ended: ExecutionRow) -> str | None:
    """Two simultaneous requests for a retry result in one. Where the overlap policy already ensures that, it records
    the second as skipped, and no key is needed."""
    held_by_overlap = job.spec.overlap == "skip" and not (job.spec.tenants and ended.tenant is not None)
    return None if held_by_overlap else f"retry:{ended.id}"


def overlap_keys(job: Job, trigger: str) -> dict[str, Any]:
    """The keys by which live executions of one job exclude each other.

    `queue` and `cancel_running` use two stages: one execution may wait (`:next`) while another runs.
    """
    if trigger in NO_OVERLAP_RULE:
        return {}
    if trigger in IN_TURN:
        return _turn_key(job)
    match job.spec.overlap:
        case "skip":
            return {"overlap_key": job.id}
        case "queue" | "cancel_running":
            return {"overlap_key": f"{job.id}:next", "running_overlap_key": job.id}
        case "allow" if job.spec.overlap_limit is not None:
            return {"overlap_key": job.id, "overlap_slots": job.spec.overlap_limit}
        case _:
            return {}


def _turn_key(job: Job) -> dict[str, Any]:
    """Ticks caught up, and what follows from other jobs, take the job's key when they are picked up, not when they are
    made: so they run one after another instead of being skipped because of each other. Where several may run at once,
    they share one of the slots."""
    limit = job.spec.overlap_limit
    if job.spec.overlap == "allow":
        return {} if limit is None else {"running_overlap_key": job.id if limit == 1 else f"{job.id}#0"}
    return {"running_overlap_key": job.id}


def unique_keys(unique: str | Unique | None) -> dict[str, Any]:
    """One key from insert to end, or one for each stage."""
    match unique:
        case None:
            return {}
        case Unique(enqueued) if unique.lasting:
            return {} if unique.debounce is not None else {"unique_key": enqueued}
        case Unique(enqueued, running) if enqueued == running:
            return {"unique_key": enqueued}
        case Unique(enqueued, running):
            return {"unique_key": enqueued, "running_unique_key": running}
        case _:
            return {"unique_key": Unique(enqueued=unique).enqueued}


def staged_keys(keys: dict[str, Any]) -> dict[str, Any]:
    """If one key changes at pick-up, both are written then: the other one stays what it is."""
    if not keys.keys() & {"running_unique_key", "running_overlap_key"}:
        return keys
    kept = {"running_unique_key": keys.get("unique_key"), "running_overlap_key": keys.get("overlap_key")}
    return kept | keys | {"staged": True}


def job_params(job: Job) -> str:
    return msgspec.json.encode(job.spec.params).decode()


def inline_execution(execution: ExecutionRow, owner: str, now: Micros, lease: Micros, policy: str) -> ExecutionRow:
    """The same execution, already running in its caller: it is recorded, not dispatched, and excludes nobody."""
    return msgspec.structs.replace(
        execution,
        state=State.RUNNING,
        policy=policy,
        token=next_token(0, stamp=0),
        owner=owner,
        claimed=now,
        started=now,
        lease=now + lease,
        overlap_key=None,
        running_overlap_key=None,
        staged=False,
    )
