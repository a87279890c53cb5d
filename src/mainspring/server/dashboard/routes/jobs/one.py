"""`/dashboard/jobs/{name}`: one job: its schedule, runs, windows and changes, and the commands that steer it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query
from markupsafe import Markup
from starlette.responses import Response

from .....core.forecast.next_runs import clock_notes, next_runs
from .....core.monitoring.why import Reason
from .....core.queries.audit_lists import AuditFilter
from .....core.render.masking import shown_params
from .....core.rules import job_commands
from .....core.rules.secret_params import has_secrets, union
from .....core.rules.usual_duration import UsualDuration
from .....core.views.execution import RunView, executions_of
from .....core.views.job import JobView, calendars_of, job_of, stats_of
from .....core.views.records import AuditRecord, audit_record, backfill_view
from .....model.backfill import WindowState
from .....model.errors import CommandRefused, ExecutionNotFound, InvalidValue
from .....model.execution import ExecutionRow, State
from .....model.time.zones import known_zone
from ....request import in_turns
from ... import format
from ...drawing import charts
from ...drawing.window_calendar import Range, Row, calendar_range, calendar_rows, column_headings
from ...job_runs import job_strip, usual_of
from ...parameter_fields import LONGEST_VALUE, ParameterField, parameter_fields, signature_of
from ...visit import PageRoute, Viewing, Visit
from .edit import difference

router = APIRouter(prefix="/dashboard/jobs/{name}", route_class=PageRoute, include_in_schema=False)

FIRES = 5
CHARTED = 100
BARS, FEWEST_BARS = 24, 12
SHORT = timedelta(minutes=20)
"""Charts of less show seconds on their axes."""
LISTED = 20
MOST_SHOWN = 9_000
"""Bytes of the parameters, and of the metadata, that the page has room for."""
CHANGES = 10
COMMANDS = ("pause", "resume", "cancel", "reactivate", "trigger", "retry", "skip_occurrence")
PAUSES = {"": "until it is resumed", "1h": "for 1 hour", "4h": "for 4 hours", "1d": "for a day", "7d": "for a week"}
QUIET = frozenset({"not_due", "on_demand", "after", "running", "waiting_on_children"})
"""Reasons that need no words of their own: the page shows the same elsewhere."""


@router.get("")
async def job_page(visit: Viewing, name: str, windows: Annotated[str | None, Query(max_length=40)] = None) -> Response:
    view = await visit.engine.queries.shown(name)
    (_, reasons), runs, rows, audits, calendar = await asyncio.gather(
        visit.engine.overview.why(name),
        visit.engine.queries.newest_runs([view], CHARTED),
        visit.engine.queries.executions(name, limit=LISTED, system=True),
        visit.engine.audit_lists.page(AuditFilter(target=f"job:{name}"), limit=CHANGES),
        window_calendar(visit, view, windows),
    )
    newest, job = runs.get(name, []), job_of(view)
    if job.spec.tenants:  # else the tenants of one run would fill the list
        rows = await _rows_of(visit, newest[:LISTED])
    usual = usual_of(newest)
    return visit.page(
        "jobs/one.html",
        job=view,
        spec=job.spec,
        acts=visit.may_act(view),
        permitted=permitted(view),
        reasons=_sentences(reasons),
        fires=await asyncio.to_thread(next_runs, job, FIRES, calendars_of(view)),
        fixed_delay=job.trigger is not None and job.trigger.fixed_delay,
        clock_notes=clock_notes(job, visit.now),
        strip=job_strip(visit, newest),
        usual=usual,
        durations=_durations(visit, newest, usual),
        outcomes=_outcomes(visit, newest),
        calendar=calendar,
        executions=sorted(executions_of(rows), key=lambda each: each.started_at or each.start_at, reverse=True),
        changes=await in_turns(audits.records, lambda each: _change(audit_record(each))),
        difference=difference(visit, view),
        texts={name: format.cut(format.pretty_json(value), MOST_SHOWN) for name, value in _own_values(view).items()},
        run_form=_run_form(visit, view),
        pauses=PAUSES,
    )


def _own_values(view: JobView) -> dict[str, Any]:
    values = {"parameters": shown_params(view), "metadata": view.metadata}
    return {name: value for name, value in values.items() if value}


class RunForm(msgspec.Struct, frozen=True):
    """The form that runs the job: its parameters as fields, or as one JSON object where this process does not have the
    code, or where the code takes any parameter. `text` is what that object begins with."""

    fields: list[ParameterField]
    known: bool
    open: bool
    text: str = ""
    secret: tuple[str, ...] = ()
    """Paths of secrets that the object may contain. It begins without those that the job has."""


def _run_form(visit: Visit, view: JobView) -> RunForm:
    signature = signature_of(visit.application.registry, view.handler)
    if signature is None:
        shown = {name: value for name, value in view.params.items() if not has_secrets(name, view.secret)}
        text = format.pretty_json(shown) if shown else ""
        return RunForm([], False, True, text if len(text) <= LONGEST_VALUE else "", view.secret)
    secret = union(view.secret, signature.secret)
    fields = parameter_fields(signature, view.params, secret)
    return RunForm(fields, True, signature.parameters.open, secret=secret if signature.parameters.open else ())


# --- what the page shows ----------------------------------------------------------------------------------------


def permitted(view: JobView) -> frozenset[str]:
    """The commands that the state of the job permits."""
    found = set()
    for command in COMMANDS:
        try:
            job_commands.check(command, job_of(view), view.state, stats_of(view).last_state)
        except CommandRefused:
            continue
        found.add(command)
    return frozenset(found)


def _sentences(reasons: Sequence[Reason]) -> list[Reason]:
    """What keeps it from running, as sentences; nothing for a job that simply is not due."""
    stated = [reason for reason in reasons if reason.code not in QUIET]
    return [
        msgspec.structs.replace(reason, message=f"{reason.message[:1].upper()}{reason.message[1:].rstrip('.')}.")
        for reason in stated
    ]


async def _rows_of(visit: Visit, runs: Sequence[RunView]) -> list[ExecutionRow]:
    """The executions behind these runs that still exist."""
    found = await asyncio.gather(*(visit.engine.queries.get(run.id) for run in runs), return_exceptions=True)
    for each in found:
        if isinstance(each, BaseException) and not isinstance(each, ExecutionNotFound):
            raise each
    return [each for each in found if not isinstance(each, BaseException)]


def _durations(visit: Visit, runs: Sequence[RunView], usual: UsualDuration | None) -> Markup:
    """Only runs that did something: a skipped or cancelled one has no duration worth a dot."""
    worked = (State.COMPLETED, State.PARTIAL, State.FAILED)
    dots = [
        charts.Dot(run.started_at, run.duration_ms / 1000, run.state.value, visit.url("executions", run.id))
        for run in runs
        if run.state in worked and run.started_at is not None and run.duration_ms is not None
    ]
    dots.sort(key=lambda dot: dot.at)
    span = dots[-1].at - dots[0].at if dots else SHORT
    return charts.dots(
        dots,
        "Durations of the newest runs",
        band=(usual.low / 1000, usual.high / 1000) if usual else None,
        words=format.span,
        when=lambda at: _moment(visit, at, span),
    )


def _outcomes(visit: Visit, runs: Sequence[RunView]) -> Markup:
    """The newest runs by outcome, in equal parts of the time that they cover."""
    if not runs:
        return Markup("")
    oldest, end = min(run.start_at for run in runs), max(run.start_at for run in runs)
    bars = min(BARS, max(FEWEST_BARS, round((end - oldest).total_seconds()) + 1))
    step = max((end - oldest) / (bars - 1), timedelta(seconds=1))
    begin = end - step * (bars - 1)
    counts = Counter((run.state.value, round((run.start_at - begin) / step)) for run in runs)
    states = [state for state in charts.STATE_COLOURS if any(found == state for found, _ in counts)]
    return charts.stacked_bars(
        [_moment(visit, begin + step * place, end - begin) for place in range(bars)],
        [
            charts.Series(state, charts.STATE_COLOURS[state], [counts[state, place] for place in range(bars)])
            for state in states
        ],
        "Outcomes of the newest runs",
        unit=lambda count: format.plural(int(count), "run"),
        end=_moment(visit, end, end - begin),
        height=130,
    )


def _moment(visit: Visit, at: datetime, span: timedelta) -> str:
    """With seconds if the chart is about minutes."""
    return format.moment(at, visit.zone, visit.now, seconds=span < SHORT)


class JobChange(msgspec.Struct, frozen=True):
    """One audit record of the job in words, with what it made."""

    at: datetime
    by: str
    words: str
    detail: str = ""
    execution: str | None = None
    backfill: str | None = None


def _change(record: AuditRecord) -> JobChange:
    shown = JobChange(record.at, record.actor, record.action.replace("_", " "))
    match record.action, record.after:
        case (("trigger" | "retry"), str()):
            return msgspec.structs.replace(shown, execution=record.after)
        case "backfill", str():
            return msgspec.structs.replace(shown, backfill=record.after)
        case _, dict():
            return msgspec.structs.replace(shown, detail=_detail(record.before, record.after))
        case _:
            return shown


def _detail(before: Any, after: dict[str, Any]) -> str:
    """The note or reason, and the names of the fields that were changed. Values may be long, or not for everyone."""
    old, new = ((each.get("overrides") or {}) if isinstance(each, dict) else {} for each in (before, after))
    changed = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    words = [str(after[name]) for name in ("pause_note", "reason") if after.get(name)]
    return ", ".join([*words, *changed])


class ShownCalendar(msgspec.Struct, frozen=True):
    """The windows of a job as the page shows them. `holes` are those that a backfill would run."""

    rows: list[Row]
    headings: list[str]
    begin: datetime
    range: Range
    counts: dict[WindowState, int]
    earlier: datetime | None
    later: datetime | None
    underway: list[Any]

    @property
    def holes(self) -> int:
        return self.counts["missing"] + self.counts["failed"]


async def window_calendar(visit: Visit, view: JobView, asked: str | None) -> ShownCalendar | None:
    """None for a job without windows that follow from its schedule."""
    job = job_of(view)
    if job.spec.window is None:
        return None
    zone = known_zone(job.spec.tz)
    now = visit.now.astimezone(zone).replace(tzinfo=None)
    try:
        shown = calendar_range(job, _local_time(asked), now)
    except (OverflowError, ValueError):  # a time at the end of all calendars
        shown = calendar_range(job, None, now)
    try:
        first, _ = await visit.engine.windows.range(job, None, None)
        began = datetime.fromtimestamp(first / 1_000_000, zone).replace(tzinfo=None)
        begin = max(shown.begin, began)
        windows = await visit.engine.windows.windows(view.name, begin.isoformat(), shown.end.isoformat())
    except InvalidValue:
        return None
    under_way = [backfill_view(each) for each in await visit.engine.backfills.list(view.name, 1) if not each.over]
    return ShownCalendar(
        rows=calendar_rows(windows, shown.unit),
        headings=column_headings(shown.unit),
        begin=begin,
        range=shown,
        counts=windows.counts,
        earlier=shown.earlier if began < shown.begin else None,
        later=shown.end if shown.end <= now else None,
        underway=under_way,
    )


def _local_time(text: str | None) -> datetime | None:
    try:
        return None if text is None else datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError:
        return None
