"""Receivers that misbehave cost only their own retries."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from mainspring import CommandRefused, Execution, InvalidValue, JobContext, Mainspring
from mainspring.core.views.execution import row_of
from mainspring.core.webhooks import delivering
from mainspring.model.events import WebhookDisabled
from mainspring.model.time.instants import SECOND
from mainspring.webhooks import verify
from tests.receiver import answers, closes, drips, hangs, receiving
from tests.support import Nodes, Seen, ended, until

MISBEHAVING = {
    "hangs": (hangs, "did not answer within 0.5 s"),
    "drips": (drips, "did not answer within 0.5 s"),
    "closes": (closes, "the connection was closed before the answer"),
    "redirects": (answers(302, "location: http://127.0.0.1:1/\r\n"), "the receiver answered 302"),
    "breaks": (answers(500, body=b"out of \x1b[31mdisk"), "the receiver answered 500: out of \ufffd[31mdisk"),
    "busy": (answers(429, "retry-after: 7200\r\n"), "the receiver answered 429"),
    "gone": (answers(410), "the receiver answered 410"),
}


async def only_delivery(app: Mainspring, id: str) -> Execution:
    return (await until(lambda: app.webhooks.deliveries(id)))[0]


async def tried(app: Mainspring, id: str) -> bool:
    return bool((await only_delivery(app, id)).attempts)


@pytest.mark.req("WHK-1", "FLW-4", "SEC-4")
async def test_whatever_a_receiver_does_costs_only_its_own_retries(
    memory_nodes: Nodes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(delivering, "DEADLINE", 0.5)
    caplog.set_level(logging.DEBUG)
    seen = Seen()
    app = memory_nodes.app(private_urls=True, observers=[seen], concurrency=1)

    @app.job("good")
    async def good(ctx: JobContext) -> None: ...

    async with receiving() as receiver, app:
        await app.start()
        for name, (behaviour, _) in MISBEHAVING.items():
            receiver.behaviours[f"/{name}"] = behaviour
            await app.webhooks.create(receiver.url(f"/{name}"), id=name, jobs=["good"])
        await app.webhooks.create(receiver.url("/well"), id="well")
        run = await ended(app, await app.enqueue("good"))
        for name, (_, error) in MISBEHAVING.items():
            await until(lambda name=name: tried(app, name), name)  # type: ignore[misc]
            row = row_of(await only_delivery(app, name))
            assert error in (row.attempts[0].error or ""), name
            assert (row.state.value, row.failures) == ("failed" if name == "gone" else "pending", 1), name
            wait = (row.due - row.attempts[0].ended) / SECOND
            assert name == "gone" or (7200 <= wait <= 7300 if name == "busy" else 4.5 <= wait <= 10), (name, wait)
        views = {view.id: view for view in await app.webhooks.all()}
        assert [id for id, view in views.items() if not view.enabled] == ["gone"]
        assert all((view.failing_since is None) == (id in ("well", "gone")) for id, view in views.items())
        await until(lambda: seen.of(WebhookDisabled) == [WebhookDisabled("gone", *_told(views["gone"].url))])
        await until(lambda: receiver.types("/well") == ["execution.completed", "webhook.disabled"])
        assert len({run.id, *(each.event["data"].get("execution_id", run.id) for each in receiver.messages)}) == 1
        answer = (await only_delivery(app, "breaks")).metadata["response"]
        assert (answer["status"], answer["body"]) == (500, "out of \ufffd[31mdisk")
    assert "/hangs" not in caplog.text, "paths are secrets"


def _told(url: str) -> tuple[str, str]:
    return url, "the receiver answered 410 Gone"


@pytest.mark.req("WHK-1", "EXE-7")
async def test_a_receiver_that_hangs_takes_no_slot_of_jobs_or_of_other_endpoints(nodes: Nodes) -> None:
    app = nodes.app(private_urls=True, concurrency=1, stop_timeout=1, stop_reserve=0.5)

    @app.job("good")
    async def good(ctx: JobContext) -> None: ...

    async with receiving() as receiver, app:
        receiver.behaviours["/hangs"] = hangs
        await app.start(queues=["default"])
        await app.webhooks.create(receiver.url("/hangs"), id="hangs")
        await app.webhooks.create(receiver.url("/well"), id="well")
        runs = [await app.enqueue("good") for _ in range(20)]
        for run in runs:
            await ended(app, run)
        await until(lambda: len(receiver.at("/well")) == 20)
        await until(lambda: len(receiver.at("/hangs")) == 4, "as many at once as an endpoint has room for")
        waiting = await app.webhooks.deliveries("hangs", status="pending")
        assert len(waiting) == 16
        reasons = await app.why_waiting(waiting[0])
        assert "4 run under the limit webhook:hangs" in str(reasons)


@pytest.mark.req("SEC-4", "WHK-1", "OBS-7")
async def test_many_destinations_that_hang_keep_no_other_waiting(memory_nodes: Nodes) -> None:
    """In a running node: 50 endpoints and 50 hosts of pings hang, one endpoint has 200 deliveries waiting."""
    app = memory_nodes.app(private_urls=True, stop_timeout=1, stop_reserve=0.5)
    async with receiving() as receiver:
        receiver.behaviours["/hangs"] = hangs
        asked: list[asyncio.StreamWriter] = []
        hosts = [f"127.0.0.{number + 2}" for number in range(50)]
        silent = await asyncio.start_server(lambda _, writer: asked.append(writer), hosts, 0)
        for number, listener in enumerate(silent.sockets):
            host, port = listener.getsockname()
            url = f"http://{host}:{port}/"
            app.job(f"slow-{number}", ping={"start": url, "success": url})(lambda: None)
        app.job("good", ping=receiver.url("/ping"))(lambda: None)
        async with app:
            for number in range(50):
                await app.webhooks.create(receiver.url("/hangs"), id=f"hangs-{number}", jobs=["slow-0"])
            await app.webhooks.create(receiver.url("/hangs"), id="many", jobs=["good"])
            for number in range(50):
                await ended(app, await app.enqueue(f"slow-{number}"))
            for run in [await app.enqueue("good") for _ in range(200)]:
                await ended(app, run)
            await until(lambda: len(receiver.at("/hangs")) >= 50 and len(asked) == 100, "all of them hang")
            await app.webhooks.create(receiver.url("/well"), id="well", jobs=["good"])
            await ended(app, await app.enqueue("good"))
            await until(lambda: receiver.at("/well"))
            await until(lambda: len(receiver.at("/ping")) == 201)
            for writer in asked:
                writer.close()
            silent.close()


@pytest.mark.req("WHK-1")
async def test_secrets_rotate_and_show_nowhere(memory_nodes: Nodes) -> None:
    app = memory_nodes.app(private_urls=True)

    @app.job("good")
    async def good(ctx: JobContext) -> None: ...

    async with receiving() as receiver, app:
        await app.start()
        url = receiver.url("/token-0815?key=1")
        first = await app.webhooks.create(url, id="a", description="mine", by="ada")
        second = await app.webhooks.rotate_secret("a", overlap="1h")
        assert first.secret is not None
        assert second.secret is not None
        test = await ended(app, await app.webhooks.test("a", by="ada"))
        assert (test.state.value, test.result["status"]) == ("completed", 204)
        [message] = receiver.messages
        for secret in (first.secret, second.secret):
            assert verify(message.body, message.headers, secret.reveal())["type"] == "webhook.test"
        view = await app.webhooks.get("a")
        assert (view.url, view.description, view.events) == (f"http://127.0.0.1:{receiver.port}/...", "mine", ())
        assert view.old_secret_until is not None
        assert view.old_secret_until - view.created_at < timedelta(hours=2)
        await app.webhooks.update("a", events=["execution.failed"], by="ada")
        await app.webhooks.disable("a", by="ada")
        await app.webhooks.enable("a", by="ada")
        await app.webhooks.remove("a", by="ada")
        audits = await app.audits(target="webhook:a")
        assert [each.action.removesuffix("_webhook") for each in audits] == [
            *("remove", "enable", "disable", "update", "test", "rotate_secret", "create")
        ]
        shown = "".join(str(each) for each in (*audits, view, first, second, test, *await app.logs(test.id)))
        hidden = ("token-0815", first.secret.reveal(), second.secret.reveal(), "whsec_")
        assert [text for text in hidden if text in shown] == []


@asynccontextmanager
async def mail_server(mails: list[str]) -> AsyncIterator[int]:
    """Just enough of SMTP."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 here\r\n")
        while line := (await reader.readline()).decode().upper():
            if line.startswith("DATA"):
                writer.write(b"354 go on\r\n")
                mails.append((await reader.readuntil(b"\r\n.\r\n")).decode())
            writer.write(b"221 bye\r\n" if line.startswith("QUIT") else b"250 ok\r\n")
            if line.startswith("QUIT"):
                break
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@pytest.mark.req("WHK-1")
async def test_texts_for_people(memory_nodes: Nodes) -> None:
    mails: list[str] = []
    async with receiving() as receiver, mail_server(mails) as port:
        app = memory_nodes.app(private_urls=True, smtp_url=f"smtp://127.0.0.1:{port}?from=jobs@example.com")

        @app.job("bad", max_attempts=1)
        async def bad(ctx: JobContext) -> None:
            raise ValueError("<!channel> & more")

        async with app:
            await app.start()
            await app.webhooks.create(receiver.url("/chat"), format="slack", events=["execution.failed"])
            mail = await app.webhooks.create("mailto:ops@example.com", format="email", events=["execution.failed"])
            assert (mail.secret, mail.webhook.url) == (None, "mailto:...@example.com")
            run = await ended(app, await app.enqueue("bad"))
            await until(lambda: receiver.messages and mails)
            text = f"bad failed: ValueError: &lt;!channel&gt; &amp; more (attempt 1 of 1, execution {run.id})"
            assert receiver.messages[0].event == {"text": text}
            assert "webhook-signature" not in receiver.messages[0].headers
            assert "To: ops@example.com" in mails[0]
            assert "From: jobs@example.com" in mails[0]
            assert "Subject: [mainspring] bad failed: ValueError" in mails[0].replace("\r\n ", " ")


