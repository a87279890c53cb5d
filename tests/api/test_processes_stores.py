"""The interface in one process and the worker in another, on every database: the command table, cancelling what runs,
waiting, live streams.

One pair of processes per database serves all tests of this file. The cells of the table are tried side by side, each
on a job of its own; what is wrong is told cell by cell.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.api.process_table import CELLS, STATES, cell, failed
from tests.api.processes import Deployment, Operator


@pytest.fixture(scope="module", params=["sqlite", "postgres", "mongo"])
def deployment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    made = Deployment(request.param, tmp_path_factory.mktemp("deployment"))
    yield made
    made.close()


@pytest.mark.req("API-4", "EXE-1")
async def test_the_command_table(deployment: Deployment) -> None:
    assert {state.partition(",")[0] for state, _, _ in CELLS} == set(STATES)
    async with deployment.client() as operator:
        results = await asyncio.gather(*(cell(operator, *each) for each in CELLS), return_exceptions=True)
    wrong = [f"{state} x {command}: {told!r}" for (state, command, _), told in zip(CELLS, results, strict=True) if told]
    assert not wrong, "\n".join(wrong)


@pytest.mark.req("API-4", "WIN-1")
async def test_a_trigger_while_it_runs_follows_the_overlap_policy(deployment: Deployment) -> None:
    async with deployment.client() as operator:
        await asyncio.gather(
            *(overlapping(operator, policy) for policy in ("skip", "queue", "allow", "cancel_running"))
        )


async def overlapping(operator: Operator, policy: str) -> None:
    name = f"overlap-{policy}"
    await operator.create(name, "hold", params={"gate": name}, interval_minutes=30, overlap=policy)
    first = await operator.post(f"/api/v1/jobs/{name}/trigger", status=202)
    await operator.begun(name)
    told = await operator.post(f"/api/v1/jobs/{name}/trigger", status=409 if policy == "skip" else 202)
    if policy == "skip":
        details = told["error"]["details"]
        assert (details["current_state"], details["holder"]) == ("running", first["execution_id"])
        second = await operator.ended(details["execution_id"])
        assert (second["status"], second["reason"]) == ("skipped", "overlap")
    elif policy == "allow":
        await operator.until(lambda: len(operator.runs(name)) == 2, "both stand at the gate")
    elif policy == "cancel_running":
        assert (await operator.ended(first["execution_id"]))["status"] == "cancelled"
    operator.open(name)
    ends = [await operator.ended(each["execution_id"]) for each in (first, told) if "execution_id" in each]
    assert [each["status"] for each in ends] == {
        "skip": ["completed"],
        "cancel_running": ["cancelled", "completed"],
    }.get(policy, ["completed", "completed"])


@pytest.mark.req("API-4")
async def test_a_retry_of_a_failed_one_shot_is_pending_until_a_worker_takes_it(deployment: Deployment) -> None:
    async with deployment.client() as operator:
        await failed(operator, "again")
        assert (await operator.job("again"))["current_retry_count"] == 1
        with deployment.worker.stopped():
            made = await operator.post("/api/v1/jobs/again/retry", status=202)
            job = await operator.job("again")
            assert (job["status"], job["current_retry_count"]) == ("pending", 0)
        assert (await operator.ended(made["execution_id"]))["status"] == "failed"
        assert (await operator.job("again"))["status"] == "failed"


@pytest.mark.req("API-8", "WRK-9")
async def test_a_cancel_reaches_what_runs_in_another_process(deployment: Deployment) -> None:
    async with deployment.client() as operator:
        made = await operator.create("to-cancel", "hold", params={"gate": "to-cancel"})
        await operator.begun("to-cancel")
        path = f"/api/v1/executions/{made['execution_id']}/cancel"
        told = await operator.post(path, {"reason": "wrong month"}, status=200)
        assert told["cancel_requested_at"] or told["status"] == "cancelled"
        ended = await operator.ended(made["execution_id"])
        assert (ended["status"], ended["reason"]) == ("cancelled", "wrong month")
        await operator.stopped("to-cancel")
        error = (await operator.post(path, status=409))["error"]
        assert error["details"]["current_state"] == "cancelled"


@pytest.mark.req("API-7")
async def test_who_waits_hears_of_the_end_and_who_does_not_goes_on(deployment: Deployment) -> None:
    async with deployment.client() as operator:
        await operator.create("awaited", "hold", params={"gate": "awaited"}, interval_minutes=30)
        made = await operator.post("/api/v1/jobs/awaited/trigger?wait=1ms", status=202)
        await operator.begun("awaited")
        impatient = await operator.get(f"/api/v1/executions/{made['execution_id']}?wait=50ms")
        assert impatient["status"] == "running"
        waiting = asyncio.create_task(operator.get(f"/api/v1/executions/{made['execution_id']}?wait=60s"))
        operator.open("awaited")
        ended = await waiting
        assert (ended["status"], ended["result"]) == ("completed", "through")
        again = await operator.post("/api/v1/jobs/awaited/trigger?wait=60s", status=200)
        assert (again["execution"]["status"], again["execution"]["result"]) == ("completed", "through")


@pytest.mark.req("API-7")
async def test_a_handler_runs_with_its_own_body(deployment: Deployment) -> None:
    async with deployment.client() as operator:
        await operator.post("/jobs/succeed", {"number": 7}, status=204)
        assert "number" in (await operator.post("/jobs/succeed", {"number": "7"}, status=400))["error"]["message"]
        assert "as asked" in (await operator.post("/jobs/fail", {}, status=500))["error"]["message"]
        made = await operator.post("/jobs/succeed?wait=0", {"number": 8}, status=202)
        ended = await operator.ended(made["execution_id"])
        assert (ended["result"], ended["items_crawled"]) == (8, 8)


@pytest.mark.req("API-8")
async def test_a_stream_tells_what_happens_elsewhere_up_to_the_end(deployment: Deployment) -> None:
    async with deployment.client() as operator:
        made = await operator.create("streamed", "hold", params={"gate": "streamed"})
        path = f"/api/v1/executions/{made['execution_id']}/stream"
        seen: list[tuple[str, Any]] = []
        async with asyncio.timeout(60), operator.http.stream("GET", path) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            async for name, data in events(answer.aiter_lines()):
                seen.append((name, data))
                running = any(each["status"] == "running" for kind, each in seen if kind == "execution")
                if running and any(kind == "log" for kind, _ in seen):
                    operator.open("streamed")  # it goes on once who looks on has seen it running, and its first line
        names = [name for name, _ in seen]
        assert (names[0], names[-1], names.count("end")) == ("execution", "end", 1)
        lines = [data["message"] for name, data in seen if name == "log"]
        assert lines == ["at the gate", "through the gate"]
        assert "running" in [data["status"] for name, data in seen if name == "execution"]
        assert (seen[-1][1]["status"], seen[-1][1]["result"]) == ("completed", "through")


async def events(lines: AsyncIterator[str]) -> AsyncIterator[tuple[str, Any]]:
    """Server-sent events: their names and data."""
    name = ""
    async for line in lines:
        field, _, text = line.partition(": ")
        if field == "event":
            name = text
        elif field == "data":
            yield name, json.loads(text)
