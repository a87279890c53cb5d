"""The frame of `mainspring top`: a pure function of what was read, the user's choices and the size of the terminal."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import msgspec
from rich.text import Text

from ...core.monitoring.activity import ActivitySeries
from ...core.queries.execution_lists import Total
from ...core.rules.problems import Problem, ProblemList
from ...core.views.execution import Execution
from ...core.views.job import JobView
from ...core.views.queues import QueueView
from ...core.views.records import LogEntry, WorkerView
from ...model.values.terminal_text import one_line
from ..parameters import short_id
from .output import cell, local_zone, moment, progress_text, rough
from .problems import evidence, sentence, severity
from .queues import QUEUE_COLUMNS
from .table import Column, table_lines

View: TypeAlias = Literal["all", "problems", "queues", "running", "next"]
VIEWS: tuple[View, ...] = get_args(View)
SORTS = ("name", "ready", "running", "oldest", "in", "out")
FIELDS = {"in": "rate_in", "out": "rate_out"}
"""The fields of queues that sorts by another name refer to."""
KEYS = "q quit  p pause  tab view  f queue  s sort  ↑↓ enter: logs of a run"
KEYS_OF_LOGS = "q quit  p pause  esc back"
ROOMY = 32
"""From so many lines on, sections are set apart by empty lines."""
BARS, ASCII_BARS = " ▁▂▃▄▅▆▇█", " .:-=+*#@"
KEPT_LINES = 500


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What `mainspring top` shows, at one moment. `running` begins with the longest."""

    at: datetime
    database: str
    problems: ProblemList
    queues: list[QueueView]
    workers: list[WorkerView]
    running: list[Execution]
    coming: list[JobView]
    jobs: Total
    hour: ActivitySeries


class Choices(msgspec.Struct):
    """What the user chose with keys. `opened` is the execution whose log is shown, `trouble` why the last reading
    failed."""

    view: View = "all"
    queue: str | None = None
    sort: str = "name"
    paused: bool = False
    selected: str | None = None
    opened: str | None = None
    trouble: str = ""
    quit: bool = False
    log: deque[LogEntry] = msgspec.field(default_factory=lambda: deque(maxlen=KEPT_LINES))

    def press(self, key: str, reading: Reading) -> None:
        match key:
            case "q":
                self.quit = True
            case "p":
                self.paused = not self.paused
            case "escape":
                self.opened = None
            case "tab" if self.opened is None:
                self.view = _after(VIEWS, self.view)
            case "f":
                self.queue = _after((None, *(queue.name for queue in reading.queues)), self.queue)
            case "s":
                self.sort = _after(SORTS, self.sort)
            case "up" | "down":
                self._move([each.id for each in reading.running], -1 if key == "up" else 1)
            case "enter" if self.selected is not None:
                self.opened = None if self.opened else self.selected
                self.log.clear()

    def _move(self, ids: Sequence[str], step: int) -> None:
        if not ids:
            self.selected = None
        elif self.selected not in ids:
            self.selected = ids[0]
        else:
            self.selected = ids[min(max(ids.index(self.selected) + step, 0), len(ids) - 1)]


def _after(values: Sequence[Any], value: Any) -> Any:
    """The next of the values, after the last the first."""
    return values[(values.index(value) + 1) % len(values)] if value in values else values[0]


class Section(NamedTuple):
    """A table of the frame. `none` is said if it has no rows."""

    view: View
    columns: Sequence[Column]
    rows: Sequence[Any]
    none: str
    key: Callable[[Any], str | None] = lambda row: None


def frame(reading: Reading, choices: Choices, width: int, height: int, ascii_only: bool = False) -> list[Text]:
    """The lines that fill the terminal, at most `height` of them."""
    head = _head(reading, choices, width, ascii_only)
    if choices.opened is not None:
        return [*head, *_log_lines(reading, choices, width, height - len(head) - 1), _foot(KEYS_OF_LOGS, width)]
    sections = [each for each in _sections(reading, choices) if choices.view in ("all", each.view)]
    gap = 1 if height >= ROOMY else 0
    free = height - len(head) - 1 - len(sections) * (1 + gap)
    lines = list(head)
    for section, rows in zip(sections, shares([max(len(each.rows), 1) for each in sections], free), strict=True):
        lines += [Text()] * gap + _table(section, choices, width, rows)
    lines += [Text()] * (height - 1 - len(lines))
    return [*lines[: height - 1], _foot(KEYS, width)]