@pytest.mark.req("WHK-1", "FLW-6")
async def test_what_failed_is_sent_again_in_bulk_under_the_same_id(memory_nodes: Nodes) -> None:
    app = memory_nodes.app(private_urls=True)

    @app.job("good")
    async def good(ctx: JobContext) -> None: ...

    async with receiving() as receiver, app:
        receiver.behaviours["/hook"] = answers(410)
        await app.start()
        await app.webhooks.create(receiver.url("/hook"), id="hook")
        await ended(app, await app.enqueue("good"))
        await until(lambda: _count(app, "failed", 1))
        del receiver.behaviours["/hook"]
        await app.webhooks.enable("hook")
        filter = {"job": "mainspring.webhooks", "tenant": "hook", "status": "failed"}
        assert (await app.bulk.wait((await app.bulk.start("retry", filter=filter)).id, timeout=10)).done == 1
        await until(lambda: _count(app, "completed", 1))
        first, again = receiver.messages
        assert (first.body, first.headers["webhook-id"]) == (again.body, again.headers["webhook-id"])


@pytest.mark.req("WHK-1")
async def test_an_endpoint_created_by_another_thread_is_served_by_the_node(memory_nodes: Nodes) -> None:
    app = memory_nodes.app(private_urls=True)

    @app.job("good")
    async def good(ctx: JobContext) -> None: ...

    async with receiving() as receiver, app:
        await app.start()
        await asyncio.to_thread(app.sync.webhooks.create, receiver.url("/hook"), id="hook")
        await app.enqueue("good")
        await until(lambda: receiver.types("/hook") == ["execution.completed"])
        [worker] = await app.workers()
        assert "mainspring.webhooks" in worker.handlers, "known before the next regular heartbeat"
    await asyncio.to_thread(app.sync.close)


