"""RQ with its SimpleWorker, which does not fork for each job, and no results kept."""

from __future__ import annotations

import task
from redis import Redis
from rq import Queue, SimpleWorker

from benchmarks.command import main
from benchmarks.tally import Tally

CHUNK = 500


def prepare(url: str) -> None:
    """Redis needs no preparation."""


def fill(url: str, items: int) -> None:
    queue = Queue(connection=Redis.from_url(url))
    for first in range(0, items, CHUNK):
        count = min(CHUNK, items - first)
        queue.enqueue_many([Queue.prepare_data(task.noop, result_ttl=0) for _ in range(count)])


def work(url: str, tally: Tally) -> None:
    task.tally = tally
    connection = Redis.from_url(url)
    worker = SimpleWorker([Queue(connection=connection)], connection=connection)
    worker.log_job_description = False
    tally.ready_and_wait()
    worker.work(logging_level="ERROR")


def state(url: str) -> dict[str, int]:
    queue = Queue(connection=Redis.from_url(url))
    return {"left": len(queue)}


if __name__ == "__main__":
    main(prepare=prepare, fill=fill, work=work, state=state)
