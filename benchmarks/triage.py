"""What an operator asks at three in the morning, of an installation with 10,000 jobs, 1,000,000 finished and 200,000
waiting executions: sixteen questions, one request each; then every list, filter and order, timed.

    python -m benchmarks.triage --store postgres          # minutes: most of them for filling the database
    python -m benchmarks.triage --store sqlite --store mongo --repeats 50 --only executions
    python -m benchmarks.triage --small --store sqlite    # 100 jobs: whether each question has an answer

A real server process answers over a real socket. The bar is the 99th percentile: 100 ms on PostgreSQL, 200 ms on SQLite
and MongoDB; meanwhile `/healthz`, asked by somebody else, never waits longer than 50 ms. Ends with 1 when a bar is
missed or a question has no answer. `--small` judges answers only.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from benchmarks.api import PATIENCE, served
from benchmarks.crew import exit_when_terminated
from benchmarks.figures import percentile
from benchmarks.places import fresh_place
from benchmarks.triage_fill import SMALL, Size, fill
from benchmarks.triage_questions import LISTS, QUESTIONS, Question, words_for

BARS = {"postgres": 100.0, "sqlite": 200.0, "mongo": 200.0}
HEALTH_BAR = 50.0
HEALTH_PAUSE = 0.02
LONGEST_MS = 20_000.0
"""A list that takes long is not asked for as often."""


class Asker:
    """One kept connection, to be closed."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)

    def close(self) -> None:
        self._connection.close()

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, bytes, float]:
        """Status, content, and the milliseconds until all of it is there."""
        text = None if body is None else json.dumps(body)
        headers = {} if text is None else {"Content-Type": "application/json"}
        began = time.perf_counter()
        self._connection.request(method, path, text, headers)
        answer = self._connection.getresponse()
        content = answer.read()
        return answer.status, content, (time.perf_counter() - began) * 1000


@contextmanager
def health_watched(port: int) -> Iterator[list[float]]:
    """The milliseconds that each look at `/healthz` has waited, while the context lasts."""
    waits: list[float] = []
    over = threading.Event()

    def look() -> None:
        with closing(Asker(port)) as asker:
            while not over.wait(HEALTH_PAUSE):
                waits.append(asker.ask("GET", "/healthz")[2])

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield waits
    finally:
        over.set()
        watcher.join()


def triage(store: str, size: Size, repeats: int, only: str, *, judged: bool) -> list[str]:
    """What is wrong, one line each."""
    with fresh_place(store) as place:
        began = time.monotonic()
        asyncio.run(fill(place.url, size))
        place.settle()
        spent = time.monotonic() - began
        print(f"{store}: {size.jobs:,} jobs, {size.finished:,} finished, {size.waiting:,} waiting in {spent:.0f} s")
        with served(place.url, place.folder / "api.txt", "api") as client:
            words = words_for(size)
            with closing(client), closing(Asker(client.port)) as asker, health_watched(client.port) as waits:
                wrong = [fault for question in QUESTIONS if (fault := _asked(asker, store, question, words))]
                for what, path in LISTS.items():
                    if only in what:
                        wrong += _timed(asker, store, what, path.format(**words), repeats, judged=judged)
            print(f"{store:9} /healthz meanwhile: p99 {percentile(waits, 99):.1f}, longest {max(waits):.1f} ms")
            if judged and max(waits) > HEALTH_BAR:
                wrong.append(f"{store}: /healthz waited {max(waits):.1f} ms")
    return wrong


def _asked(asker: Asker, store: str, question: Question, words: dict[str, str]) -> str:
    status, content, spent = asker.ask(question.method, question.path.format(**words), question.body_for(words))
    answer = None
    with suppress(KeyError, IndexError):  # an answer without what was asked for
        answer = question.answer(json.loads(content)) if status < 300 else None
    shown = f"HTTP {status}: {content[:200].decode()}" if answer is None else answer
    print(f"{store:9} {question.words:45} {spent:7.1f} ms  {shown}", flush=True)
    return "" if answer else f"{store}: no answer to: {question.words}"


def _timed(asker: Asker, store: str, what: str, path: str, repeats: int, *, judged: bool) -> list[str]:
    spent: list[float] = []
    while len(spent) < repeats and sum(spent) < LONGEST_MS:
        status, content, took = asker.ask("GET", path)
        if status != 200:
            return [f"{store}, {what}: HTTP {status} {content[:200].decode()}"]
        spent.append(took)
    figures = {"first": spent[0], "p50": percentile(spent, 50), "p99": percentile(spent, 99), "max": max(spent)}
    over = judged and figures["p99"] > BARS[store]
    text = " ".join(f"{name} {value:7.1f}" for name, value in figures.items())
    print(f"{store:9} {what:45} {text} ms{'  OVER' if over else ''}", flush=True)
    return [f"{store}, {what}: p99 {figures['p99']:.1f} ms"] if over else []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=list(BARS), action="append")
    parser.add_argument("--small", action="store_true", help="100 jobs; judges answers only")
    parser.add_argument("--repeats", type=int, default=0)
    parser.add_argument("--only", default="", help="lists whose names contain this")
    given = parser.parse_args()
    exit_when_terminated()
    logging.disable(logging.INFO)
    size, repeats = (SMALL, 1) if given.small else (Size(), 50)
    wrong: list[str] = []
    for store in given.store or list(BARS):
        wrong += triage(store, size, given.repeats or repeats, given.only, judged=not given.small)
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
