"""Why a job is not running: each fact gives its reason, and what stands in the way comes first."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mainspring import Mainspring
from mainspring.core.monitoring import why_facts
from mainspring.core.monitoring.why import Reason, reasons, why_it_waits
from mainspring.core.monitoring.why_facts import Facts, Place, counted, facts, place_of
from mainspring.core.rules import job_commands
from mainspring.core.views.job import JobView
from mainspring.model.execution import ExecutionRow, State, encode_policy
from mainspring.model.job import Job, JobSpec, JobStats, LiveCounts, encode_spec
from mainspring.model.policies import RunPolicy
from mainspring.model.store.messages import WorkerInfo
from mainspring.model.time.instants import SECOND
from mainspring.model.triggers import encode_trigger, every, once

pytestmark = pytest.mark.req("API-10")

NOW = 1_000_000 * SECOND


def job(trigger: Any = None, **fields: Any) -> Job:
    encoded = None if trigger is None else encode_trigger(trigger)
    declared = encode_spec(JobSpec(handler="h", trigger=encoded, **fields))
    write = job_commands.declare(None, Job(name="j", id="i", declared=declared, anchor=NOW, created=NOW), NOW)
    assert write is not None
    return write.job


def worker(**fields: Any) -> WorkerInfo:
    plain = {"roles": ("scheduler", "worker"), "handlers": ("h",), "concurrency": 10, **fields}
    return WorkerInfo(id="w", host="x", pid=1, version="1", **plain)


def run(id: str = "e", **fields: Any) -> ExecutionRow:
    plain: dict[str, Any] = {"policy": encode_policy(RunPolicy(overlap="skip")), "due": NOW, **fields}
    return ExecutionRow(id=id, job="j", job_id="i", handler="h", **plain)


def codes(
    made: Job, workers: list[WorkerInfo] | None = None, *alive: ExecutionRow, orphaned: bool = False
) -> list[str]:
    view = JobView(made, JobStats(job_id="i"), LiveCounts(), orphaned)
    given = [worker()] if workers is None else workers
    return [reason.code for reason in reasons(Facts(view=view, now=NOW, workers=given, alive=alive))]


RECURRING = job(every(hours=1))


@pytest.mark.parametrize(
    ("made", "workers", "alive", "expected"),
    [
        (RECURRING, None, [], ["not_due"]),
        (job(), None, [], ["on_demand"]),
        (RECURRING.with_changes(cancelled=NOW), None, [], ["cancelled"]),
        (RECURRING.with_changes(paused=NOW, paused_by="ada"), None, [], ["paused"]),
        (job(every(hours=1), enabled=False), None, [], ["disabled"]),
        (job(once("1970-01-02T00:00:00Z")).with_changes(next_run=None), None, [], ["no_next_run"]),
        (RECURRING.with_changes(next_run=NOW - 1), [worker(roles=("worker",))], [], ["no_scheduler"]),
        (RECURRING.with_changes(next_run=NOW - 60 * SECOND), None, [], ["late"]),
        (RECURRING.with_changes(next_run=NOW - 1), None, [], []),
        (RECURRING, [], [], ["not_due", "no_worker"]),
        (RECURRING, [worker(handlers=("other",))], [], ["not_due", "no_handler"]),
        (RECURRING, [worker(queues=("mail",))], [], ["not_due", "queue_not_served"]),
        (RECURRING, [worker(running=10)], [], ["not_due", "slots_busy"]),
        (RECURRING, [worker(running=10), worker(running=9)], [], ["not_due"]),
        (RECURRING, None, [run(state=State.RUNNING)], ["not_due", "running"]),
        (RECURRING, None, [run(state=State.WAITING)], ["not_due", "waiting_on_children"]),
        (job(every(hours=1), overlap="skip"), None, [run()], ["not_due", "overlap"]),
        (job(), None, [run(due=NOW + 60 * SECOND)], ["start_later"]),
        (job(), None, [run(due=NOW + 60 * SECOND, failures=1)], ["retry_wait"]),
        (job(), None, [run("f", staged=True), run(state=State.RUNNING)], ["overlap", "running"]),
        (job(overlap_limit=1), None, [run(state=State.RUNNING)], ["limit_reached", "running"]),
    ],
)
def test_each_fact_gives_its_reason(
    made: Job, workers: list[WorkerInfo] | None, alive: list[ExecutionRow], expected: list[str]
) -> None:
    assert codes(made, workers, *alive) == expected


def test_a_scheduled_job_that_is_not_due_has_nothing_in_its_way() -> None:
    view = JobView(RECURRING, JobStats(job_id="i"), LiveCounts())
    found = reasons(Facts(view=view, now=NOW, workers=[worker()], alive=[]))
    assert [reason.blocking for reason in found] == [False]


def test_who_paused_it_until_when_and_why() -> None:
    paused = RECURRING.with_changes(paused=NOW, paused_by="ada", pause_note="the shop is closed", resume=NOW + SECOND)
    view = JobView(paused, JobStats(job_id="i"), LiveCounts())
    (reason,) = reasons(Facts(view=view, now=NOW, workers=[worker()], alive=[]))
    assert reason.message.startswith("paused by ada until 1970-01-12T13:46:41Z: the shop is closed")
    assert reason.details["paused_by"] == "ada"


def test_code_that_is_gone_is_told_before_the_worker_that_lacks_it() -> None:
    assert codes(RECURRING, [worker(handlers=())], orphaned=True) == ["not_due", "orphaned", "no_handler"]


def test_who_holds_the_jobs_place_is_named() -> None:
    view = JobView(job(), JobStats(job_id="i"), LiveCounts())
    alive = [run("second", staged=True), run("first", state=State.RUNNING)]
    held = reasons(Facts(view=view, now=NOW, workers=[worker()], alive=alive))[0]
    assert held.details == {"execution_id": "second", "holder": "first"}


def test_turns_are_taken_within_a_queue_and_a_handler_whatever_the_job() -> None:
    asked = run("5", share="plan:free")
    beside = [
        run("1", share="plan:free"),
        run("2", share="plan:paid"),
        msgspec.structs.replace(run("3", share="plan:free"), job="other", job_id="o"),
        asked,
        run("6", share="plan:free"),
    ]
    apart = [
        run("0", share="plan:free", queue="slow"),
        run("0", share="plan:free", priority=1),
        run("0", share="plan:free", due=NOW + 1),
        run("0", share="plan:free", parked="key"),
        msgspec.structs.replace(run("0", share="plan:none"), handler="other"),
    ]
    assert place_of(asked, [*beside, *apart], NOW) == Place(number=3, others=1)


async def test_a_share_of_its_own_is_told_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Mainspring("memory://")
    app.job("work")(lambda: None)
    await app.open()

    async def told() -> list[Reason]:
        parts = app._runtime.parts
        assert parts is not None
        found = reasons(await facts(parts.store, parts.queries, "work"))
        return [reason for reason in found if reason.code == "fair_share"]

    try:
        for share in ("plan:free", "plan:free", "plan:paid"):
            await app.enqueue("work", share=share)
        places = {(each.details["share"], each.details["place"], each.details["other_shares"]) for each in await told()}
        assert places == {("plan:free", 1, 1), ("plan:free", 2, 1), ("plan:paid", 1, 1)}
        monkeypatch.setattr(why_facts, "WAITING_READ", 2)
        assert ["at least" in each.message for each in await told()] == [True] * 3
    finally:
        await app.close()


def waits(made: Job, workers: list[WorkerInfo], *alive: ExecutionRow) -> list[str]:
    view = JobView(made, JobStats(job_id="i"), LiveCounts())
    return [
        f"{each.code}: {each.message}"
        for each in why_it_waits(Facts(view=view, now=NOW, workers=workers, alive=alive), alive[0])
    ]


FULL = worker(running=10)
LIMITED = msgspec.json.encode([{"key": "k", "concurrency": 2}]).decode()


@pytest.mark.parametrize(
    ("made", "workers", "alive", "expected"),
    [
        (job(), [worker()], [run()], []),
        (job(), [], [run()], ["no_worker: no process is running"]),
        (job(), [worker(roles=("scheduler",))], [run()], ["no_worker: no running process has the role worker"]),
        (job(), [FULL], [run()], ["slots_busy: all slots are busy: 10 of 10 on 1 worker(s)"]),
        (job(), [FULL, worker()], [run()], []),
        (
            job(),
            [worker(queues=("default",))],
            [run(queue="mail")],
            ["queue_not_served: no worker that has the handler serves the queue 'mail'"],
        ),
        (
            job().with_changes(cancelled=NOW),
            [],
            [run()],
            ["cancelled: its job is cancelled, so it will be cancelled too"],
        ),
        (
            job(),
            [worker()],
            [run("f", staged=True), run(state=State.RUNNING)],
            ["overlap: execution f waits for e to end (overlap skip)"],
        ),
        (
            job(),
            [FULL],
            [run(parked="k", limits=LIMITED)],
            ["limit_reached: execution e waits: 2 run under the limit k"],
        ),
        (
            job(),
            [],
            [run(due=NOW + SECOND)],
            ["start_later: execution e is to start at 1970-01-12T13:46:41Z", "no_worker: no process is running"],
        ),
        (
            job(),
            [worker()],
            [run(due=NOW + SECOND, error="params.n: 'many' is not valid")],
            [
                "start_later: execution e is to start at 1970-01-12T13:46:41Z, after an attempt that ended with: "
                "params.n: 'many' is not valid"
            ],
        ),
    ],
)
def test_why_one_execution_waits(
    made: Job, workers: list[WorkerInfo], alive: list[ExecutionRow], expected: list[str]
) -> None:
    assert waits(made, workers, *alive) == expected


def test_what_waits_in_another_queue_than_its_jobs_is_looked_at_too() -> None:
    assert codes(job(), [worker(queues=("default",))], run(queue="mail")) == ["queue_not_served"]


def test_what_a_process_runs_is_counted_and_not_as_old_as_its_heartbeat() -> None:
    running = [run(str(number), state=State.RUNNING, owner="w") for number in range(10)]
    (now,) = counted([worker(running=3)], running)
    assert now.running == 10


@pytest.mark.req("FLW-3")
def test_what_waits_for_a_limit_names_it() -> None:
    def told(key: str, **limit: Any) -> list[str]:
        limits = msgspec.json.encode([{"key": key, **limit}]).decode()
        return waits(job(), [FULL], run(parked=key, limits=limits, parent_id="p"))

    assert told("api", rate=50.0) == [
        "rate_limited: execution e waits for its turn: at most 50 a second may begin (api)"
    ]
    tenants = "3 tenants of execution p run, as many as tenant_concurrency allows"
    assert told("fan-out:p", concurrency=3) == [f"limit_reached: execution e waits: {tenants}"]
