"""What the command line prints: widths, times, durations, and text that cannot steer a terminal."""

from __future__ import annotations

import io
import json
import os
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import pytest

from mainspring.cli import main
from mainspring.cli.parameters import quoting_hint, read_params
from mainspring.cli.root import run_command
from mainspring.cli.screens.jobs import retry_text, runs_text
from mainspring.cli.screens.output import (
    cell,
    compact,
    moment,
    moment_in,
    print_json,
    progress_text,
    relative,
    rough,
    took,
    with_local_times,
)
from mainspring.cli.screens.table import Column, Way, fitting_widths, print_table
from mainspring.core.render.entities import execution_json
from mainspring.core.views.execution import Execution
from mainspring.core.views.job import JobTotals
from mainspring.model.execution import ExecutionRow, State
from mainspring.model.job import JobStats
from mainspring.model.policies import Retry

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("ways", "natural", "width", "shown"),
    [
        (["keep", "cut", "drop"], [10, 10, 10], 34, {0: 10, 1: 10, 2: 10}),
        (["keep", "cut", "drop"], [10, 30, 10], 34, {0: 10, 1: 10, 2: 10}),
        (["keep", "cut", "drop"], [10, 30, 10], 33, {0: 10, 1: 21}),
        (["keep", "cut", "cut"], [10, 40, 15], 60, {0: 10, 1: 31, 2: 15}),
        (["keep", "last", "drop"], [36, 90, 4], 60, {0: 36, 1: 16, 2: 4}),
        (["keep", "last", "drop"], [36, 90, 4], 40, {0: 36}),
        (["keep", "keep"], [36, 36], 20, {0: 36, 1: 36}),
        (["keep", "cut"], [10, 3], 5, {0: 10, 1: 3}),
    ],
)
def test_columns_give_way_in_order(ways: list[Way], natural: list[int], width: int, shown: dict[int, int]) -> None:
    assert fitting_widths(ways, natural, width) == shown


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "now"),
        (-0.9, "now"),
        (5, "in 5 s"),
        (-90, "1 min 30 s ago"),
        (7_384, "in 2 h 3 min"),
        (-180_000, "2 d 2 h ago"),
    ],
)
def test_relative_times(seconds: float, text: str) -> None:
    assert relative(timedelta(seconds=seconds)) == text


def test_a_moment_shows_the_date_unless_it_is_today() -> None:
    today = moment(NOW + timedelta(minutes=1), NOW)
    later = moment(NOW + timedelta(days=400), NOW)
    assert today == f"{(NOW + timedelta(minutes=1)).astimezone():%H:%M:%S} (in 1 min)"
    assert later.startswith("2027-04-05 ")
    assert later.endswith("(in 400 d)")
    assert moment(None, NOW) == "-"


def test_durations_are_short() -> None:
    assert [rough(1), rough(61), rough(90_000)] == ["1 s", "1 min 1 s", "1 d 1 h"]
    assert [took(None), took(0.4), took(999), took(1500), took(90_000)] == [
        "-",
        "0 ms",
        "999 ms",
        "1.5 s",
        "1 min 30 s",
    ]


def test_control_characters_are_shown_and_not_sent() -> None:
    assert cell("a\x1b[2Jb\rc\x07").plain == "a\\x1b[2Jb\\x0dc\\x07"
    assert cell("two\nlines").plain == "two\nlines"


@pytest.mark.parametrize(
    ("text", "pairs", "params"),
    [
        (None, [], None),
        ("{}", [], {}),
        ('{"a": 1, "b": 2}', ["b=3"], {"a": 1, "b": 3}),
        (
            None,
            ["n=5", "t=true", "s=plain text", 'q="5"', "e=", "u=a=b"],
            {"n": 5, "t": True, "s": "plain text", "q": "5", "e": "", "u": "a=b"},
        ),
    ],
)
def test_parameters_are_json_where_they_read_as_json(text: str | None, pairs: list[str], params: Any) -> None:
    assert read_params(text, pairs) == params


@pytest.mark.parametrize(("text", "pairs"), [("{", []), ("[]", []), ("1", []), (None, ["x"]), (None, ["=x"])])
def test_parameters_that_cannot_be_read_are_refused(text: str | None, pairs: list[str]) -> None:
    with pytest.raises(click.BadParameter):
        read_params(text, pairs)


def test_text_parameters_keep_their_text() -> None:
    pairs = ["a=42", "b=null", "c=null", 'd="x"', "e=1"]
    textual = {"a": str, "b": str, "c": str | None, "d": str}
    assert read_params(None, pairs, textual) == {"a": "42", "b": "null", "c": None, "d": "x", "e": 1}
    assert quoting_hint("e", pairs) == "To give it as text: --param 'e=\"1\"'"
    assert quoting_hint("d", pairs) == quoting_hint("missing", pairs) == ""


