"""Executions for people: what is told of those that never began."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from mainspring import Execution
from mainspring.cli.screens.executions import Shown, print_executions, show_execution
from mainspring.cli.session import ClientSession
from mainspring.core.render.entities import execution_json
from mainspring.core.rules.ticks import gap_record
from mainspring.model.execution import AttemptRecord, ExecutionRow, State, encode_attempts, encode_policy
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.policies import RunPolicy
from mainspring.model.time.instants import to_micros
from mainspring.model.values.reading import instant

NOW = to_micros(instant("now", "2026-03-01T03:00:00Z"))


@pytest.mark.req("WIN-2", "OPS-4")
def test_missed_ticks_are_shown_with_how_many_they_were_and_when(capsys: pytest.CaptureFixture[str]) -> None:
    declared = encode_spec(JobSpec(handler="job"))
    job = Job(name="nightly", id="0", origin="code", declared=declared, release="", anchor=0, created=0, updated=0)
    row = gap_record(job, (NOW - 3_000_000, NOW - 1_000_000, 3, True), NOW, random.Random(1), "missed")
    missed = Execution(row)
    print_executions([missed])
    title, shown = capsys.readouterr().out.splitlines()
    assert title.split() == ["ID", "JOB", "STATUS", "CREATED", "REASON", "TRIGGER"]
    assert shown.split()[1:4] == ["nightly", "skipped", "2026-03-01"]
    show_execution(ClientSession(None, None, "table"), Shown(missed, None, ""))
    shown = capsys.readouterr().out
    assert '"count": 3' in shown
    assert "no scheduler was running" in shown


@pytest.mark.req("EXE-15", "OPS-4")
@pytest.mark.parametrize("asked_by", ["timeout", "cancel"])
def test_an_attempt_that_does_not_stop_is_shown_while_it_runs_and_afterwards(
    capsys: pytest.CaptureFixture[str], asked_by: str
) -> None:
    policy = encode_policy(RunPolicy(timeout=5 if asked_by == "timeout" else None))
    running = ExecutionRow(
        id="1" * 8, job="slow", job_id="0", handler="slow", policy=policy, state=State.RUNNING, claimed=NOW, started=NOW
    )
    if asked_by == "cancel":
        running = replace(running, cancel_requested=NOW)
    assert running.overruns(NOW + 500_000) is None
    assert running.overruns(NOW + 6_000_000) == asked_by
    show_execution(ClientSession(None, None, "table"), Shown(Execution(running), None, ""))
    assert "its handler does not stop" in " ".join(capsys.readouterr().out.split())
    attempt = AttemptRecord(1, "w", NOW, NOW + 6_000_000, "completed", overran=asked_by)  # type: ignore[arg-type]
    ended = replace(running, state=State.COMPLETED, finished=attempt.ended, attempts_json=encode_attempts([attempt]))
    assert ended.overruns(NOW + 9_000_000) is None
    show_execution(ClientSession(None, None, "table"), Shown(Execution(ended), None, ""))
    shown = " ".join(capsys.readouterr().out.split())
    assert {"timeout": "completed past its timeout", "cancel": "completed despite a cancel"}[asked_by] in shown


@pytest.mark.req("EXE-9", "EXE-10")
def test_what_an_attempt_used_and_why_it_ended_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    attempts = [
        AttemptRecord(1, "w", NOW, NOW + 6_000_000, "failed", cpu_ms=5_500.0, memory_mb=612.4, reason="out_of_memory"),
        AttemptRecord(2, "w", NOW, NOW + 9_000_000, "timeout", cpu_ms=12.0, memory_mb=48.0),
    ]
    ended = ExecutionRow(
        id="1" * 8,
        job="render",
        job_id="0",
        handler="render",
        state=State.FAILED,
        claimed=NOW,
        started=NOW,
        finished=NOW + 9_000_000,
        attempts_json=encode_attempts(attempts),
    )
    show_execution(ClientSession(None, None, "table"), Shown(Execution(ended), None, ""))
    shown = " ".join(capsys.readouterr().out.split())
    for words in ("CPU MEMORY", "failed (out_of_memory)", "5.5 s 612 MB", "12 ms 48 MB"):
        assert words in shown
    first, second = execution_json(Execution(ended))["attempts"]
    assert (first["reason"], first["cpu_time_ms"], first["memory_peak_mb"]) == ("out_of_memory", 5_500.0, 612.4)
    assert (second["end"], second["reason"]) == ("timeout", None)
