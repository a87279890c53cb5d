"""Bulk actions as objects: what each action does, dry runs, probes, pace, abort, results, audit."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from mainspring import CommandRefused, InvalidValue, JobContext, Mainspring, NonRetryable, RetryAfter, State
from mainspring.core.auditing import audit_record
from mainspring.core.bulk import rules
from mainspring.core.bulk.commands import BulkRequest
from mainspring.core.errors.folding import Folding
from mainspring.core.queries import execution_lists
from mainspring.model.bulk import BulkItemRow, BulkPage, BulkRow
from mainspring.model.errors import BulkNotFound
from mainspring.testing import harness


def _app() -> Mainspring:
    app = Mainspring("memory://")

    @app.job("pay", max_attempts=1)
    async def pay(ctx: JobContext, order: int, good: bool = False) -> None:
        if not good:
            raise NonRetryable(f"order {order}")

    @app.job("wait", queue="slow")
    async def wait(ctx: JobContext, order: int = 0) -> None:
        pass

    for name in ("crawl-a", "crawl-b"):
        app.job(name, cron="0 3 * * *", queue="web")(lambda: None)
    return app


async def _audits(app: Mainspring, id: str) -> list[tuple[str, str]]:
    """Action and target of what the bulk left in the audit, oldest first."""
    found = await app.audits(limit=1_000)
    return [(each.action, each.target) for each in reversed(found) if each.request_id == f"bulk:{id}"]


@pytest.mark.req("SRC-4")
async def test_every_action_on_executions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "PAGE", 3)
    app = _app()
    async with harness(app, raise_errors=False) as kit:
        await app.enqueue_many([("pay", {"order": number}) for number in range(8)])
        await kit.run_until_idle()

        seen = await app.bulk.preview("retry", filter={"job": "pay", "status": "failed"})
        assert (seen.total, seen.total_is_exact, len(seen.sample)) == (8, True, 8)
        assert {item.now for item in seen.sample} == {"retried"}
        monkeypatch.setattr(execution_lists, "BUDGET", 3)
        for filter in ({"status": "failed"}, {"error": "order"}, {"queue": "default", "status": ["failed", "partial"]}):
            seen = await app.bulk.preview("retry", filter=filter)
            assert (seen.total, seen.total_is_exact) == (8, True), filter

        bulk = await app.bulk.start("retry", filter={"job": "pay", "status": "failed"}, by="ada", note="fixed")
        assert (bulk.state, bulk.total, bulk.handled, bulk.over) == ("running", 8, 0, False)
        over = await app.bulk.wait(bulk.id, timeout=10)
        assert (over.state, over.total, over.done, over.refused, over.created_by) == ("completed", 8, 8, 0, "ada")
        assert over.finished_at is not None
        made = await app.executions("pay", status="pending")
        failed = await app.executions("pay", status="failed")
        assert {each.retry_of for each in made} == {each.id for each in failed}
        assert {each.triggered_by for each in made} == {"ada"}
        audits = await _audits(app, bulk.id)
        assert sorted(audits) == sorted(("retry", f"execution:{each.id}") for each in failed)
        assert {each.action for each in await app.audits(f"bulk:{bulk.id}")} == {"bulk_start", "bulk_end"}

        again = await app.bulk.wait((await app.bulk.start("retry", ids=[failed[0], "nonsense"])).id, timeout=10)
        assert (again.done, again.errors, again.skips) == (0, {"not_found": 1}, {"already_retried": 1})
        [left_out] = (await app.bulk.items(again.id, status="skipped")).items
        assert left_out.error == f"already retried as {left_out.execution_id}"
        page = await app.bulk.items(bulk.id, limit=5)
        rest = await app.bulk.items(bulk.id, limit=5, after=page.next)
        items = [*page.items, *rest.items]
        assert (len(page.items), len(rest.items), rest.next) == (5, 3, None)
        assert {item.execution_id for item in items} == {each.id for each in made}

        bulk = await app.bulk.start("cancel", filter={"job": "pay"}, note="not now")
        over = await app.bulk.wait(bulk.id, timeout=10)
        assert (over.done, over.refused, over.total) == (8, 0, 8)
        cancelled = await app.executions("pay", status="cancelled")
        assert {each.reason for each in cancelled} == {f"not now (bulk {bulk.id})"}
        assert len(await _audits(app, bulk.id)) == 8
        assert [each.id for each in await app.bulk.recent(2)] == [bulk.id, again.id]


@pytest.mark.req("SRC-4", "TEN-4")
async def test_each_is_retried_once_and_tenants_with_their_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "PAGE", 2)  # fewer than a parent has tenants
    app = _app()

    @app.job("nightly", tenants=list("abc"), tenant_max_attempts=1)
    async def nightly(ctx: JobContext) -> None:
        raise NonRetryable("no")

    async with harness(app, raise_errors=False) as kit:
        parents = set()
        for _ in range(2):
            parents.add((await app.trigger("nightly")).id)
            await kit.run_until_idle()
        await app.enqueue_many([("pay", {"order": number}) for number in range(3)])
        await kit.run_until_idle()
        bulk = await app.bulk.start("retry", filter={"status": "failed"}, pace=4)
        for _ in range(20):  # what was retried has failed again by the next page
            with suppress(TimeoutError):
                await app.bulk.wait(bulk.id, timeout=0.01)
            await kit.run_until_idle()
            await kit.advance(0.5)
        over = await app.bulk.get(bulk.id)
        assert (over.state, over.done, over.skipped, over.refused) == ("completed", 5, 6, 0)
        retried = {each.retry_of for each in await app.executions("nightly", limit=100) if each.retry_of}
        assert retried == parents
        assert len(await app.executions("pay")) == 6


@pytest.mark.req("SRC-4")
@pytest.mark.parametrize("way", ["filter", "ids"])
async def test_of_a_chain_of_retries_only_the_newest_is_retried(way: str) -> None:
    app = _app()
    async with harness(app, raise_errors=False) as kit:
        await app.enqueue_many([("pay", {"order": number}) for number in range(2)])
        await kit.run_until_idle()
        first, other = [each.id for each in await app.executions("pay")]
        second = await app.retry(first)
        await kit.run_until_idle()
        await kit.advance(7_200)  # longer than anything else guards a retry
        third = await app.retry(second.id)
        await kit.run_until_idle()
        await kit.advance(7_200)

        what: Any = {"filter": {"job": "pay", "status": "failed"}}
        if way == "ids":
            what = {"ids": [first, second.id, third.id, other]}
        seen = await app.bulk.preview("retry", **what)
        wanted = {first: f"already retried as {second.id}", second.id: f"already retried as {third.id}"}
        assert {item.id: item.error for item in seen.sample if item.status == "skipped"} == wanted
        assert {item.id for item in seen.sample if item.now == "retried"} == {third.id, other}

        over = await app.bulk.wait((await app.bulk.start("retry", **what)).id, timeout=10)
        assert (over.done, over.refused, over.skipped) == (2, 0, 2)
        assert over.skips == {"already_retried": 2}
        await kit.run_until_idle()
        items = (await app.bulk.items(over.id)).items
        assert {item.id: item.error for item in items if item.status == "skipped"} == wanted
        assert {(item.id, item.now) for item in items if item.status == "done"} == {
            (third.id, "failed"),
            (other, "failed"),
        }, "the present state of each new execution"


@pytest.mark.req("SRC-4")
async def test_a_retry_counts_after_it_was_deleted_and_not_if_it_was_skipped() -> None:
    app = _app()
    begun = asyncio.Event()

    @app.job("single", overlap="skip", max_attempts=1)
    async def single(ctx: JobContext, fail: bool = False) -> None:
        begun.set()
        if fail:
            raise NonRetryable("no")

    async with harness(app, raise_errors=False) as kit:
        parts = app._runtime.parts
        assert parts is not None
        failed = await app.trigger("single", {"fail": True})
        await kit.run_until_idle()
        blocker = await app.trigger("single")
        [foreseen] = (await app.bulk.preview("retry", ids=[failed])).sample
        assert foreseen.now == "retried"
        over = await app.bulk.wait((await app.bulk.start("retry", ids=[failed])).id, timeout=10)
        assert over.errors == {"already_running": 1}, "this retry was skipped for overlap"
        await kit.run_until_idle()
        assert (await app.get(blocker.id)).state is State.COMPLETED
        await kit.advance(60)

        over = await app.bulk.wait((await app.bulk.start("retry", ids=[failed])).id, timeout=10)
        assert (over.done, over.skipped) == (1, 0)
        await kit.run_until_idle()
        [item] = (await app.bulk.items(over.id)).items
        await app.bulk.wait((await app.bulk.start("delete", ids=[item.execution_id or ""])).id, timeout=10)
        await kit.advance(7_200)
        await parts.manual_runs.claims.expiry.once()
        [left_out] = (await app.bulk.preview("retry", ids=[failed])).sample
        assert (left_out.status, left_out.execution_id) == ("skipped", item.execution_id)
        assert [each.now for each in (await app.bulk.items(over.id)).items] == ["gone"]

        await app.bulk.wait((await app.bulk.start("delete", ids=[failed])).id, timeout=10)
        assert await parts.manual_runs.claims.expiry.once() == 1, "the entry goes after its execution"


@pytest.mark.req("SRC-4", "TEN-4")
async def test_tenants_of_a_parent_that_was_retried_are_left_out() -> None:
    app = _app()

    @app.job("nightly", tenants=list("ab"), tenant_max_attempts=1)
    async def nightly(ctx: JobContext) -> None:
        if ctx.tenant == "b":
            raise NonRetryable("no")

    async with harness(app, raise_errors=False) as kit:
        parent = await app.trigger("nightly")
        await kit.run_until_idle()
        retry = await app.tenants.retry_failed(parent.id)
        await kit.run_until_idle()
        await kit.advance(60)
        over = await app.bulk.wait((await app.bulk.start("retry", filter={"tenant": "b"})).id, timeout=10)
        items = {item.id: item for item in (await app.bulk.items(over.id)).items}
        [old] = await app.executions(parent_id=parent.id, tenant="b")
        [new] = await app.executions(parent_id=retry.id, tenant="b")
        assert items[old.id].error == f"already retried as {retry.id}"
        assert items[new.id].status == "done"
        named = await app.bulk.preview("retry", ids=[retry.id, new.id])
        assert [item.code for item in named.sample] == [None, "already_retried"]


@pytest.mark.req("SRC-4", "SRC-5")
async def test_an_edit_of_many_retries_what_ended_and_replaces_what_waits() -> None:
    app = _app()
    async with harness(app, raise_errors=False) as kit:
        await app.enqueue_many([("pay", {"order": number}) for number in range(3)])
        await kit.run_until_idle()
        waiting = await app.enqueue("pay", {"order": 9}, start_at="1h", priority=5, unique="nine")
        assert waiting is not None

        with pytest.raises(InvalidValue, match="params"):
            await app.bulk.start("edit", filter={"job": "pay"})
        bad = await app.bulk.preview("edit", filter={"job": "pay"}, params={"order": "x"})
        assert {item.code for item in bad.sample} == {"invalid_value"}

        bulk = await app.bulk.start("edit", filter={"job": "pay"}, params={"good": True}, by="ada")
        over = await app.bulk.wait(bulk.id, timeout=10)
        assert (over.done, over.refused, over.params) == (4, 0, {"good": True})
        replaced = await app.get(waiting.id)
        results = {item.id: item.execution_id for item in (await app.bulk.items(bulk.id)).items}
        instead = await app.get(results[waiting.id] or "")
        assert (replaced.state, replaced.reason) == (State.CANCELLED, f"edited: replaced by {instead.id}")
        assert (instead.params, instead.start_at, instead.retry_of) == (
            {"order": 9, "good": True},
            waiting.start_at,
            waiting.id,
        )
        assert instead.edited == {"good": {"after": True}}
        assert await app.enqueue("pay", {"order": 9}, unique="nine") is None, "the key has moved to the new one"
        assert len(await _audits(app, bulk.id)) == 3 + 2, "a waiting one is ended, and another added"
        await kit.run_until_idle()
        assert len(await app.executions("pay", status="completed")) == 3


@pytest.mark.req("SRC-4")
async def test_what_has_ended_is_deleted_and_counted_still() -> None:
    app = _app()

    @app.job("mail", tenants=["a", "b"], max_attempts=2)
    async def mail(ctx: JobContext) -> None:
        if ctx.tenant == "b" and not asked:
            asked.append("b")
            raise RetryAfter(3_600)

    asked: list[str] = []
    async with harness(app, raise_errors=False) as kit:
        await app.enqueue_many([("pay", {"order": number, "good": number < 2}) for number in range(5)])
        await kit.run_until_idle()
        waiting = await app.enqueue("pay", {"order": 9}, start_at="1h")
        assert waiting is not None
        before = (await app.job_view("pay")).stats
        [unknown] = (await app.bulk.preview("delete", ids=["nonsense"])).sample
        assert (unknown.status, unknown.code) == ("refused", "not_found")
        seen = await app.bulk.preview("delete", filter={"job": "pay"})
        assert (seen.total, {item.now for item in seen.sample}) == (5, {"deleted"})

        bulk = await app.bulk.start("delete", filter={"job": "pay", "status": "failed"}, by="ada")
        over = await app.bulk.wait(bulk.id, timeout=10)
        assert (over.state, over.done, over.refused) == ("completed", 3, 0)
        assert {each.state for each in await app.executions("pay")} == {State.COMPLETED, State.PENDING}
        assert (await app.job_view("pay")).stats == before
        audits = await _audits(app, bulk.id)
        gone = (await app.bulk.items(bulk.id)).items[0].id
        assert [action for action, _ in audits] == ["delete"] * 3
        assert ("delete", f"execution:{gone}") in audits

        over = await app.bulk.wait((await app.bulk.start("delete", ids=[waiting, gone])).id, timeout=10)
        assert (over.done, over.errors) == (0, {"command_refused": 1, "not_found": 1})
        with pytest.raises(InvalidValue, match="probe"):
            await app.bulk.start("delete", filter={"job": "pay"}, probe=1)

        parent = await app.trigger("mail")
        await kit.advance(0)
        [child] = await app.executions(parent_id=parent.id, tenant="a")
        assert (child.state, (await app.get(parent.id)).state) == (State.COMPLETED, State.WAITING)
        [foreseen] = (await app.bulk.preview("delete", ids=[child])).sample
        over = await app.bulk.wait((await app.bulk.start("delete", ids=[child])).id, timeout=10)
        [refused] = (await app.bulk.items(over.id)).items
        assert refused.error == foreseen.error
        assert "part of one that has not ended" in (refused.error or "")
        await kit.advance(3_600)
        over = await app.bulk.wait((await app.bulk.start("delete", ids=[child, parent])).id, timeout=10)
        assert (over.done, over.refused) == (2, 0)


@pytest.mark.req("SRC-4")
async def test_a_process_that_is_overtaken_in_the_middle_of_its_page_counts_the_same() -> None:
    app = _app()
    async with harness(app):
        await app.open()
        parts = app._runtime.parts
        assert parts is not None
        for action in ("pause", "resume", "cancel", "delete"):
            bulk = await parts.bulk_actions.start(BulkRequest(action, "jobs", ["crawl-a"]))
            for repeated in (True, False):
                [item] = await parts.bulk_actions._actions.handle(bulk, ["crawl-a"], {}, repeated)
                assert item.status == "done", action
            over = await app.bulk.wait(bulk.id, timeout=10)
            assert (over.done, over.refused) == (1, 0)
            other = await app.bulk.wait((await app.bulk.start(action, "jobs", ["crawl-a"])).id, timeout=10)
            assert (other.done, other.refused) == (0, 1)


@pytest.mark.req("SRC-4")
async def test_a_page_that_is_handled_again_recognises_what_has_ended_or_gone_since() -> None:
    app = _app()
    async with harness(app, raise_errors=False) as kit:
        await app.enqueue_many([("pay", {"order": number}) for number in range(3)])
        await kit.run_until_idle()
        waiting = await app.enqueue("wait", start_at="1h")
        assert waiting is not None
        failed = [each.id for each in await app.executions("pay")]
        parts = app._runtime.parts
        assert parts is not None
        actions, store = parts.bulk_actions._actions, parts.store

        async def gone(id: str | None) -> None:
            assert await store.delete_executions([id or ""], [audit_record(parts.chance, "delete", "x", "me", 0)])

        bulk = await parts.bulk_actions.start(BulkRequest("cancel", ids=[waiting.id]))
        for _ in range(2):
            [item] = await actions.handle(bulk, [waiting.id], {}, True)
            assert item.status == "done"
            await gone(waiting.id)
        bulk = await parts.bulk_actions.start(BulkRequest("retry", ids=failed))
        first = {item.id: item.execution_id for item in await actions.handle(bulk, failed, {}, False)}
        await kit.run_until_idle()
        await kit.advance(60)
        await gone(first[failed[0]])  # the retry ran and is deleted
        await gone(failed[1])  # what was retried is deleted
        again = await actions.handle(bulk, failed, {}, True)
        assert [(item.id, item.status, item.execution_id) for item in again] == [
            (id, "done", first[id]) for id in failed
        ]
        await app.remove_job("pay", force=True)
        assert [item.status for item in await actions.handle(bulk, failed[1:], {}, True)] == ["done", "done"]
        left = {failed[0], failed[2], first[failed[1]], first[failed[2]]}
        assert {each.id for each in await app.executions("pay")} == left, "none was retried twice"


@pytest.mark.req("SRC-4")
def test_a_clock_that_is_set_back_does_not_stop_a_bulk_with_a_pace() -> None:
    hour = 3_600 * 1_000_000
    bulk = BulkRow(id="b", action="cancel", target="executions", created=0, created_by="ada", pace=100.0)
    page = BulkPage(tuple(BulkItemRow(str(number), "done") for number in range(rules.page_size(bulk))), "next")
    after = rules.advanced(bulk, page, "me", 100 * hour)
    assert rules.paused_for(after, 100 * hour) == 0.5
    assert rules.paused_for(after, 101 * hour) == 0
    assert rules.paused_for(after, 99 * hour) == 0
    assert rules.paused_for(rules.advanced(after, page, "me", 99 * hour), 99 * hour) == 0.5, "the pace holds again"
    slow = BulkRow(id="b", action="cancel", target="executions", created=0, created_by="ada", pace=1 / 3_600)
    after = rules.advanced(slow, BulkPage((BulkItemRow("1", "done"),), "next"), "me", 100 * hour)
    assert rules.paused_for(after, 100 * hour) == pytest.approx(3_600)
    assert rules.paused_for(after, 50 * hour) == 0


@pytest.mark.req("SRC-4")
async def test_every_action_on_jobs() -> None:
    app = _app()
    async with harness(app):
        await app.open()
        await app.pause("crawl-b")
        seen = await app.bulk.preview("pause", "jobs", filter={"queue": "web"})
        assert [(item.id, item.now, item.code) for item in seen.sample] == [
            ("crawl-a", "paused", None),
            ("crawl-b", None, "command_refused"),
        ]
        bulk = await app.bulk.start("pause", "jobs", filter={"queue": "web"}, note="the site moves", by="ada")
        over = await app.bulk.wait(bulk.id, timeout=10)
        assert (over.state, over.done, over.refused) == ("completed", 1, 1)
        view = await app.job_view("crawl-a")
        assert (view.pause_note, view.paused_by) == ("the site moves", "ada")
        assert await _audits(app, bulk.id) == [("pause", "job:crawl-a")]
        for action, names, state in [
            ("resume", ["crawl-a", "crawl-b"], "scheduled"),
            ("cancel", ["crawl-a"], "cancelled"),
        ]:
            over = await app.bulk.wait((await app.bulk.start(action, "jobs", names)).id, timeout=10)
            assert over.done == len(names)
            assert {(await app.job_view(name)).state.value for name in names} == {state}
        over = await app.bulk.wait((await app.bulk.start("delete", "jobs", ["crawl-b"])).id, timeout=10)
        assert over.done == 1
        assert "crawl-b" not in {view.name for view in await app.jobs()}


@pytest.mark.req("SRC-4", "SRC-2")
async def test_error_groups_are_muted_by_filter_or_id() -> None:
    app = _app()

    @app.job("mail", max_attempts=1)
    async def mail(ctx: JobContext) -> None:
        raise ValueError("no address")

    async with harness(app, raise_errors=False) as kit:
        await app.enqueue_many([("pay", {"order": 1}), ("mail", None)])
        await kit.run_until_idle()
        parts = app._runtime.parts
        assert parts is not None
        await Folding(parts.store, parts.time).fold()
        [pay] = await app.errors.all(job="pay")
        seen = await app.bulk.preview("mute", "errors", filter={"job": "pay", "muted": False, "since": "1h"})
        assert [(item.id, item.now) for item in seen.sample] == [(pay.id, "muted")]
        over = await app.bulk.wait((await app.bulk.start("mute", "errors", filter={"job": "pay"})).id, timeout=10)
        assert (over.done, over.filter) == (1, {"job": "pay"})
        assert [each.id for each in await app.errors.all(muted=True)] == [pay.id]
        none = await app.bulk.wait((await app.bulk.start("mute", "errors", filter={"job": "wait"})).id, timeout=10)
        assert (none.state, none.total, none.done) == ("completed", 0, 0)
        over = await app.bulk.wait((await app.bulk.start("unmute", "errors", [pay.id, "nope"])).id, timeout=10)
        assert (over.done, over.errors) == (1, {"not_found": 1})
        for filter in ({}, {"jub": "x"}, {"muted": "yes"}):
            with pytest.raises(InvalidValue):
                await app.bulk.start("mute", "errors", filter=filter)


@pytest.mark.req("SRC-4")
@pytest.mark.parametrize("good", [True, False])
async def test_a_probe_decides_whether_the_rest_runs(good: bool) -> None:
    app = _app()
    async with harness(app, raise_errors=False) as kit:
        await app.enqueue_many([("pay", {"order": number}) for number in range(9)])
        await kit.run_until_idle()
        bulk = await app.bulk.start("edit", filter={"job": "pay"}, params={"good": good}, probe=2)
        with pytest.raises(TimeoutError, match="probing, 2 of 9 handled"):
            await app.bulk.wait(bulk.id, timeout=0.2)
        await kit.run_until_idle()
        over = await app.bulk.wait(bulk.id, timeout=10)
        assert len(over.probed) == 2
        if good:
            assert (over.state, over.done) == ("completed", 9)
        else:
            assert (over.state, over.done, over.total) == ("stopped", 2, 9)
            assert (over.reason, over.stopped_by) == ("both probe runs failed: NonRetryable: order 8", over.probed[0])
            with pytest.raises(CommandRefused, match="stopped"):
                await app.bulk.abort(bulk.id)


@pytest.mark.req("SRC-4")
def test_a_probe_whose_executions_are_deleted_stops_the_rest() -> None:
    bulk = BulkRow(id="b", action="retry", target="executions", created=0, created_by="ada", state="probing", probe=1)
    stopped = rules.after_probe(bulk, [("a", None)], 7)
    assert (stopped.state, stopped.finished) == ("stopped", 7)
    assert (stopped.reason, stopped.stopped_by) == ("the probe run was deleted before it was judged", "a")


@pytest.mark.req("SRC-4")
async def test_an_abort_keeps_what_was_done_and_a_pace_slows_it_down(monkeypatch: pytest.MonkeyPatch) -> None:
    app = _app()
    async with harness(app) as kit:
        await app.enqueue_many([("wait", {"order": number}) for number in range(20)], start_at="1h")
        bulk = await app.bulk.start("cancel", filter={"job": "wait"}, pace="10/s")
        with pytest.raises(TimeoutError):
            await app.bulk.wait(bulk.id, timeout=0.1)  # the clock of the store stands still
        assert (await app.bulk.get(bulk.id)).handled == 5
        await kit.advance(0.5)
        with pytest.raises(TimeoutError):
            await app.bulk.wait(bulk.id, timeout=0.1)
        aborted = await app.bulk.abort(bulk.id, by="ada", reason="enough")
        assert (aborted.state, aborted.reason, aborted.done, aborted.total) == ("aborted", "enough", 10, 20)
        assert len(await app.executions("wait", status="pending", limit=100)) == 10


@pytest.mark.req("SRC-4")
async def test_a_list_reads_no_more_than_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    app = _app()
    async with harness(app) as kit:
        await app.open()
        made = []
        for hours in (2_000, 100, 3, 0.1, 0.1):
            bulk = await app.bulk.start("pause", "jobs", ["crawl-a"])
            made.append((await app.bulk.wait(bulk.id, timeout=10)).id)
            await kit.advance(hours * 3_600)
        parts = app._runtime.parts
        assert parts is not None
        read: list[int] = []
        list_entries = parts.store.list_entries

        async def counting(kind: Any, scope: str, **range: Any) -> Any:
            found = await list_entries(kind, scope, **range)
            read.append(len(found))
            return found

        monkeypatch.setattr(parts.store, "list_entries", counting)
        assert [each.id for each in await app.bulk.recent(2)] == [made[4], made[3]]
        assert sum(read) == 2
        for limit in (3, 4, 5, 100):
            assert [each.id for each in await app.bulk.recent(limit)] == made[::-1][:limit]


@pytest.mark.req("SRC-4")
async def test_what_is_wrong_is_refused_before_anything_begins() -> None:
    app = _app()
    async with harness(app):
        wrong: list[tuple[dict[str, Any], str]] = [
            ({"action": "explode", "filter": {"job": "pay"}}, "action: 'explode'"),
            ({"action": "retry", "target": "cats", "filter": {}}, "target: 'cats'"),
            ({"action": "retry"}, "either ids or a filter"),
            ({"action": "retry", "ids": []}, "1 to 1,000"),
            ({"action": "retry", "filter": {}}, "Name the items, or give at least one filter"),
            ({"action": "retry", "filter": {"jib": "pay"}}, "Did you mean 'job'"),
            ({"action": "cancel", "filter": {"status": 3}}, "status: 3 is not valid; allowed: 'pending'"),
            ({"action": "cancel", "filter": {"status": []}}, r"status: \[\] is not valid"),
            (
                {"action": "pause", "target": "jobs", "filter": {"queue": None}},
                "Name the items, or give at least one filter",
            ),
            ({"action": "pause", "target": "jobs", "filter": {"last_status": "wat"}}, "last_status: 'wat'"),
            ({"action": "pause", "target": "jobs", "filter": {"paused": "yes"}}, "allowed: True or False"),
            ({"action": "pause", "target": "jobs", "filter": {"queue": 7}}, "queue: 7"),
            ({"action": "pause", "target": "jobs", "filter": {"origin": "web"}}, "origin: 'web'"),
            ({"action": "cancel", "filter": {"job": "pay"}, "probe": 5}, "probe: 5"),
            ({"action": "retry", "filter": {"job": "pay"}, "pace": "fast"}, "pace: 'fast'"),
            ({"action": "retry", "filter": {"job": "pay"}, "params": {"a": 1}}, "except for the action edit"),
        ]
        for given, words in wrong:
            with pytest.raises(InvalidValue, match=words):
                await app.bulk.start(**given)
        with pytest.raises(BulkNotFound):
            await app.bulk.get("nothing")
        assert await app.bulk.recent() == []
        await asyncio.sleep(0)