def snapshot(reading: Reading, choices: Choices, width: int, ascii_only: bool = False) -> list[Text]:
    """Everything that was read, without keys: for pipes and files."""
    lines = _head(reading, choices, width, ascii_only)
    for section in _sections(reading, choices):
        lines += [Text(), *_table(section, choices, width, len(section.rows) or 1)]
    return lines


def shares(wanted: Sequence[int], free: int) -> list[int]:
    """How many lines each section gets: nobody more than wanted, and what one leaves over goes to the others.

    >>> shares([1, 9, 9], 12), shares([2, 2], 12), shares([5, 5], 0)
    ([1, 6, 5], [2, 2], [0, 0])
    """
    given = [0] * len(wanted)
    while free > 0 and given != list(wanted):
        for at in range(len(wanted)):
            if free > 0 and given[at] < wanted[at]:
                given[at] += 1
                free -= 1
    return given


# --- the first lines


def _head(reading: Reading, choices: Choices, width: int, ascii_only: bool) -> list[Text]:
    clock = f"{reading.at.astimezone():%H:%M:%S} {local_zone(reading.at)}"
    state = [
        "PAUSED" if choices.paused else "",
        f"queue {choices.queue}" if choices.queue else "",
        f"{choices.view} only" if choices.view != "all" else "",
        choices.trouble,
    ]
    flags = "  ".join(filter(None, state))
    left = Text.assemble(("mainspring top", "bold"), (f"  {flags}" if flags else "", "yellow"), f"  {reading.database}")
    left.truncate(max(10, width - len(clock) - 1), overflow="ellipsis", pad=True)
    return [
        Text.assemble(left, " ", clock),
        _cut(Text(_present(reading)), width),
        _cut(_past_hour(reading.hour), width),
        _cut(Text(_bars(reading.hour, width, ascii_only)), width),
    ]


def _present(reading: Reading) -> str:
    working = [worker for worker in reading.workers if "worker" in worker.roles]
    ticking = sum("scheduler" in worker.roles for worker in reading.workers)
    slots = sum(worker.concurrency for worker in working)
    own = [queue for queue in reading.queues if not queue.own]
    running, ready = sum(queue.running for queue in own), sum(queue.ready for queue in own)
    return (
        f"{_number(reading.jobs)} jobs  {_plural(ticking, 'scheduler')}  {_plural(len(working), 'worker')}  "
        f"{running:,} running on {_plural(slots, 'slot')}  {ready:,} ready"
    )


def _bound(seconds: float) -> str:
    return f"{seconds:g} s" if seconds < 1 else rough(seconds)


def _past_hour(hour: ActivitySeries) -> Text:
    totals = hour.totals
    share = f" ({totals.failed / totals.ended:.1%})" if totals.failed else ""
    late = totals.late_at_most(0.99)
    punctual = "" if late is None or late == float("inf") else f"  99% of the ticks began within {_bound(late)}"
    failed = (f"{totals.failed:,} failed{share}", "bold red" if totals.failed else "")
    return Text.assemble(f"last hour: {totals.ended:,} ended, ", failed, punctual)