async def _count(app: Mainspring, status: str, count: int) -> bool:
    return len(await app.webhooks.deliveries("hook", status=status)) == count


@pytest.mark.req("WHK-1", "SEC-4")
async def test_nobody_but_mainspring_sends_as_mainspring(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()

    async def anything(ctx: JobContext) -> None: ...

    with pytest.raises(InvalidValue, match=r"does not begin with 'mainspring\.'"):
        app.job("mainspring.webhooks")(anything)
    async with app:
        await app.webhooks.create("https://x.example/", id="a")
        with pytest.raises(CommandRefused, match="it is Mainspring's own"):
            await app.cancel("mainspring.webhooks")
        test = await app.webhooks.test("a")
        assert (await app.bulk.preview("cancel", "jobs", filter={"origin": "api"})).total == 0
        assert (await app.bulk.preview("cancel", filter={"status": "pending"})).total == 0
        filter = {"job": "mainspring.webhooks", "status": "pending"}
        done = await app.bulk.wait((await app.bulk.start("cancel", filter=filter)).id, timeout=10)
        assert [item.id for item in (await app.bulk.items(done.id)).items] == [test.id]
        body = {"id": "x", "event": "execution.failed", "body": "{}"}
        for command in (app.trigger, app.enqueue):
            with pytest.raises(CommandRefused, match="it is Mainspring's own"):
                await command("mainspring.webhooks", body)
        with pytest.raises(CommandRefused, match="it is Mainspring's own"):
            await app.enqueue("mainspring.webhooks", body, tenant="a")
