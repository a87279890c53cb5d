"""DBOS on PostgreSQL: workflows without steps, on a queue with a short poll."""

from __future__ import annotations

import logging
import os
from typing import Any

os.environ["DBOS__APPVERSION"] = "1"

from dbos import DBOS, DBOSClient

from benchmarks.command import main
from benchmarks.tally import Tally

logging.disable(logging.INFO)


def launched(url: str, tally: Tally | None = None) -> None:
    DBOS(config={"name": "bench", "system_database_url": url, "run_admin_server": False, "log_level": "ERROR"})

    @DBOS.workflow(name="noop")
    def noop() -> None:
        tally.hit()

    DBOS.launch()


def prepare(url: str) -> None:
    launched(url)
    DBOS.register_queue("work", polling_interval_sec=0.05)
    DBOS.destroy()


def fill(url: str, items: int) -> None:
    client = DBOSClient(system_database_url=url)
    options: Any = {"queue_name": "work", "workflow_name": "noop", "app_version": "1"}
    for _ in range(items):
        client.enqueue(options)
    client.destroy()


def work(url: str, tally: Tally) -> None:
    tally.ready_and_wait()
    launched(url, tally)
    tally.linger()


def state(url: str) -> dict[str, int]:
    import psycopg

    with psycopg.connect(url) as connection:
        text = "SELECT count(*) FILTER (WHERE status = 'SUCCESS'), count(*) FROM dbos.workflow_status"
        done, every = connection.execute(text).fetchone()
    return {"left": every - done, "done": done}


if __name__ == "__main__":
    main(prepare=prepare, fill=fill, work=work, state=state)
