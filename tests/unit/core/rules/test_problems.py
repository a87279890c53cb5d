"""What needs attention: each kind of problem can appear, and does not without its cause; order, words and bounds."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mainspring.core.rules.problem_facts import (
    ErrorFacts,
    Facts,
    HandlerFacts,
    Lane,
    LateFacts,
    LoopFacts,
    QueueFacts,
    RunFacts,
    WebhookFacts,
)
from mainspring.core.rules.problems import MOST, MOST_OF_A_KIND, Problem, problems, span_text
from mainspring.model.backfill import BackfillRow
from mainspring.model.bulk import BulkRow
from mainspring.model.controls import Control
from mainspring.model.execution import ExecutionRow, State, encode_policy
from mainspring.model.policies import RunPolicy
from mainspring.model.store.messages import WorkerInfo
from mainspring.model.time.instants import SECOND, to_micros

pytestmark = pytest.mark.req("DSH-1")

MINUTE, HOUR, DAY = 60 * SECOND, 3_600 * SECOND, 86_400 * SECOND
NOW = 1_772_366_400 * SECOND  # 2026-03-01 12:00 UTC
PAUSE = Control(paused=NOW - MINUTE, by="ann", note="mail server down")
WORKER = WorkerInfo(id="w1", host="web", pid=7, version="1.0", roles=("worker", "scheduler"), started=NOW, seen=NOW)


def found(**facts: Any) -> list[Problem]:
    return problems(Facts(now=NOW, **facts)).problems


def late(**changes: Any) -> LateFacts:
    plain = LateFacts(job="nightly", queue="reports", handler="nightly", tz="UTC", first=NOW - 192 * MINUTE, count=1)
    return msgspec.structs.replace(plain, **changes)


def error(**changes: Any) -> ErrorFacts:
    plain = ErrorFacts(
        id="e1",
        title="ConnectionError: supplier does not answer",
        count=128,
        failures=3,
        first_seen=NOW - 27 * MINUTE,
        last_seen=NOW - MINUTE,
        jobs=("sync-stock",),
        jobs_total=1,
        tenants_total=9,
        release="2026.11.3",
    )
    return msgspec.structs.replace(plain, **changes)


def queue(**changes: Any) -> QueueFacts:
    plain = QueueFacts(name="mail", ready=10, waiting=10, oldest=NOW - 14 * MINUTE, workers=2)
    return msgspec.structs.replace(plain, **changes)


def run(
    average_ms: float | None = 10_000.0, runs: int = 10, policy: RunPolicy | None = None, **fields: Any
) -> RunFacts:
    row = ExecutionRow(
        id="x1",
        job="import",
        job_id="j1",
        handler="import",
        state=State.RUNNING,
        owner="w1",
        claimed=NOW - 52 * MINUTE,
        policy=encode_policy(policy or RunPolicy()),
    )
    return RunFacts(msgspec.structs.replace(row, **fields), average_ms, runs)


def worker(**changes: Any) -> WorkerInfo:
    return msgspec.structs.replace(WORKER, **changes)


def bulk(**changes: Any) -> BulkRow:
    plain = BulkRow(id="b1", action="retry", target="executions", state="stopped", created=NOW - HOUR, created_by="ann")
    return msgspec.structs.replace(plain, finished=NOW - MINUTE, probe=5, total=40, done=5, **changes)


def backfill(**changes: Any) -> BackfillRow:
    plain = BackfillRow(id="f1", job="report", job_id="j1", begin=0, end=1, state="partial", total=7, failed=2)
    return msgspec.structs.replace(plain, **{"finished": NOW - MINUTE, "created": NOW - HOUR, **changes})


DRAINED = {"w1": Control(paused=NOW - 2 * HOUR, by="ann")}
MIXED = (
    worker(release="1", started=NOW - DAY),
    worker(id="w2", release="2", started=NOW - 2 * HOUR),
)
BOTH = frozenset({"w1", "w2"})
LATE_TREND = (0,) * 22 + (10, 15)
CASES: dict[str, tuple[str, str, str | None, dict[str, Any]]] = {
    # name: kind, severity, fix, facts
    "new error": ("new_error", "bad", "retry_probe", {"errors": [error()]}),
    "new error, over": ("new_error", "warn", "retry_probe", {"errors": [error(last_seen=NOW - 2 * HOUR)]}),
    "new error, retried": ("new_error", "warn", "open_error", {"errors": [error(failures=0)]}),
    "new error, its runs retried": ("new_error", "warn", "open_error", {"errors": [error(closed=3)]}),
    "new error, absorbed": ("new_error", "warn", "open_error", {"errors": [error(failures=0, completed=True)]}),
    "new error, some retried": ("new_error", "bad", "retry_probe", {"errors": [error(closed=2, completed=True)]}),
    "growing, retried": (
        "growing_error",
        "warn",
        "open_error",
        {"errors": [error(first_seen=0, failures=0, trend=LATE_TREND)]},
    ),
    "growing": ("growing_error", "bad", "retry_probe", {"errors": [error(first_seen=0, trend=LATE_TREND)]}),
    "missed": ("late_job", "bad", "why", {"late": [late()], "workers": [WORKER], "alive": {"w1"}}),
    "late, paused": ("late_job", "warn", "why", {"late": [late(waiting=True, parked="crawl")]}),
    "backing up": ("queue_backing_up", "warn", "open_queue", {"queues": [queue()]}),
    "backing up for hours": ("queue_backing_up", "bad", "open_queue", {"queues": [queue(oldest=NOW - 2 * HOUR)]}),
    "growing queue": (
        "queue_backing_up",
        "warn",
        "open_queue",
        {"queues": [queue(ready=2_000, oldest=NOW - MINUTE, rate_in=220, rate_out=85)]},
    ),
    "no worker": ("no_worker", "bad", "open_queue", {"queues": [queue(workers=0, oldest=NOW - MINUTE)]}),
    "all drained": ("no_worker", "bad", "open_queue", {"queues": [queue(drained=2, oldest=NOW - MINUTE)]}),
    "no handler": (
        "no_handler",
        "bad",
        "open_executions",
        {"queues": [queue(oldest=NOW - HOUR, missing=(Lane("send", 10, NOW - HOUR),))]},
    ),
    "paused queue": ("paused_queue", "warn", "resume", {"queues": [queue(paused=PAUSE, ready=0)]}),
    "paused handler": ("paused_handler", "warn", "resume", {"handlers": [HandlerFacts("send", 3, PAUSE)]}),
    "long run": ("stuck_run", "warn", "open_execution", {"runs": [run()]}),
    "past its timeout": ("stuck_run", "bad", "open_execution", {"runs": [run(None, policy=RunPolicy(timeout=60))]}),
    "not cancelled": ("stuck_run", "bad", "open_execution", {"runs": [run(None, cancel_requested=NOW - 2 * MINUTE)]}),
    "silent": (
        "silent_worker",
        "bad",
        "open_worker",
        {"workers": [worker(seen=NOW - 4 * MINUTE)], "runs": [run(None, owner="w1")]},
    ),
    "silent, taken over": (
        "silent_worker",
        "warn",
        "open_worker",
        {"workers": [worker(seen=NOW - 4 * MINUTE, running=1)], "runs": [run(None, owner="w2")]},
    ),
    "drained": ("drained_worker", "warn", "undrain", {"workers": [WORKER], "alive": {"w1"}, "drains": DRAINED}),
    "no scheduler": ("no_scheduler", "bad", None, {"has_schedules": True}),
    "mixed": ("mixed_releases", "warn", "open_changes", {"workers": MIXED, "alive": BOTH}),
    "wake-ups": ("wakeups_down", "bad", None, {"channels": {"store": False, "redis": True}}),
    "skew": ("clock_skew", "warn", None, {"skew": -3.2}),
    "loop": ("failing_loop", "bad", None, {"loops": [LoopFacts("retention", 90.0, "OSError: full")]}),
    "disk, bytes": ("disk_space", "bad", None, {"disk": (900_000_000, 10_000_000_000)}),
    "disk, share": ("disk_space", "bad", None, {"disk": (4_000_000_000, 100_000_000_000)}),
    "webhook": (
        "disabled_webhook",
        "warn",
        "enable_webhook",
        {"webhooks": [WebhookFacts("h1", "ops", NOW, "gone", gave_up=True)]},
    ),
    "failing webhook": (
        "failing_webhook",
        "warn",
        "open_webhook",
        {"webhooks": [WebhookFacts("h1", "ops", NOW - 2 * MINUTE)]},
    ),
    "bulk": ("stopped_bulk", "warn", "open_bulk", {"bulks": [bulk()]}),
    "backfill": ("failed_backfill", "warn", "open_backfill", {"backfills": [backfill()]}),
    "conflict": ("job_conflict", "warn", "open_job", {"conflicts": {"sync": ["crm", "shop"]}}),
}


@pytest.mark.parametrize("name", CASES)
def test_each_kind_appears_with_its_cause(name: str) -> None:
    kind, severity, fix, facts = CASES[name]
    facts = {**facts, "alive": frozenset(facts.get("alive", ()))}
    [problem] = found(**facts)
    assert (problem.kind, problem.severity, problem.fix) == (kind, severity, fix)
    assert problem.text
    assert "<" not in problem.text + problem.evidence


QUIET: dict[str, dict[str, Any]] = {
    "nothing at all": {},
    "an old error": {"errors": [error(first_seen=NOW - 2 * DAY, trend=(10,) * 24)]},
    "few more of an old error": {"errors": [error(first_seen=NOW - 2 * DAY, trend=(0,) * 22 + (9, 10))]},
    "a queue that keeps up": {"queues": [queue(oldest=NOW - MINUTE, ready=2_000, rate_in=85, rate_out=85)]},
    "an empty queue without workers": {"queues": [queue(workers=0, ready=0, waiting=0, oldest=None)]},
    "work that has just come": {"queues": [queue(workers=0, oldest=NOW - SECOND)]},
    "a paused queue without work": {"queues": [queue(paused=PAUSE, ready=0, waiting=0, oldest=None)]},
    "a paused handler without work": {"handlers": [HandlerFacts("send", 0, PAUSE)]},
    "a usual run": {"runs": [run(average_ms=14 * 60_000.0)]},
    "a short run": {"runs": [run(average_ms=5.0, claimed=NOW - 50 * SECOND)]},
    "a job that hardly ran before": {"runs": [run(runs=2)]},
    "a run within its timeout": {"runs": [run(None, policy=RunPolicy(timeout=3_600))]},
    "a cancel a moment ago": {"runs": [run(None, cancel_requested=NOW - 2 * SECOND)]},
    "a living worker": {"workers": [WORKER], "alive": frozenset({"w1"}), "has_schedules": True},
    "a script that ended": {"workers": [worker(roles=(), seen=NOW - HOUR)]},
    "drained for a deploy": {
        "workers": [WORKER],
        "alive": frozenset({"w1"}),
        "drains": {"w1": Control(paused=NOW - MINUTE)},
    },
    "a deploy": {"workers": (MIXED[0], worker(id="w2", release="2", started=NOW - MINUTE)), "alive": BOTH},
    "two applications": {
        "workers": (
            worker(application="a", release="1", started=0),
            worker(id="w2", application="b", release="2", started=0),
        ),
        "alive": BOTH,
    },
    "what works": {"channels": {"store": True}, "disk": (50_000_000_000, 100_000_000_000)},
    "a loop that failed once": {"loops": [LoopFacts("sweep", 0.0, "OSError: busy")]},
    "endings of last week": {
        "bulks": [msgspec.structs.replace(bulk(), finished=NOW - 7 * DAY)],
        "backfills": [backfill(finished=NOW - 7 * DAY)],
    },
    "endings as wished": {
        "bulks": [msgspec.structs.replace(bulk(), state="completed")],
        "backfills": [backfill(state="completed")],
    },
}


@pytest.mark.parametrize("name", QUIET)
def test_nothing_appears_without_a_cause(name: str) -> None:
    assert found(**QUIET[name]) == []


def test_words() -> None:
    [new] = found(errors=[error()])
    assert (new.subject.name, new.text) == ("ConnectionError: supplier does not answer", "is new in sync-stock")
    assert new.evidence == "128 failed attempts, 3 failed runs, 9 tenants, first in release 2026.11.3, last 1 min ago"
    [slow] = found(runs=[run(average_ms=13 * 60_000.0 - 60_000)])
    assert (slow.text, slow.evidence) == ("has run 4 times longer than usual", "52 min, usually 12 min")
    [backs_up] = found(queues=[queue(ready=12_480, rate_in=220, rate_out=85)])
    assert backs_up.evidence == "12,480 ready, oldest 14 min, in 220/min, out 85/min"
    [paused] = found(queues=[queue(paused=PAUSE)])
    assert (paused.text, paused.evidence, paused.by) == (
        "is paused while work waits",
        "10 ready; mail server down",
        "ann",
    )
    assert "ann" not in str((paused.text, paused.evidence, paused.details))  # a caller may leave the name out
    assert [span_text(each) for each in (0.25, 59.6, 60, 3_599, 86_400 * 40)] == [
        "0.2 s",
        "1 min",
        "1 min",
        "1 h",
        "40 d",
    ]


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"late": [late()]}, "due 08:48 UTC, no scheduler is running"),
        ({"late": [late()], "workers": [WORKER], "alive": frozenset({"w1"})}, "due 08:48 UTC, the scheduler is behind"),
        ({"late": [late(tz="Europe/Istanbul", first=NOW - DAY)]}, "due 2026-02-28 15:00 Europe/Istanbul, no sch"),
        ({"late": [late(waiting=True)], "queues": [QueueFacts(name="reports")]}, "no worker serves queue 'reports'"),
        ({"late": [late(waiting=True)], "queues": [QueueFacts(name="reports", workers=1, drained=1)]}, "is drained"),
        ({"late": [late(waiting=True)], "queues": [QueueFacts(name="reports", paused=PAUSE)]}, "'reports' is paused"),
        ({"late": [late(waiting=True)], "handlers": [HandlerFacts("nightly", 0, PAUSE)]}, "'nightly' is paused"),
        ({"late": [late(waiting=True, parked="crawl")]}, "waits for the limit 'crawl'"),
        ({"late": [late(waiting=True, count=4)]}, "are busy, 4 wait"),
    ],
)
def test_a_late_job_says_why(facts: dict[str, Any], reason: str) -> None:
    [problem] = found(**facts)
    assert problem.text.startswith("is late by ")
    assert reason in problem.evidence


def test_many_jobs_that_are_late_for_one_reason_are_one_problem() -> None:
    jobs = [late(job=f"job{number}", first=NOW - HOUR + number) for number in range(200)]
    result = problems(Facts(now=NOW, late=[*jobs, late(waiting=True)], more_late=True))
    several, one = result.problems
    assert (several.subject.name, several.count) == ("job0", 200)
    assert several.text == "and at least 199 other jobs are late, this one by 1 h"
    assert (one.subject.name, one.text) == ("nightly", "is late by 3 h 12 min")


def test_bad_ones_come_first_then_the_newest_of_a_kind() -> None:
    errors = [error(id=str(age), first_seen=NOW - age * MINUTE) for age in (5, 1, 9)]
    result = found(errors=errors, skew=9.0, channels={"store": False}, has_schedules=True)
    assert [each.kind for each in result] == ["no_scheduler", *["new_error"] * 3, "wakeups_down", "clock_skew"]
    assert [each.subject.id for each in result[1:4]] == ["1", "5", "9"]


def test_an_error_without_open_failures_is_mended_once_its_jobs_complete() -> None:
    assert found(errors=[error(closed=3, completed=True)]) == []
    assert found(errors=[error(failures=0, completed=True, last_seen=NOW - HOUR)]) == []
    [left] = found(errors=[error(closed=1, completed=True)])
    assert (left.evidence[:34], left.details["open_failures"]) == ("128 failed attempts, 2 failed runs", 2)


def test_one_kind_never_hides_the_others_and_what_is_left_out_is_counted() -> None:
    errors = [error(id=str(number)) for number in range(300)]
    queues = [queue(name=f"q{number}", workers=0) for number in range(30)]
    result = problems(Facts(now=NOW, errors=errors, queues=queues, skew=9.0))
    kinds = [each.kind for each in result.problems]
    assert (kinds.count("new_error"), kinds.count("no_worker")) == (MOST_OF_A_KIND, MOST_OF_A_KIND)
    assert kinds[-1] == "clock_skew"
    assert len(kinds) <= MOST
    assert result.left_out == 331 - len(kinds)
    assert to_micros(result.checked_at) == NOW
