"""`/api/v1/missed-runs`: the ledger of missed runs, in pages and by filters; the same by code and by command line."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mainspring import InvalidValue, Mainspring, every
from mainspring.cli.commands.operations.watch import watch
from mainspring.core.monitoring import missed_runs
from mainspring.core.monitoring.missed_runs import MissedEntry, encode, entry_key
from mainspring.model.store.entries import Entry, EntryWrite
from mainspring.model.store.messages import WorkerInfo
from mainspring.model.time.instants import to_micros
from mainspring.testing.clock import FakeClock
from tests.api.client import client_of
from tests.support import ON_A_FAKE_CLOCK, Nodes

pytestmark = pytest.mark.req("OBS-6", "API-8")

PATH = "/api/v1/missed-runs"
START = datetime(2026, 1, 1, tzinfo=UTC)


def stretch(number: int) -> Entry:
    """The n-th one begins n minutes after the start; each third one is of another job, each fifth has a scheduler."""
    first = to_micros(START + timedelta(minutes=number))
    job, schedulers = "other" if number % 3 == 0 else "tick", 1 if number % 5 == 0 else 0
    missed = MissedEntry(job=job, last=first, count=number, at=first, schedulers=schedulers)
    return encode(entry_key(f"{number:012x}", first), missed)


async def filled(nodes: Nodes, count: int) -> Mainspring:
    app = nodes.app()
    store = (await app._runtime.ready()).store
    assert all(await store.write_entries([EntryWrite(entry=stretch(number)) for number in range(count)]))
    return app


def counts(page: dict[str, Any]) -> list[int]:
    return [each["count"] for each in page["items"]]


async def test_what_a_watcher_finds_is_listed(nodes: Nodes) -> None:
    clock = FakeClock()
    app = nodes.app(clock=clock, **ON_A_FAKE_CLOCK)
    app.job("tick", trigger=every(minutes=10))(lambda: None)
    app.job("slow", trigger=every(minutes=15))(lambda: None)
    try:
        queries = (await app._runtime.ready()).queries
        clock.advance("12m")
        await app.monitoring.late()
        busy = WorkerInfo(id="w", host="h", pid=1, version="1", roles=("scheduler",))
        queries.workers = _answer([busy])  # type: ignore[method-assign]
        clock.advance("5m")
        await app.monitoring.late()
        async with client_of(app) as client:
            slow, tick = (await client.get(PATH))["items"]
            assert slow == {
                "job": "slow",
                "first_missed": "2026-01-01T00:15:00Z",
                "last_missed": "2026-01-01T00:15:00Z",
                "count": 1,
                "exact": True,
                "reason": "scheduler_behind",
                "reported_at": "2026-01-01T00:17:00Z",
            }
            assert (tick["job"], tick["reason"], tick["reported_at"]) == (
                "tick",
                "no_scheduler",
                "2026-01-01T00:12:00Z",
            )
            assert (await client.get(PATH, params={"reason": "scheduler_behind"}))["items"] == [slow]
        assert [each.job for each in await app.monitoring.missed_runs(reason="no_scheduler")] == ["tick"]
        with pytest.raises(
            InvalidValue,
            match=r"reason: 'late' is not valid; allowed: 'no_scheduler', 'scheduler_behind' or 'no_worker'",
        ):
            await app.monitoring.missed_runs(reason="late")
    finally:
        await app.close()


def _answer(workers: list[WorkerInfo]) -> Any:
    async def answer() -> list[WorkerInfo]:
        return workers

    return answer


async def test_pages_go_on_from_their_cursor_and_filters_combine(nodes: Nodes) -> None:
    app = await filled(nodes, 31)
    async with client_of(app) as client:
        seen, cursor = list[int](), None
        while True:
            page = await client.get(PATH, params={"limit": 7} | ({"cursor": cursor} if cursor else {}))
            seen += counts(page)
            if (cursor := page["next_cursor"]) is None:
                break
        assert seen == list(range(30, -1, -1))
        assert counts(await client.get(PATH, params={"limit": 3, "offset": 2})) == [28, 27, 26]
        assert counts(await client.get(PATH, params={"job": "other", "limit": 3})) == [30, 27, 24]
        both = {"job": "other", "reason": "scheduler_behind"}
        assert counts(await client.get(PATH, params=both)) == [30, 15, 0]
        times = {"since": "2026-01-01T00:10:00Z", "until": "2026-01-01T00:13:00Z"}
        assert counts(await client.get(PATH, params=times)) == [12, 11, 10]
        assert counts(await client.get(PATH, params={**times, "job": "tick"})) == [11, 10]
        assert (await client.get(PATH, params={"job": "unheard-of"}))["items"] == []
        error = await client.refused(400, "GET", f"{PATH}?reason=late")
        assert "'no_scheduler', 'scheduler_behind' or 'no_worker'" in error["details"][0]["message"]
        error = await client.refused(400, "GET", f"{PATH}?since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z")
        assert error["details"][0]["field"] == "until"
    await app.close()


async def test_a_page_reads_no_more_than_it_shows(memory_nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    app = await filled(memory_nodes, 300)
    store, read = (await app._runtime.ready()).store, list[int]()
    list_entries = store.list_entries

    async def counted(*args: Any, **options: Any) -> list[Entry]:
        found = await list_entries(*args, **options)
        read.append(len(found))
        return found

    monkeypatch.setattr(store, "list_entries", counted)
    monkeypatch.setattr(missed_runs, "MAX_PAGE", 50)
    monkeypatch.setattr(missed_runs, "LOOKED_AT", 100)
    async with client_of(app) as client:
        await client.get(PATH, params={"limit": 10})
        await client.get(PATH, params={"limit": 10, "until": "2026-01-01T02:00:00Z"})
        assert sum(read) == 22
        read.clear()
        rare = await client.get(PATH, params={"job": "unheard-of"})
        assert (rare["items"], sum(read)) == ([], 100)
        assert rare["next_cursor"] is not None  # it has not looked at all of them
    await app.close()


async def test_entries_of_another_form_are_left_alone(memory_nodes: Nodes) -> None:
    app = await filled(memory_nodes, 2)
    store = (await app._runtime.ready()).store
    await store.write_entries([EntryWrite(entry=Entry(kind="expected", key="0199c1f2-7d5e:01767225600000000"))])
    assert [each.count for each in await app.monitoring.missed_runs()] == [1, 0]
    await app.close()


def test_the_command_line_filters_its_history_and_nothing_else(tmp_path: Path) -> None:
    nodes = Nodes("sqlite", tmp_path)

    async def fill() -> None:
        await (await filled(nodes, 16)).close()

    asyncio.run(fill())
    filters = ["--job", "tick", "--reason", "scheduler_behind", "--since", "2026-01-01T00:01Z"]
    listed = CliRunner().invoke(watch, ["--history", "--database-url", nodes.url, "-o", "json", *filters])
    assert [(each["job"], each["count"], each["reason"]) for each in json.loads(listed.output)] == [
        ("tick", 10, "scheduler_behind"),
        ("tick", 5, "scheduler_behind"),
    ]
    table = CliRunner().invoke(watch, ["--history", "--database-url", nodes.url, "--job", "other"])
    assert "scheduler_behind" in table.output
    refused = CliRunner().invoke(watch, ["--once", *filters])
    assert refused.exit_code == 2
    assert "only together with --history" in refused.output