def _bars(hour: ActivitySeries, width: int, ascii_only: bool) -> str:
    """Executions that ended in each minute of the last hour, as many as there is room for."""
    bars = ASCII_BARS if ascii_only else BARS
    counts = [point.ended for point in hour.points]
    most = max(counts, default=0)
    label = f"a minute: {counts[-2] if len(counts) > 1 else 0:,} ended, at most {most:,}  "
    shown = counts[-max(0, width - len(label)) :] if width > len(label) else []
    return label + "".join(bars[-(-count * (len(bars) - 1) // most)] if most else bars[0] for count in shown)


# --- the tables


def _sections(reading: Reading, choices: Choices) -> list[Section]:
    at = reading.at
    problems, queues = reading.problems, _sorted_queues(reading, choices)
    more = f" of {len(problems.problems) + problems.left_out}" if problems.left_out else ""
    return [
        Section("problems", _problem_columns(f"{len(problems.problems)}{more}", at), problems.problems, "none"),
        Section("queues", _queue_columns(len(queues), choices.sort), queues, "none"),
        Section("running", _running_columns(len(reading.running), at), reading.running, "nothing", lambda row: row.id),
        Section("next", _coming_columns(at), reading.coming, "nothing is scheduled"),
    ]


def _sorted_queues(reading: Reading, choices: Choices) -> list[QueueView]:
    found = [queue for queue in reading.queues if choices.queue in (None, queue.name)]
    if choices.sort == "name":
        return found
    return sorted(found, key=lambda view: getattr(view, FIELDS.get(choices.sort, choices.sort)) or 0.0, reverse=True)


def _problem_columns(count: str, at: datetime) -> list[Column]:
    return [
        Column(f"PROBLEMS {count}", _problem_cell, "cut", readable=44),
        Column("EVIDENCE", lambda each: evidence(each, at), "cut", readable=24),
    ]


def _problem_cell(problem: Problem) -> Text:
    return Text.assemble(severity(problem), " ", cell(sentence(problem)))


def _queue_columns(count: int, sort: str) -> list[Column]:
    name, *others = QUEUE_COLUMNS
    by = "" if sort == "name" else f" by {sort}"
    return [name._replace(title=f"QUEUES {count}{by}", way="cut", readable=16), *others]


def _running_columns(count: int, at: datetime) -> list[Column]:
    return [
        Column(f"RUNNING {count}", lambda each: each.job, "cut", readable=20),
        Column("ID", lambda each: short_id(each.id)),
        Column("FOR", lambda each: _running_for(each, at), right=True),
        Column("ATTEMPT", lambda each: f"{each.attempt}/{each.max_attempts}", right=True),
        Column("QUEUE", lambda each: each.queue, "drop"),
        Column("TENANT", lambda each: each.tenant or "", "drop"),
        Column("PROGRESS", lambda each: progress_text(each.progress, running=True), "cut", readable=20),
    ]


def _running_for(execution: Execution, at: datetime) -> str:
    return rough((at - (execution.started_at or execution.created_at)).total_seconds())


def _coming_columns(at: datetime) -> list[Column]:
    return [
        Column("NEXT", lambda view: view.name, "cut", readable=20),
        Column(f"AT ({local_zone(at)})", lambda view: moment(view.next_run_at, at)),
        Column("QUEUE", lambda view: view.queue, "drop"),
        Column("SCHEDULE", lambda view: view.description_of_schedule, "cut"),
    ]


def _table(section: Section, choices: Choices, width: int, rows: int) -> list[Text]:
    """The title in reverse, then the rows that have a place; the selected one is among them."""
    first = _first_shown([section.key(row) for row in section.rows], choices.selected, rows)
    shown = section.rows[first : first + rows]
    lines, _ = table_lines(section.columns, shown, width)
    lines[0].truncate(width, pad=True)
    lines[0].stylize("reverse")
    if not shown and rows:
        lines.append(Text(f"  {section.none}", style="dim"))
    for line, row in zip(lines[1:], shown, strict=False):
        if section.key(row) is not None and section.key(row) == choices.selected:
            line.truncate(width, pad=True)
            line.stylize("reverse")
    return [_cut(line, width) for line in lines]


def _first_shown(keys: Sequence[str | None], selected: str | None, rows: int) -> int:
    at = keys.index(selected) if selected is not None and selected in keys else 0
    return max(0, at - rows + 1)


def _log_lines(reading: Reading, choices: Choices, width: int, height: int) -> list[Text]:
    """The opened execution, and the last lines that it logged."""
    one = next((each for each in reading.running if each.id == choices.opened), None)
    title = Text(f"{one.job if one else 'execution'}  {choices.opened}", style="bold reverse")
    title.truncate(width, pad=True)
    about = f"It is no longer running: mainspring executions show {short_id(choices.opened or '').lstrip('…')}"
    if one is not None:
        progress = progress_text(one.progress, running=True)
        about = f"running for {_running_for(one, reading.at)}, attempt {one.attempt}/{one.max_attempts}  {progress}"
    room = max(0, height - 2)
    logged = [_cut(cell(_log_text(line)), width) for line in list(choices.log)[-room:]] if room else []
    logged = logged or [Text("  no log lines", style="dim")]
    return [title, _cut(Text(one_line(about)), width), *logged, *([Text()] * (room - len(logged)))]


def _log_text(line: LogEntry) -> str:
    return f"{line.at.astimezone():%H:%M:%S} {line.level:<8} {line.message}".replace("\n", " ")


def _foot(keys: str, width: int) -> Text:
    return _cut(Text(keys, style="dim"), width)


def _cut(line: Text, width: int) -> Text:
    line.truncate(width, overflow="ellipsis")
    line.no_wrap = True
    return line


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _number(total: Total) -> str:
    return f"{total:,}" if isinstance(total, int) else total
