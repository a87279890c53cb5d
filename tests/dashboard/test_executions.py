"""The list of executions and the page of one: what they show, and the live stream."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import msgspec
import pytest

from mainspring import JobContext, Mainspring, Retry
from mainspring.core.queries import execution_lists
from mainspring.model.execution import AttemptRecord, ExecutionRow, State, encode_attempts
from mainspring.model.values.access import Role
from mainspring.server.dashboard.drawing.life import life, sums
from tests.dashboard.support import actions_of, links_of, pages_of, text_of
from tests.support import Nodes, until

PROBE = """"'><script>window.injected = 1</script><img src=x onerror=alert(1)>&amp; 🦉"""


def shop(nodes: Nodes, **settings: object) -> Mainspring:
    app = nodes.app(fold_interval=0.05, release="v1", **settings)

    @app.job("charge", queue="payments", search=("order_id",), max_attempts=2, retry=Retry("10ms"))
    async def charge(ctx: JobContext, order_id: int, note: str = "") -> None:
        ctx.logger.warning("charging %s", note)
        ctx.logger.info("order %d", order_id)
        ctx.metadata["gateway"] = note
        ctx.count(tries=2)
        try:
            raise KeyError(order_id)
        except KeyError as error:
            raise LookupError(f"order {order_id} is gone {note}") from error

    @app.job("mail", queue="mail", max_attempts=1)
    async def mail(ctx: JobContext, to: str = "ada", number: int = 0) -> dict[str, int]:
        return {"number": number}

    return app


@pytest.mark.req("DSH-1", "SRC-1")
async def test_every_filter_is_a_parameter_and_a_chip_that_can_be_removed(nodes: Nodes) -> None:
    app = shop(nodes)
    async with app, pages_of(app) as pages:
        assert "app.enqueue(" in await pages.get("executions")
        charged = await app.enqueue("charge", {"order_id": 4711})
        mailed = await app.enqueue("mail")
        later = await app.enqueue("mail", start_at=datetime.now(UTC) + timedelta(hours=1))
        assert charged is not None
        assert mailed is not None
        assert later is not None
        failed, sent = await app.wait(charged), await app.wait(mailed)
        worker = (await app.workers())[0].id

        async def found(query: str) -> set[str]:
            page = await pages.get(f"executions?{query}")
            return {each.id for each in (failed, sent, later) if f"/dashboard/executions/{each.id}" in links_of(page)}

        for query in (
            "job=charge",
            "handler=charge",
            "queue=payments",
            "status=failed",
            "reason=error",
            f"error_group={failed.error_group}",
            "error=IS+GONE",
            "search=order_id%3D4711",
            f"trace_id={failed.trace_id}",
            "status=failed&status=running&job=charge",
            f"worker={worker}&queue=payments",
        ):
            assert await found(query) == {failed.id}, query
        assert await found(f"worker={worker}") == await found("release=v1") == {failed.id, sent.id}
        assert (
            await found("running=true") == await found("longer_than=1h") == await found("since=0s&tenant=acme") == set()
        )
        assert await found("running=false&trigger=enqueue&since=1h&job=&tenant=") == {failed.id, sent.id, later.id}

        page = await pages.get("executions?status=failed&status=partial&search=order_id%3D4711")
        assert "search: order_id=4711" in text_of(page)
        assert "/dashboard/executions?search=order_id%3D4711&status=partial" in links_of(page)
        for action in ("retry", "cancel", "edit", "delete"):
            query = f"target=executions&action={action}&status=failed&status=partial&search=order_id%3D4711"
            assert f"/dashboard/bulk/new?{query}" in links_of(page)
        newest, oldest = await pages.get("executions"), await pages.get("executions?sort=created_at")
        ids = [each.id for each in (failed, sent, later)]
        assert re.findall(r'name="id" value="([^"]+)"', oldest) == ids
        assert re.findall(r'name="id" value="([^"]+)"', newest) == ids[::-1]


@pytest.mark.req("DSH-1")
async def test_a_filter_that_cannot_be_read_is_refused_beside_the_form(nodes: Nodes) -> None:
    async with nodes.client() as app, pages_of(app) as pages:
        for query, words in (
            ("longer_than=long", "longer_than: 'long' is not valid"),
            ("statsu=failed", "Did you mean 'status'?"),
            ("search=4711", "a name and a value"),
            ("cursor=x", "Begin with the first page"),
            ("sort=name", "-created_at or created_at"),
        ):
            page = await pages.get(f"executions?tenant=acme&{query}", status=400)
            assert words in text_of(page)
            assert 'name="tenant" value="acme"' in page


