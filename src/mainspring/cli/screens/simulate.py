"""A forecast as a screen, totals first, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from ...core.forecast.clock_changes import describe
from ...core.forecast.forecast import Forecast, ForecastRun, JobForecast
from ...core.forecast.json_forms import clock_changes_json, job_forecast_json, run_json, totals_json
from ...core.forecast.overlaps import BESIDE, CANCELS, SKIPPED, WAITS
from ...core.render.entities import instant_text
from ...model.time.instants import to_datetime
from ...model.time.zones import known_zone
from ...model.values.reading import duration_text
from ...model.values.terminal_text import one_line
from ..terminal import echo, json_text
from .output import console, note, own_clock, print_fields
from .table import Column, print_table

BAR = 40
AT_ONCE = 10_000
OUTCOMES = {SKIPPED: "skipped", WAITS: "wait", CANCELS: "cancel the run before", BESIDE: "beside another"}
OF_A_RUN = {WAITS: "waits for the run before it", CANCELS: "cancels the run before it", BESIDE: "beside another run"}


def show(found: Forecast, sources: Mapping[str, str], hourly: bool, limit: int | None) -> None:
    print_fields(_totals(found))
    if hourly:
        _print_hours(found)
    _print_changes(found)
    _print_exceptions(found)
    if found.jobs:
        _title("Jobs")
        _print_jobs(found, sources)
    ticks = sum(len(job.ticks) for job in found.jobs)
    if ticks and limit != 0:
        _title("Runs")
        _print_runs(found, limit)
        if limit is not None and ticks > limit:
            note(f"({ticks - limit:,} more; --limit {ticks} or -o json shows all)")


def _totals(found: Forecast) -> dict[str, str]:
    where = known_zone(found.zone)
    begin, end = (to_datetime(at).astimezone(where) for at in (found.begin, found.end))
    outcomes = {name: sum(job.overlaps.count(name) for job in found.jobs) for name in OUTCOMES}
    overlaps = [f"{count:,} {OUTCOMES[name]}" for name, count in outcomes.items() if count]
    known = sum(1 for job in found.jobs if job.duration is not None)
    unknown = "not predicted: no past durations (see --duration)" if found.jobs and not known else "none"
    return {
        "from": f"{begin:%a %Y-%m-%d %H:%M:%S %z}",
        "to": f"{end:%a %Y-%m-%d %H:%M:%S %z} ({found.zone})",
        "jobs": f"{len(found.jobs):,}" + (f", and {len(found.on_demand):,} on demand only" if found.on_demand else ""),
        "runs": f"{found.runs:,}",
        "overlaps": ", ".join(overlaps) or unknown,
        "busiest hour": _busiest(found, 60),
        "busiest minute": _busiest(found, 1),
    }


def _busiest(found: Forecast, minutes: int) -> str:
    busiest = found.busiest(minutes)
    if busiest is None:
        return ""
    at, runs = busiest
    return f"{runs:,} run{'s' * (runs != 1)} from {at.astimezone(known_zone(found.zone)):%a %Y-%m-%d %H:%M %z}"


def _print_hours(found: Forecast) -> None:
    hours = found.hours()
    highest = max(hour.runs for hour in hours) or 1
    _title(f"Runs by hour of the day ({found.zone})")
    columns = [
        Column("HOUR", lambda row: f"{row[0]:02}:00"),
        Column("RUNS", lambda row: f"{row[1].runs:,}"),
        Column("MOST IN ONE DAY", lambda row: f"{row[1].most:,}", "drop"),
        Column("LOAD", lambda row: "█" * -(-row[1].runs * BAR // highest), "cut"),
    ]
    print_table(columns, enumerate(hours))


def _print_changes(found: Forecast) -> None:
    if not found.changes:
        return
    _title("Changes of the clocks")
    screen = console()
    for change, zone, touched in found.changes:
        screen.print(f"{describe(zone, change)} ({own_clock(change.at)})", soft_wrap=True)
        for job, words in touched.items():
            screen.print(f"  {job}: {words}", soft_wrap=True)
        if not touched:
            screen.print("  no run is affected")


def _print_exceptions(found: Forecast) -> None:
    exceptions = [(job, each) for job in found.jobs for each in job.exceptions]
    if not exceptions:
        return
    _title("Single occurrences")
    screen = console()
    for job, each in sorted(exceptions, key=lambda pair: pair[1].tick):
        where = known_zone(job.zone)
        at = f"{each.at.astimezone(where):%a %Y-%m-%d %H:%M:%S %z}"
        fate = f"moved to {each.moved_to.astimezone(where):%a %Y-%m-%d %H:%M:%S %z}" if each.moved_to else "skipped"
        screen.print(one_line(f"{job.name}: {at} {fate} by {each.by}"), soft_wrap=True)


def _print_jobs(found: Forecast, sources: Mapping[str, str]) -> None:
    columns = [
        Column("JOB", lambda job: job.name),
        Column("RUNS", lambda job: f"{job.runs:,}", right=True),
        Column("FIRST", lambda job: _local(job, 0)),
        Column("LAST", lambda job: _local(job, -1), "drop"),
        Column("TAKES", lambda job: _takes(job, sources), "drop"),
        Column("OVERLAPS", _overlap_words, "cut"),
        Column("SCHEDULE", _schedule, "cut", readable=24),
    ]
    print_table(columns, sorted(found.jobs, key=lambda each: (-len(each.ticks), each.name)))


def _schedule(job: JobForecast) -> str:
    return job.job.trigger.describe() if job.job.trigger is not None else "-"


def _takes(job: JobForecast, sources: Mapping[str, str]) -> str:
    return "-" if job.duration is None else f"{duration_text(round(job.duration, 3))} ({sources[job.name]})"


def _local(job: JobForecast, place: int) -> str:
    return f"{to_datetime(job.ticks[place]).astimezone(known_zone(job.zone)):%Y-%m-%d %H:%M}" if job.ticks else "-"


def _overlap_words(job: JobForecast) -> str:
    counts = {name: job.overlaps.count(name) for name in OUTCOMES}
    words = [f"{count:,} {OUTCOMES[name]}" for name, count in counts.items() if count]
    if job.overlaps.most_at_once > 1:
        words.append(f"up to {job.overlaps.most_at_once} at once")
    return ", ".join(words) or "-"


def _print_runs(found: Forecast, limit: int | None) -> None:
    columns = [
        Column("IN THE JOB'S ZONE", lambda run: f"{run.local:%a %Y-%m-%d %H:%M:%S %z}"),
        Column("HERE", lambda run: own_clock(to_datetime(run.at))),
        Column("JOB", lambda run: run.job),
        Column("NOTE", _run_note, "cut"),
    ]
    print_table(columns, islice(found.runs_in_order(), limit))


def _run_note(run: ForecastRun) -> str:
    words = (run.note, OF_A_RUN.get(run.outcome, run.outcome))
    return "; ".join(each for each in words if each not in ("", "runs"))


def _title(text: str) -> None:
    screen = console()
    screen.print()
    screen.print(text, style="bold")


# --- for programs -----------------------------------------------------------------------------------------------


def write_json(found: Forecast, sources: Mapping[str, str], limit: int | None) -> None:
    """Runs are written as they are found, one a line: there may be millions."""
    head = json_text(_forecast_json(found, sources), indent=2)
    lines = (json_text(run_json(run)) for run in islice(found.runs_in_order(), limit))
    first = next(lines, None)
    echo(f'{head.removesuffix("}").rstrip()},\n  "runs": [', nl=False)
    if first is not None:
        echo(f"\n    {first}", nl=False)
        while some := list(islice(lines, AT_ONCE)):
            echo("".join(f",\n    {line}" for line in some), nl=False)
    echo("\n  ]\n}")


def _forecast_json(found: Forecast, sources: Mapping[str, str]) -> dict[str, Any]:
    return {
        "from": instant_text(to_datetime(found.begin)),
        "to": instant_text(to_datetime(found.end)),
        "timezone": found.zone,
        "totals": totals_json(found),
        "on_demand": found.on_demand,
        "clock_changes": clock_changes_json(found),
        "hours": [
            {"hour": at, "runs": hour.runs, "most_in_one_day": hour.most} for at, hour in enumerate(found.hours())
        ],
        "jobs": [job_forecast_json(job, sources) for job in found.jobs],
    }
