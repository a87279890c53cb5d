"""What other schedulers do with late, missed and overlapping runs, as options of a job: the options, and what they do
differently."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TypeAlias

from ....model.policies import MAX_OVERLAP, CatchUp
from ....model.values.reading import duration_text, is_identifier

Options: TypeAlias = dict[str, Any]
Mapped: TypeAlias = tuple[Options, list[str]]
"""Options of a job, and what the job will do differently."""

USUAL_GRACE = 1
"""APScheduler's own `misfire_grace_time`. Hardly anybody chose it, and a run that is two seconds late is lost by it: it
is not taken over."""
LIFTED_PRIORITY = "priority {}: the highest runs first here; with Redis as Celery's broker the lowest did"
_KEPT_OUT = frozenset({"shadow", "ignore_result", "serializer", "compression", "task_id", "periodic_task_name"})


def apscheduler_policy(grace: int | None, coalesce: bool, instances: int, period: float | None) -> Mapped:
    """`misfire_grace_time`, `coalesce` and `max_instances`. `period`: seconds between two runs, if there are two."""
    options: Options = {"overlap": "skip"} if instances == 1 else {"overlap": "allow", "overlap_limit": instances}
    changes = []
    if instances > MAX_OVERLAP:
        options["overlap_limit"] = MAX_OVERLAP
        changes.append(f"max_instances={instances}: at most {MAX_OVERLAP} run at once here")
    if coalesce:
        return {**options, **_coalesced(grace, period)}, changes
    if grace is None:
        changes.append("misfire_grace_time=None without coalesce: at most the newest 100 late runs are caught up")
        return {**options, "missed": "all"}, changes
    return ({**options, "grace": float(grace)} if grace != USUAL_GRACE else options), changes


def _coalesced(grace: int | None, period: float | None) -> Options:
    """Of several late runs the last one counts, if it is young enough."""
    if grace is None:
        return {"missed": "latest"}
    if grace == USUAL_GRACE:
        return {}
    if period is None or grace <= period:
        return {"grace": float(grace)}
    return {"missed": CatchUp("latest", max_age=float(grace))}


def celery_policy(given: Mapping[str, Any], deadline: float | None = None) -> Mapped:
    """The `options` of a periodic task. Beat sends a task whatever became of the last one, and a run that was due while
    it was down once it is back, within `deadline` seconds of `beat_cron_starting_deadline`."""
    missed: Any = "latest" if deadline is None else CatchUp("latest", max_age=float(deadline))
    options: Options = {"overlap": "allow", "missed": missed}
    changes: list[str] = []
    for name, value in given.items():
        if value in (None, "", {}, []) or name in _KEPT_OUT:
            continue
        found, change = _celery_option(name, value)
        options |= found
        changes += change
    return options, changes


def _celery_option(name: str, value: Any) -> Mapped:
    if name == "queue" and is_identifier(getattr(value, "name", value)):
        return {"queue": getattr(value, "name", value)}, []
    if name == "priority" and isinstance(value, int):
        return {"priority": value}, [LIFTED_PRIORITY.format(value)]
    if name == "time_limit":
        return {"timeout": float(value)}, []
    if name == "soft_time_limit":
        return {}, [f"soft_time_limit={value} is not kept: timeout= stops the handler"]
    if name == "expires":
        waits = value.total_seconds() if isinstance(value, timedelta) else value
        text = duration_text(float(waits)) if isinstance(waits, int | float) else value
        return {}, [f"expires={text}: a run that waits longer in its queue still runs"]
    if name in ("countdown", "eta"):
        return {}, [f"{name}={value} is not kept: runs start at their scheduled time"]
    return {}, [f"the option {name}={value!r} is not kept"]