@pytest.mark.req("DSH-1")
async def test_pages_of_the_list_and_a_search_that_was_cut(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    app = shop(nodes)
    async with app, pages_of(app) as pages:
        made = [await app.enqueue("mail", {"to": str(n)}) for n in range(51)]
        for each in made:
            await app.wait(each)
        page = await pages.get("executions")
        assert "51 executions" in text_of(page)
        following = next(each for each in links_of(page) if "cursor=" in each)
        last = await pages.get(following.removeprefix("/dashboard/"))
        assert re.findall(r'name="id" value="([^"]+)"', last) == [made[0].id]
        assert "Next page" not in last
        monkeypatch.setattr(execution_lists, "BUDGET", 20)
        cut = await pages.get("executions?reason=nothing")
        assert "Searched back until" in text_of(cut)
        assert "No execution matches within the part that was searched" in text_of(cut)
        assert any("cursor=" in each for each in links_of(cut))


async def test_the_end_of_an_id_leads_to_the_page_of_its_execution(nodes: Nodes) -> None:
    app = shop(nodes)
    async with app, pages_of(app) as pages:
        mailed = await app.enqueue("mail")
        assert mailed is not None
        assert (await pages.open(f"executions/{mailed.id[-12:]}")).url.endswith(f"/dashboard/executions/{mailed.id}")
        await pages.get("executions/0123456789ab", 404)


@pytest.mark.req("DSH-1", "DSH-2")
async def test_a_failed_execution_shows_its_life_error_log_and_values_as_text(nodes: Nodes) -> None:
    app = shop(nodes)
    async with app, pages_of(app) as pages:
        number = 9007199254740993
        made = await app.trigger("charge", {"order_id": number, "note": PROBE}, by=PROBE, tenant=PROBE)
        failed = await app.wait(made)
        assert failed.error_group is not None

        async def counted() -> bool:
            return any(each.id == failed.error_group for each in await app.errors.all())

        await until(counted)
        page = await pages.get(f"executions/{made.id}")
        shown = text_of(page)
        assert "<script>window" not in page
        assert "<img src=x" not in page
        assert shown.count(PROBE) > 6  # who, tenant, error, traceback, log, metadata
        assert f'"order_id": {number}' in shown
        for words in ("2 of 2", "attempt 1: failed", "pause before the next attempt", "release v1", "tries"):
            assert words in shown, words
        assert "KeyError: 9007199254740993" in shown  # the cause
        links = links_of(page)
        assert f"/dashboard/errors/{failed.error_group}" in links
        assert f"/dashboard/executions?search=order_id%3D{number}" in links
        assert f"/dashboard/executions?tenant={quote(PROBE, safe='')}".replace("%20", "+") in links
        for tool in ("mainspring jobs trigger charge --params", "curl -X POST", "await app.trigger('charge'"):
            assert tool in shown

        warnings = text_of(await pages.get(f"executions/{made.id}?level=WARNING"))
        assert "charging" in warnings
        assert f"order {number} is gone" in warnings  # its error
        assert f"mainspring.job order {number}" not in warnings
        first = await pages.get(f"executions/{made.id}?attempt=1")
        assert "of attempt 1" in text_of(first)
        log = await pages.get(f"executions/{made.id}/log")
        assert f"INFO mainspring.job: order {number}" in log
        assert f'"order_id": {number}' in await pages.get(f"executions/{made.id}/raw")
        assert "<script>window" not in await pages.get("executions")
        await pages.get("executions/nothing", status=404)
        await pages.get(f"executions/{made.id[:-4]}0000", status=404)


@pytest.mark.req("DSH-1")
async def test_a_running_execution_shows_its_progress_and_streams_until_its_end(nodes: Nodes) -> None:
    app = nodes.app()
    go_on = asyncio.Event()

    @app.job("import", timeout="1h")
    async def import_(ctx: JobContext) -> str:
        ctx.progress(3, 12, f"page 3 {PROBE}")
        ctx.logger.info("page 3")
        await go_on.wait()
        ctx.logger.info("page %s", PROBE)
        return "all pages"

    async with app, pages_of(app) as pages:
        run = await app.trigger("import")

        async def stored() -> bool:
            return (await app.get(run.id)).progress is not None and bool(await app.logs(run))

        await until(stored)
        page = await pages.get(f"executions/{run.id}")
        assert "3 of 12, 25 %" in text_of(page)
        assert f"page 3 {PROBE}" in text_of(page)
        assert "<script>window" not in page
        assert "execution.js" in page
        [(last, _)] = await app.logs(run)
        path = f"/dashboard/executions/{run.id}/stream?after={last}"
        following = asyncio.create_task(pages.http.get(path))
        await until(lambda: app.asgi().state.streams.open > 0)
        go_on.set()
        answer = await following
        assert answer.headers["content-type"].startswith("text/event-stream")
        names = re.findall(r"^event: (\w+)$", answer.text, re.MULTILINE)
        assert names[0] == "execution"
        assert names[-1] == "end"
        assert names.count("log") == 1  # the first line was on the page
        assert "all pages" in text_of(await pages.get(f"executions/{run.id}"))


@pytest.mark.req("DSH-1")
async def test_a_parent_shows_its_tenants_and_a_tenant_its_parent(nodes: Nodes) -> None:
    app = nodes.app()
    names = [f"customer-{n}" for n in range(38)] + [PROBE, "O'Neill & Söhne / 50%"]

    @app.job("invoices", tenants=lambda: names, tenant_max_attempts=1)
    async def invoices(ctx: JobContext) -> None:
        if ctx.tenant in ("customer-3", PROBE):
            raise LookupError(f"{ctx.tenant} has no address")

    async with app, pages_of(app) as pages:
        parent = await app.wait(await app.trigger("invoices"))
        assert parent.state.value == "partial"
        page = await pages.get(f"executions/{parent.id}")
        assert "<script>window" not in page
        shown = text_of(page)
        assert "2 failed" in shown
        assert "38 completed" in shown
        runs = await app.tenants.runs(parent, limit=100)
        assert {f"/dashboard/executions/{run.execution_id}" for run in runs} <= set(links_of(page))
        assert f"/dashboard/executions?parent_id={parent.id}&status=failed" in links_of(page)
        page = await pages.get(f"executions/{runs[0].execution_id}")
        assert "Parent" in text_of(page)
        assert parent.id in text_of(page)
        assert links_of(page).count(f"/dashboard/executions/{parent.id}") == 1  # not once more as of the same trace


@pytest.mark.req("DSH-1")
async def test_no_page_is_longer_than_150_kilobytes_whatever_a_job_says(nodes: Nodes) -> None:
    app = nodes.app()
    quotes = "\"'<&" * 1000

    @app.job("loud", max_attempts=60, retry=Retry(delays=("0s",)), search=("key",))
    async def loud(ctx: JobContext, many: list[str], key: str) -> None:
        ctx.metadata["many"] = many
        for _ in range(20):
            ctx.logger.error("%s", quotes)
        raise ValueError(quotes)

    @app.job("short", max_attempts=1, search=("key",))
    async def short(key: str) -> None:
        raise ValueError(key)

    async with app, pages_of(app) as pages:
        run = await app.wait(await app.trigger("loud", {"many": [quotes] * 50, "key": quotes}, by=quotes[:200]))
        page = await pages.get(f"executions/{run.id}")
        assert len(page.encode()) < 150_000
        assert "Cut here" in page
        assert "older lines" in text_of(page)
        assert len(await pages.get(f"executions/{run.id}/raw")) > 200_000
        made = [await app.trigger("short", {"key": quotes}, by=quotes[:200]) for _ in range(50)]
        for each in made:
            await app.wait(each)
        listed = await pages.get("executions")
        assert listed.count('name="id"') == 50
        assert len(listed.encode()) < 150_000


@pytest.mark.req("DSH-1")
async def test_a_waiting_execution_says_why(nodes: Nodes) -> None:
    app = nodes.app(roles="worker", queues=["default"])

    @app.job("report", queue="slow")
    async def report() -> None: ...

    async with app, pages_of(app) as pages:
        run = await app.enqueue("report")
        assert run is not None
        shown = text_of(await pages.get(f"executions/{run.id}"))
        assert "Why it waits" in shown
        assert "slow" in shown


@pytest.mark.req("DSH-2")
async def test_retry_and_cancel_leave_the_records_that_the_api_leaves(nodes: Nodes) -> None:
    app = shop(nodes)
    async with app, pages_of(app) as pages:
        failed = await app.wait(await app.trigger("charge", {"order_id": 1}))
        page = await pages.get(f"executions/{failed.id}")
        assert f"/dashboard/bulk/new?target=executions&action=delete&id={failed.id}" in links_of(page)
        done = await pages.act(f"executions/{failed.id}/retry")
        [again] = [each for each in await app.executions("charge") if each.retry_of == failed.id]
        assert done["undo"] == f"/dashboard/executions/{again.id}/cancel"
        assert again.id in {each.after for each in await app.audits(f"execution:{failed.id}")}
        related = await pages.get(f"executions/{failed.id}")
        assert "Retried by this machine" in text_of(related)
        assert f"/dashboard/executions/{again.id}" in links_of(related)

        later = await app.enqueue("mail", start_at=datetime.now(UTC) + timedelta(hours=1))
        assert later is not None
        page = await pages.get(f"executions/{later.id}")
        assert "The execution waits, so it ends at once." in text_of(page)
        await pages.act(f"executions/{later.id}/cancel", reason=f"wrong month {PROBE}")
        cancelled = await app.get(later.id)
        assert (cancelled.state.value, cancelled.reason) == ("cancelled", f"wrong month {PROBE}")
        [record] = await app.audits(f"execution:{later.id}")
        assert (record.action, record.actor) == ("cancel", "loopback")
        page = await pages.get(f"executions/{later.id}")
        assert f"wrong month {PROBE}" in text_of(page)
        assert "<script>window" not in page
        assert "cancel is possible when" in await pages.refused(f"executions/{later.id}/cancel")
        sent = await app.wait(await app.trigger("mail"))
        assert "cannot retry" in await pages.refused(f"executions/{sent.id}/retry")


@pytest.mark.req("DSH-2")
async def test_edit_and_retry_keeps_what_was_typed_until_it_fits(nodes: Nodes) -> None:
    app = shop(nodes)
    async with app, pages_of(app) as pages:
        number = 9007199254740993
        failed = await app.wait(await app.trigger("charge", {"order_id": number, "note": PROBE}))
        path = f"executions/{failed.id}/edit"
        page = await pages.get(path)
        assert f'"order_id": {number}' in text_of(page)
        assert "order_id: int" in text_of(page)
        assert "<script>window" not in page

        async def sent(params: str, step: str = "retry") -> tuple[int, str]:
            answer = await pages.send(path, params=params, step=step)
            return answer.status_code, answer.text

        for typed, words in (
            ('{"order_id": }', "line 1, column 14 is no JSON"),
            ("[1]", "a JSON object"),
            ('{"order_id": "one"}', "order_id"),
            ('{"note": "no order"}', "order_id"),
            ('{"order_id": 1, "colour": "<b>red"}', "colour"),
        ):
            status, text = await sent(typed)
            assert status == 400, typed
            assert words in text_of(text)
            assert text_of(text).count(typed.strip('"')[:20]) >= 1  # what was typed is still there
            assert "<b>red" not in text
        status, text = await sent(f'{{"order_id": {number + 1}}}', "preview")
        assert status == 200
        assert f"order_id {number} {number + 1}" in text_of(text)
        assert "removed" in text_of(text)
        assert [each.id for each in await app.executions("charge")] == [failed.id]
        status, text = await sent(f'{{"order_id": {number}, "note": {json.dumps(PROBE)}}}', "preview")
        assert "a plain retry" in text_of(text)

        await pages.act(path, params=f'{{"order_id": {number + 1}}}', step="retry")
        [again] = [each for each in await app.executions("charge") if each.retry_of == failed.id]
        assert again.params == {"order_id": number + 1}
        assert again.edited == {
            "order_id": {"before": number, "after": number + 1},
            "note": {"before": PROBE},
        }
        page = await pages.get(f"executions/{again.id}")
        assert f"order_id {number} {number + 1}" in text_of(page)
        assert "<script>window" not in page


@pytest.mark.req("DSH-2")
async def test_nothing_is_edited_where_the_handler_takes_no_parameters(nodes: Nodes) -> None:
    app = nodes.app()

    @app.job("sweep", max_attempts=1)
    async def sweep() -> None:
        raise LookupError("no broom")

    async with app, pages_of(app) as pages:
        failed = await app.wait(await app.trigger("sweep"))
        page = await pages.get(f"executions/{failed.id}/edit")
        assert "takes no parameters, so there is nothing to edit" in text_of(page)
        assert "<textarea" not in page
        assert f"/dashboard/executions/{failed.id}/retry" in actions_of(page)


@pytest.mark.req("DSH-2")
async def test_failed_tenants_alone_are_retried(nodes: Nodes) -> None:
    app = nodes.app()

    @app.job("invoices", tenants=["acme", "globex", "initech"], tenant_max_attempts=1)
    async def invoices(ctx: JobContext) -> None:
        if ctx.tenant == "globex":
            raise LookupError("no address")

    async with app, pages_of(app) as pages:
        parent = await app.wait(await app.trigger("invoices"))
        page = await pages.get(f"executions/{parent.id}")
        assert f"/dashboard/executions/{parent.id}/retry-failed" in actions_of(page)
        await pages.act(f"executions/{parent.id}/retry-failed")
        [again] = [each for each in await app.executions("invoices") if each.retry_of == parent.id]
        assert [run.tenant for run in await app.tenants.runs(await app.wait(again))] == ["globex"]
        assert [each.action for each in await app.audits(f"execution:{parent.id}")] == ["retry_failed"]


@pytest.mark.req("DSH-2")
async def test_viewers_see_no_action_and_operators_none_of_a_job_that_is_not_theirs(nodes: Nodes) -> None:
    app = nodes.app(api_tokens=True)

    @app.job("pay-out", max_attempts=1, trigger_role="admin")
    async def pay_out() -> None:
        raise ValueError("no money")

    async with app:
        failed = await app.wait(await app.trigger("pay-out"))
        forms = [f"executions/{failed.id}/{action}" for action in ("retry", "retry-failed", "cancel", "edit")]
        async with pages_of(app, Role.VIEWER) as pages:
            for path in ("executions?status=failed", f"executions/{failed.id}"):
                page = await pages.get(path)
                assert "pay-out" in page
                assert actions_of(page) == []
                assert not [each for each in links_of(page) if "/bulk/" in each or each.endswith("/edit")]
                assert 'type="checkbox" name="id"' not in page
            for path in forms:
                assert "needs the role operator" in await pages.refused(path)
            await pages.get(f"executions/{failed.id}/edit", status=403)
        async with pages_of(app, Role.OPERATOR) as pages:
            assert actions_of(await pages.get(f"executions/{failed.id}")) == []
            for path in forms:
                assert "needs the role admin" in await pages.refused(path, params="{}", step="retry")
            await pages.get(f"executions/{failed.id}/edit", status=403)
        assert [each.id for each in await app.executions()] == [failed.id]
        async with pages_of(app, Role.ADMIN) as pages:
            await pages.act(f"executions/{failed.id}/retry")


@pytest.mark.req("DSH-1")
def test_the_life_of_an_execution_in_parts() -> None:
    second = 1_000_000

    def attempt(number: int, started: int, ended: int, end: str) -> AttemptRecord:
        return AttemptRecord(number, "w", started * second, ended * second, end)  # type: ignore[arg-type]

    attempts = [attempt(1, 2, 5, "failed"), attempt(2, 15, 16, "handed_back")]
    row = ExecutionRow(
        id="x",
        job="x",
        job_id="x",
        handler="x",
        state=State.RUNNING,
        created=0,
        claimed=20 * second,
        attempts_json=encode_attempts(attempts),
        failures=1,
    )
    parts = life(row, 30 * second)
    assert [(part.name, part.seconds) for part in parts] == [
        ("waiting", 2),
        ("attempt 1: failed", 3),
        ("pause before the next attempt", 10),
        ("attempt 2: handed back", 1),
        ("handed back, waiting for another worker", 4),
        ("attempt 2: runs", 10),
    ]
    assert sums(parts) == {"waiting": 6, "running": 14, "pause": 10}

    fan_out = encode_attempts([attempt(1, 2, 5, "fanned_out")])
    parent = msgspec.structs.replace(row, state=State.PARTIAL, attempts_json=fan_out, finished=9 * second, claimed=None)
    assert [(part.kind, part.colour) for part in life(parent, 30 * second)] == [
        ("waiting", "idle"),
        ("running", "soft"),
        ("tenants", "warn"),
    ]


@pytest.mark.req("DSH-1", "OPS-1")
@pytest.mark.parametrize(("proxies", "scheme"), [("127.0.0.1", "https"), ("10.0.0.1", "http")])
async def test_the_curl_command_has_the_scheme_that_a_trusted_proxy_reports(
    nodes: Nodes, proxies: str, scheme: str
) -> None:
    app = nodes.app(api_tokens=True, trusted_proxies=proxies)
    app.job("hello")(lambda: None)
    run = await app.enqueue("hello")
    assert run is not None
    async with pages_of(app, Role.VIEWER) as pages:
        headers = {"x-forwarded-proto": "https", "x-forwarded-for": "192.0.2.7"}
        page = await pages.http.get(f"/dashboard/executions/{run.id}", headers=headers)
        assert f"curl -X POST {scheme}://localhost/api/v1/jobs/hello/trigger" in text_of(page.text)
    await app.close()
