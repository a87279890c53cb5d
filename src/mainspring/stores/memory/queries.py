"""Whether an execution fits the filters of a list."""

from __future__ import annotations

from ...model.changes import ExecutionQuery
from ...model.execution import Execution


def matches(query: ExecutionQuery, row: Execution) -> bool:
    """Everything but the cursor and the paging."""
    wanted = (
        (query.job, row.job),
        (query.job_id, row.job_id),
        (query.trigger, row.trigger),
        (query.tenant, row.tenant),
        (query.trace_id, row.trace_id),
        (query.parent_id, row.parent_id),
    )
    return (
        all(value is None or value == actual for value, actual in wanted)
        and (query.states is None or row.state in query.states)
        and (query.created_from is None or row.created >= query.created_from)
        and (query.created_to is None or row.created < query.created_to)
    )
