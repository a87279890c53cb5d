"""A commit goes through and its answer does not: the client cannot know, says it again, and nothing happens twice."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.crash.processes import PATIENCE, Processes, until
from tests.crash.tables import address_file
from tests.faults.counters import COUNTERS
from tests.faults.load import Load
from tests.faults.proxy import Line, Proxy, proxied

STATEMENTS = [b"mainspring." + name for name in (b"settle_then_claim(", b"insert_rows(", b"write_jobs(", b"report")]
ENOUGH = 30


@pytest.mark.req("REL-1", "WRK-3", "WRK-4", "EXE-4")
async def test_answers_to_commits_are_lost(tmp_path: Path, address: str, processes: Processes) -> None:
    """Claims, endings, ticks and enqueues: every so often one is committed and its connection cut before the answer."""
    with proxied(address) as proxy:
        _through(proxy, address, tmp_path)
        load = Load(tmp_path, executions=300, ticks=40)
        try:
            await load.begin(processes, nodes=2, lease=4)
            before = COUNTERS.lost_answers
            _lose_some_answers(proxy)
            await until(lambda: COUNTERS.lost_answers >= before + ENOUGH, PATIENCE)
            proxy.on_words = lambda line, words: None
            await until(lambda: load.app.ledger.lines("rescued"), PATIENCE, "a claim was lost with its answer")
            took = await load.first_claim()
            await load.judge()
            rescued = len(load.app.ledger.lines("rescued"))
            print(f"{COUNTERS.lost_answers - before} answers lost, {rescued} rescued; {load}; next claim {took:.2f} s")
        finally:
            await load.end()


def _through(proxy: Proxy, address: str, folder: Path) -> None:
    address_file(folder).write_text(proxy.address(address))


def _lose_some_answers(proxy: Proxy) -> None:
    """So many that it is over before an execution could lose its claim three times, and be quarantined rightly."""
    chance = random.Random(11)

    def hear(line: Line, words: bytes) -> None:
        if any(statement in words for statement in STATEMENTS) and chance.random() < 0.2:
            line.doomed = True

    def lost(line: Line) -> None:
        COUNTERS.lost_answers += 1
        COUNTERS.cut += 1

    proxy.on_words, proxy.on_lost = hear, lost
