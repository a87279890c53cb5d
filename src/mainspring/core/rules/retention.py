"""Retention: which finished executions of a job the janitor deletes."""

from __future__ import annotations

import msgspec

from ...model.execution import LIVE, State
from ...model.job import Job, JobStats
from ...model.store.messages import PruneRule
from ...model.time.instants import Micros, seconds_to_micros

DAY = 86_400.0
SPARED = 3_600.0


def prune_rules(job: Job, ended: JobStats | None, now: Micros) -> list[PruneRule]:
    """One rule for each state that has finished executions, and one for the hard cap. Most jobs need few of them, and
    jobs that never ran need none."""
    if ended is None:
        return []
    keep, on_demand = job.spec.retention, job.trigger is None
    days = dict.fromkeys((State.PARTIAL, State.FAILED, State.CANCELLED), keep.days)
    days[State.COMPLETED] = min(keep.days, keep.on_demand_success_days) if on_demand else keep.days
    days[State.SKIPPED] = keep.skipped_days
    days |= {State(state): value for state, value in keep.by_state.items()}

    def rule(state: State) -> PruneRule:
        newest = 0 if state is State.SKIPPED or (state is State.COMPLETED and on_demand) else keep.newest
        old = now - seconds_to_micros(days[state] * DAY)
        return PruneRule(job_id=job.id, states=frozenset({state}), older_than=old, newest=newest)

    rules = [rule(state) for state in days if getattr(ended, state.value)]
    if keep.at_most is not None and ended.total > keep.at_most:
        finished = frozenset(State) - LIVE - {State.SKIPPED}
        rules.append(PruneRule(job_id=job.id, states=finished, older_than=None, newest=keep.at_most))
    return rules


def sparing_tenants(rule: PruneRule, since: Micros | None) -> PruneRule:
    """The rule without executions that ended since then, or an hour before: a parent that waits since then counts its
    tenants when it ends, however little history is kept."""
    if since is None:
        return rule
    before = since - seconds_to_micros(SPARED)
    return msgspec.structs.replace(rule, older_than=min(before, rule.older_than or before))
