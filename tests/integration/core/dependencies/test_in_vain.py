"""Jobs that wait in vain: for parents that never meet, that are gone or cancelled, or that wait for them in turn."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from mainspring import CommandRefused, InvalidValue, Mainspring, daily_at
from mainspring.app.adapters import SystemClock
from mainspring.core.dependencies.compatibility import never_meet
from mainspring.model.job import JobSpec
from mainspring.model.store.messages import JobWrite
from mainspring.stores.memory import MemoryStore
from tests.integration.core.dependencies.test_dependencies import Flow

pytestmark = pytest.mark.req("FLW-1")


async def told(app: Mainspring, name: str) -> dict[str, str]:
    """What `why` says of the parents of a job, by code."""
    _, reasons = await (await app._runtime.engine()).overview.why(name)
    return {each.code: each.message for each in reasons if "parent" in each.code or each.code == "after"}


@pytest.mark.req("API-10")
async def test_parents_that_never_meet_are_a_warning_and_why_says_so_with_readable_times() -> None:
    flow = Flow()
    flow.job("sales", trigger=daily_at("02:00"), window="yesterday")
    flow.job("rates", trigger=daily_at("02:00"))
    flow.job("report", after=["rates", "sales"])
    with pytest.warns(UserWarning, match="'report' will never follow: its parents 'sales' and 'rates' never meet"):
        await halves_are_readable(flow)


async def halves_are_readable(flow: Flow) -> None:
    async with flow.harness() as kit:
        await kit.advance("3h")
        assert sorted(flow.ran) == ["rates", "sales"]
        said = await told(flow.app, "report")
        assert said["parents_never_meet"].endswith("or take one of them out of `after`")
        _, reasons = await (await flow.app._runtime.engine()).overview.why("report")
        assert sorted(each.message for each in reasons if each.code == "waits_for_parent") == [
            "rates ended for the tick 2026-03-10T02:00:00Z; it waits for sales",
            "sales ended for the window 2026-03-09T00:00:00Z to 2026-03-10T00:00:00Z; it waits for rates",
        ]


def test_who_can_meet() -> None:
    tick: dict[str, Any] = {"kind": "daily"}
    specs = {
        "day": JobSpec(handler="h", trigger=tick, window="yesterday"),
        "plain": JobSpec(handler="h", trigger=tick),
        "plain-too": JobSpec(handler="h", trigger=tick),
        "on-demand": JobSpec(handler="h"),
        "after-day": JobSpec(handler="h", after=("day",)),
        "after-plain": JobSpec(handler="h", after=("plain",)),
        "after-both": JobSpec(handler="h", trigger=tick, after=("day",)),
    }

    def pair(*after: str) -> tuple[str, str] | None:
        return never_meet("end", specs | {"end": JobSpec(handler="h", after=after)})

    assert pair("plain", "day") == pair("day", "plain") == ("day", "plain")
    assert pair("after-plain", "on-demand", "after-day") == ("after-day", "after-plain")
    meeting = [("plain", "plain-too"), ("day", "after-day"), ("day", "on-demand"), ("plain", "unknown", "after-both")]
    for others in meeting:
        assert pair(*others) is None, others


@pytest.mark.req("API-10")
async def test_a_parent_that_is_paused_cancelled_or_removed_is_named_with_the_remedy() -> None:
    flow = Flow()
    flow.job("load", trigger=daily_at("02:00"))
    flow.job("report", after="load")
    async with flow.harness() as kit:
        await flow.app.pause("load", by="ada")
        assert (await told(flow.app, "report"))["parent_paused"].startswith(
            "it comes after job 'load', which is paused by"
        )
        await flow.app.cancel("load")
        await kit.advance("1d")
        said = "it comes after job 'load', which is cancelled since 2026-03-10T00:00:00Z; reactivate that"
        assert (await told(flow.app, "report")).keys() == {"parent_cancelled"}
        assert (await told(flow.app, "report"))["parent_cancelled"].startswith(said)
        with pytest.raises(CommandRefused, match="followed by report; remove is possible when no job comes after it"):
            await flow.app.remove_job("load")
        await flow.app.remove_job("load", force=True)
        said = (await told(flow.app, "report"))["parent_gone"]
        assert "'load', which does not exist" in said
        assert "create it, or take it out of `after`" in said
        await flow.app.update_job("report", after=[])
        assert await told(flow.app, "report") == {}


async def test_the_last_of_a_chain_is_removed_first_and_then_its_parent_without_force() -> None:
    flow = Flow()
    flow.job("load")
    flow.job("report", after="load")
    async with flow.harness():
        await flow.app.remove_job("report")
        await flow.app.remove_job("load")
        assert await flow.app.jobs() == []


async def test_start_up_names_the_edit_that_closed_a_circle_and_the_command_that_takes_it_back() -> None:
    store = MemoryStore(SystemClock())

    def application() -> Mainspring:
        app = Mainspring(store)
        for name, after in {"a": [], "b": ["a"], "c": []}.items():
            app.job(name, after=after)(lambda: None)
        return app

    first = application()
    await first.open()
    await first.update_job("c", after=["b"])
    [job] = await store.jobs(["a"])
    closing = job.with_changes(overrides='{"after": ["c"]}')  # as an edit at the same instant would
    assert (await store.write_jobs([JobWrite(job=closing, seen_version=job.version)]))[0].won
    again = application()
    remedy = (
        r"An operator changed `after` of 'a', 'c'; take that back with `mainspring jobs revert a --database-url URL`"
    )
    with pytest.raises(InvalidValue, match=remedy):
        await again.open()
    await first.revert_job("a")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await again.open()
    await first.close()
    await again.close()