def table(capsys: pytest.CaptureFixture[str], width: int) -> tuple[list[str], str]:
    """Four columns, the last of which is empty, as a terminal of this width shows them."""
    columns = [
        Column("ID", lambda row: row[0], "keep", lambda text: text[-4:]),
        Column("JOB", lambda row: row[1], "cut"),
        Column("NOTE", lambda row: row[2], "drop"),
        Column("TENANT", lambda row: row[3], "drop"),
    ]
    rows = [["0123456789", "crawl", "long words", ""], ["9876543210", "report", "-", "-"]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        print_table(columns, rows)
    out, err = capsys.readouterr()
    return out.splitlines(), err


def test_a_table_hides_what_is_empty_shortens_cells_and_only_then_drops_columns(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert table(capsys, 80) == (["ID          JOB     NOTE", *WIDE], "")
    assert table(capsys, 25)[0][1] == "6789  crawl   long words"
    lines, note = table(capsys, 20)
    assert lines == ["ID    JOB", "6789  crawl", "3210  report"]
    assert note == "(1 column hidden; widen the terminal or use -o json)\n"


def test_an_error_keeps_its_room_and_lesser_columns_give_way() -> None:
    readable = [10, 10, 36, 10]
    assert fitting_widths(["keep", "drop", "last", "drop"], [12, 10, 80, 24], 64, readable) == {0: 12, 1: 10, 2: 38}
    assert fitting_widths(["keep", "last"], [12, 80], 30, [10, 36]) == {0: 12, 1: 16}


def test_times_in_a_sentence_are_shown_in_the_zone_of_the_reader() -> None:
    text = with_local_times("paused until 2026-03-01T08:00:00.5Z: 2026-03-01", NOW)
    assert text == f"paused until {datetime(2026, 3, 1, 8, tzinfo=UTC).astimezone():%H:%M:%S}: 2026-03-01"


WIDE = ["0123456789  crawl   long words", "9876543210  report  -"]


def test_a_moment_is_told_in_the_zone_of_the_job_too_where_that_differs() -> None:
    offset = NOW.astimezone().utcoffset()
    other = "Asia/Tokyo" if offset != timedelta(hours=9) else "UTC"
    assert moment_in(NOW, NOW, other).startswith(moment(NOW, NOW) + ", 2026-03-01 ")
    assert moment_in(NOW, NOW, other).endswith(other)


def test_progress_results_and_counts_in_short() -> None:
    assert progress_text({"done": 6, "total": 20, "message": "row 6"}) == "6/20 (30%): row 6"
    assert [progress_text(None), progress_text({"done": 7}), progress_text({"done": 0, "total": 0})] == ["", "7", "0"]
    assert [compact(None), compact({}), compact(0), compact([1])] == ["", "", "0", "[1]"]
    assert compact("x" * 1000).endswith("... (1,002 characters; all of it with -o json)")
    everything = JobStats(job_id="x", completed=1, partial=2, failed=3, cancelled=4, skipped=5)
    assert runs_text(JobTotals(everything)) == "10 (1 completed, 2 partial, 3 failed, 4 cancelled); 5 skipped"
    assert runs_text(JobTotals(JobStats(job_id="x"))) == "0"
    assert retry_text(Retry("1s", multiplier=1, jitter=0.1)) == "after 1s, give or take 10%"


def test_a_terminal_without_unicode_gets_most_of_the_words(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="latin-1", write_through=True)
    monkeypatch.setattr("sys.stdout", out)
    assert main(["cron", "explain", "* * * * *", "--count", "1"]) == 0
    print_table([Column("NAME", str)], ["caf\u00e9 \u2026"])
    assert out.buffer.getvalue().endswith("caf\u00e9 ?\n".encode("latin-1"))


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-8"])
def test_json_keeps_every_character_whatever_the_output_can_write(
    monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace", write_through=True)
    monkeypatch.setattr("sys.stdout", out)
    data = {"name": "caf\u00e9 \u2026 \u65e5\u672c"}
    print_json(data)
    assert json.loads(out.buffer.getvalue()) == data  # read as UTF-8, as programs do


@pytest.mark.req("API-12")
@pytest.mark.parametrize(
    ("state", "failures", "retry"), [("pending", 0, 0), ("failed", 1, 0), ("failed", 3, 2), ("completed", 2, 2)]
)
def test_the_first_try_is_no_retry(state: str, failures: int, retry: int) -> None:
    tried = ExecutionRow(id="e", job="j", job_id="j", handler="j", state=State(state), failures=failures)
    assert execution_json(Execution(tried))["retry_attempt"] == retry


@pytest.mark.req("OBS-7")
def test_a_process_whose_output_is_closed_says_everything_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert run_command(["cron", "explain", "0 3 * * *"]) == 0
    with sys.stdout as output, sys.stderr as errors:
        assert (output.isatty(), errors.isatty(), errors.name) == (False, False, os.devnull)
