"""What a handler prints in a child process, and what is kept of it."""

from __future__ import annotations

import io
import sys
import warnings

import pytest

from mainspring.core.declaring.context import RunningContext
from mainspring.core.engine.outcomes import Attempt
from mainspring.model.execution import ExecutionRow
from mainspring.processes.child_output import ChildOutput
from mainspring.testing.clock import FakeClock

pytestmark = pytest.mark.req("EXE-11")


def kept(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO | None, *texts: str) -> list[str]:
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", None)
    context = RunningContext(ExecutionRow(id="e1", job="crawl", job_id="j1", handler="crawl"), FakeClock())
    output = ChildOutput()
    output.begin()
    output.attempt = Attempt(context._row, context, 0, 0.0)
    for text in texts:
        sys.stdout.write(text)
    output.end_line()
    for printed in output._printed:
        if printed._stream is not stream:
            printed._stream.close()
    drained = context.drain()
    return [] if drained is None else [line.message for line in drained[2]]


def test_whole_lines_are_kept_and_all_is_written_on(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    assert kept(monkeypatch, stream, "one\ntw", "o\n", "\n", "three") == ["one", "two", "three"]
    assert stream.getvalue() == "one\ntwo\n\nthree"


def test_of_a_progress_bar_only_the_last_state_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept(monkeypatch, io.StringIO(), "\r10 %", "\r20 %", "\r100 %\n", "a\r", "\n", "b\r\nc\r\n") == [
        "100 %",
        "a",
        "b",
        "c",
    ]


def test_a_warning_is_one_line_that_steers_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setattr(sys, "stderr", stream)
    ChildOutput().begin()
    warnings.showwarning(UserWarning("\x1b[2J\u202e\n12:00:00 forged"), UserWarning, "orders.py", 7)
    assert stream.getvalue() == "orders.py:7: UserWarning: \\x1b[2J\\u202e\\x0a12:00:00 forged\n"


def test_a_worker_without_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept(monkeypatch, None, "one\n") == ["one"]
