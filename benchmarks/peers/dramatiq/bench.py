"""Dramatiq on Redis: eight worker threads in each process, as by default, with a larger prefetch."""

from __future__ import annotations

import os

os.environ.setdefault("dramatiq_queue_prefetch", "100")  # read when dramatiq is imported

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from benchmarks.command import main
from benchmarks.tally import Tally


def application(url: str, tally: Tally | None = None) -> tuple[RedisBroker, dramatiq.Actor]:
    broker = RedisBroker(url=url)
    dramatiq.set_broker(broker)

    @dramatiq.actor
    def noop() -> None:
        tally.hit()

    return broker, noop


def prepare(url: str) -> None:
    """Redis needs no preparation."""


def fill(url: str, items: int) -> None:
    _, noop = application(url)
    for _ in range(items):
        noop.send()


def work(url: str, tally: Tally) -> None:
    broker, _ = application(url, tally)
    tally.ready_and_wait()
    dramatiq.Worker(broker, worker_threads=8).start()
    tally.linger()


def state(url: str) -> dict[str, int]:
    broker, _ = application(url)
    return {"left": broker.client.hlen("dramatiq:default.msgs")}


if __name__ == "__main__":
    main(prepare=prepare, fill=fill, work=work, state=state)
