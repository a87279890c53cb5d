"""Celery on Redis: the solo pool in each process, a large prefetch, no results, no gossip."""

from __future__ import annotations

from celery import Celery

from benchmarks.command import main
from benchmarks.tally import Tally

QUIET = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=ERROR"]


def application(url: str, tally: Tally | None = None) -> tuple[Celery, object]:
    app = Celery("bench", broker=url)
    app.conf.update(task_ignore_result=True, worker_prefetch_multiplier=128, broker_connection_retry_on_startup=True)

    @app.task(name="noop")
    def noop() -> None:
        tally.hit()

    return app, noop


def prepare(url: str) -> None:
    """Redis needs no preparation."""


def fill(url: str, items: int) -> None:
    app, noop = application(url)
    with app.producer_pool.acquire(block=True) as producer:
        for _ in range(items):
            noop.apply_async(producer=producer)


def work(url: str, tally: Tally) -> None:
    app, _ = application(url, tally)
    tally.ready_and_wait()
    app.worker_main(["worker", "--pool=solo", *QUIET])


def state(url: str) -> dict[str, int]:
    app, _ = application(url)
    with app.connection_for_read() as connection:
        return {"left": connection.default_channel.client.llen("celery")}


if __name__ == "__main__":
    main(prepare=prepare, fill=fill, work=work, state=state)
