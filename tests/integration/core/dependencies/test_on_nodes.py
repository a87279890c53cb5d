"""Flows, templates and bulk commands with running nodes, on every store."""

from __future__ import annotations

from collections import Counter

import pytest

from mainspring import CommandRefused, InvalidValue, JobContext, Mainspring, NonRetryable
from mainspring.core.commands.templates import TemplateNotFound
from tests.support import Nodes, until

AFTER = {"left": ("start",), "right": ("start",), "meet": ("left", "right"), "last": ("meet",)}
RUNS = 12


def flow(app: Mainspring) -> None:
    """A diamond and what comes after it. Every third run fails in one of its arms."""

    @app.job("start")
    async def start(ctx: JobContext, number: int) -> None: ...

    async def step(ctx: JobContext) -> None:
        started = await app.get(ctx.execution.flow_id)
        if ctx.job == "right" and started.params["number"] % 3 == 0:
            raise NonRetryable("every third")

    for name, parents in AFTER.items():
        app.job(name, after=parents, overlap="allow", max_attempts=1)(step)


@pytest.mark.req("FLW-1")
async def test_a_diamond_on_two_nodes_meets_once_for_each_run(nodes: Nodes) -> None:
    first, second = nodes.app(fold_interval="100ms"), nodes.app(fold_interval="100ms")
    for app in (first, second):
        flow(app)
    async with first, second:
        for number in range(RUNS):
            await first.enqueue("start", {"number": number})

        async def all_ended() -> bool:
            return len([row for row in await first.executions("last", limit=100) if row.state.final]) == RUNS

        await until(all_ended, "every run has come to its end")
        rows = await first.executions(limit=1_000)
    skipped = RUNS // 3
    assert Counter(row.job for row in rows) == dict.fromkeys(["start", *AFTER], RUNS)
    assert Counter(row.state for row in rows if row.job in ("meet", "last")) == {
        "skipped": 2 * skipped,
        "completed": 2 * (RUNS - skipped),
    }
    flows = Counter((row.job, row.flow_id) for row in rows)
    assert (set(flows.values()), len({of for _, of in flows})) == ({1}, RUNS), "each flow went through every job once"


@pytest.mark.req("FLW-5")
async def test_templates_are_kept_changed_and_removed(nodes: Nodes) -> None:
    app = nodes.app()

    @app.job("crawl")
    async def crawl(ctx: JobContext, url: str, depth: int = 1) -> None: ...

    @app.job("mail")
    async def mail(ctx: JobContext, to: str) -> None: ...

    made = await app.templates.create("nightly", "crawl", cron="0 3 * * *", params={"depth": 2}, by="ada")
    assert (made.version, made.by, [each.name for each in await app.templates.all()]) == (1, "ada", ["nightly"])
    with pytest.raises(CommandRefused, match="template 'nightly'"):
        await app.templates.create("nightly", "crawl")
    with pytest.raises(InvalidValue, match="Did you mean 'queue'"):
        await app.templates.create("other", "crawl", queu="web")  # type: ignore[call-arg]
    with pytest.raises(InvalidValue, match="Did you mean 'cron'"):
        await app.templates.update("nightly", cronn=None)
    with pytest.raises(InvalidValue, match="depth"):
        await app.templates.update("nightly", handler="mail")
    changed = await app.templates.update("nightly", timeout="1m", params=None)
    assert (changed.version, set(changed.fields)) == (2, {"trigger", "timeout"})
    with pytest.raises(InvalidValue, match="Did you mean 'queue'"):
        await app.templates.apply("nightly", "crawl-all", params={"url": "/"}, queu="web")  # type: ignore[call-arg]
    job = await app.templates.apply("nightly", "crawl-all", params={"url": "/"}, cron=None, schedule_enabled=True)
    assert (job.schedule, job.params, job.timeout) == (None, {"url": "/"}, 60.0)
    await app.templates.remove("nightly", by="ada")
    with pytest.raises(TemplateNotFound):
        await app.templates.get("nightly")
    assert [each.action for each in await app.audits("template:nightly")] == ["remove", "update", "create"]
    await app.close()


@pytest.mark.req("FLW-6")
async def test_many_at_once_are_done_or_refused_one_by_one(nodes: Nodes) -> None:
    app = nodes.app()
    for name in ("a", "b", "c"):
        app.job(name, cron="0 3 * * *", queue="web" if name != "c" else "mail")(lambda: None)
    app.job("work")(lambda: None)
    await app.pause("b")
    result = await app.bulk.jobs("pause", ["a", "b"], note="moving", by="ada")
    assert [(item.id, item.done, item.status) for item in result.items] == [("a", True, "paused"), ("b", False, None)]
    assert isinstance(result.items[1].error, CommandRefused)
    assert (await app.job_view("a")).pause_note == "moving"
    resumed = await app.bulk.jobs("resume", ["a", "b", "a", "nope"])
    assert [(item.id, item.done) for item in resumed.items] == [("a", True), ("b", True), ("nope", False)]
    waiting = [await app.enqueue("work", start_at="1h") for _ in range(3)]
    assert all(waiting)
    cancelled = await app.bulk.executions("cancel", [each for each in waiting if each], note="enough")
    assert (cancelled.done, cancelled.refused) == (3, 0)
    again = await app.bulk.executions("retry", [*[each for each in waiting if each], "no-such-id"])
    assert (again.done, again.refused, len({item.execution_id for item in again.items if item.done})) == (3, 1, 3)
    for command, names, match in [("stop", ["a"], "command"), ("pause", "a", "a list"), ("pause", ["a", ""], "ids")]:
        with pytest.raises(InvalidValue, match=match):
            await app.bulk.jobs(command, names)
    await app.close()
