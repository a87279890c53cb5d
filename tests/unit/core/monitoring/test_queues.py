"""Queues as things: where their names come from; what an autoscaler reads, by hand."""

from __future__ import annotations

import pytest

from mainspring.core.monitoring.queues import Snapshot, scale_view
from mainspring.model.controls import Control
from mainspring.model.store.messages import LaneCounts, WorkerInfo
from mainspring.model.time.instants import SECOND

NOW = 1_800_000_000 * SECOND


@pytest.mark.req("QUE-1")
def test_a_queue_is_named_by_jobs_by_workers_by_what_waits_or_by_what_is_set() -> None:
    worker = WorkerInfo(id="w", host="h", pid=1, version="1", queues=("of-worker",), ended={"ended": (1, 0)})
    seen = Snapshot(
        now=NOW,
        lanes=[LaneCounts(queue="waits", handler="send", ready=1)],
        workers=[worker],
        alive=frozenset(),
        controls={("queue", "paused"): Control(paused=NOW), ("handler", "not-a-queue"): Control(paused=NOW)},
        arrived={},
        of_jobs=["of-job", "mainspring.webhooks"],
    )
    assert seen.names == ["ended", "of-job", "of-worker", "paused", "waits"]


@pytest.mark.req("QUE-3")
def test_an_autoscaler_reads_of_paused_work_only_what_runs() -> None:
    def lane(queue: str, handler: str, oldest: int, next_due: int, **counts: int) -> LaneCounts:
        due = {"oldest": NOW - oldest * SECOND, "next_due": NOW + next_due * SECOND}
        return LaneCounts(queue=queue, handler=handler, **due, **counts)

    lanes = [
        lane("mail", "send", 20, 300, ready=3, planned=1, running=2),
        lane("mail", "stuck", 900, 5, ready=40, planned=1, parked=7, running=1),
        lane("night", "send", 600, 10, ready=50, planned=2),
        lane("slow", "send", 700, 400, ready=9, running=2),
    ]
    paused = Control(paused=NOW)
    controls = {("handler", "stuck"): paused, ("queue", "night"): paused, ("queue", "slow"): Control(concurrency=2)}
    seen = Snapshot(now=NOW, lanes=lanes, workers=(), alive=frozenset(), controls=controls, arrived={})  # type: ignore[arg-type]

    def scale(*names: str) -> tuple[float | None, ...]:
        view = scale_view(None, names, seen, 0, 100)
        return view.due, view.running, view.oldest, view.next_due, view.wanted

    assert scale("mail") == (3, 3, 20.0, 300.0, 1)
    assert scale("night") == (0, 0, 0.0, None, 0)
    assert scale("slow") == (0, 2, 0.0, 400.0, 1), "no room under its ceiling"
    assert scale("mail", "night", "slow") == (3, 5, 20.0, 300.0, 1)
