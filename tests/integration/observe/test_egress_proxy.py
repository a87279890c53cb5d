"""Requests through the proxy of the setting `egress_proxy`: the same checks, the same deadline, the same answers."""

from __future__ import annotations

import asyncio
import ssl
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from mainspring import InvalidValue, JobContext
from mainspring.config.load import load
from mainspring.observe.outgoing.egress_proxy import EgressProxy
from mainspring.observe.outgoing.http import NotAllowed, OutgoingHttp
from tests.integration.observe.foreign_servers import OK, answering, certificates, proxy, server, silent
from tests.receiver import receiving
from tests.support import DEADLINE, Nodes, ended, until

pytestmark = pytest.mark.req("SEC-4", "WHK-1")

SHORT = 0.3
PUBLIC = "93.184.216.34"


def outgoing(port: int, *addresses: str, user: str = "", private: bool = False, **options: Any) -> OutgoingHttp:
    """Through a proxy at this port; every name has these addresses."""

    async def resolver(host: str) -> list[Any]:
        return [ip_address(each) for each in addresses or (PUBLIC,)]

    return OutgoingHttp(private, resolver, proxy=EgressProxy(f"http://{user}127.0.0.1:{port}"), **options)


async def test_the_proxy_gets_the_checked_address_and_the_receiver_its_own_name() -> None:
    requests: list[bytes] = []
    async with server(answering(OK, requests=requests)) as port, proxy() as way:
        found = await outgoing(way.port).post(f"http://receiver.example:{port}/in?key=1", {"X-A": "b"}, b"{}", DEADLINE)
    assert (found.status, found.body) == (200, b"ok")
    assert way.targets == [f"{PUBLIC}:{port}"]
    lines = requests[0].lower().split(b"\r\n")
    assert lines[0] == b"post /in?key=1 http/1.1"
    assert {f"host: receiver.example:{port}".encode(), b"x-a: b"} <= {*lines}
    assert not [line for line in lines if line.startswith(b"proxy-")]


async def test_tls_is_spoken_with_the_receiver(tmp_path: Path) -> None:
    names: list[str | None] = []
    serving, trusting = certificates(tmp_path, names)
    async with server(answering(OK), serving) as port, proxy() as way:
        url = f"https://receiver.example:{port}/"
        client = outgoing(way.port, "2606:2800:220:1::1", tls=trusting)
        assert (await client.post(url, {}, b"{}", DEADLINE)).status == 200
        assert (way.targets, names) == ([f"[2606:2800:220:1::1]:{port}"], ["receiver.example"])
        with pytest.raises(ssl.SSLCertVerificationError):
            await client.post(url.replace("receiver", "other"), {}, b"{}", DEADLINE)
        way.injects = OK.replace(b"200", b"201")
        assert (await client.post(url, {}, b"{}", DEADLINE)).status == 200, "what comes before TLS is no answer"


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], [PUBLIC, "10.0.0.1"], ["::ffff:169.254.169.254", PUBLIC], ["64:ff9b::7f00:1"]]
)
async def test_addresses_are_checked_before_the_proxy_is_asked(addresses: list[str], secure: bool) -> None:
    async with proxy() as way:
        with pytest.raises(NotAllowed):
            await outgoing(way.port, *addresses).get(f"http{'s' * secure}://receiver.example/", DEADLINE)
        with pytest.raises(NotAllowed, match="metadata"):
            await outgoing(way.port, "169.254.169.254", private=True).get("http://receiver.example/", DEADLINE)
    assert way.targets == []


async def test_redirects_are_not_followed() -> None:
    head = b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere.example/\r\nContent-Length: 0\r\n\r\n"
    async with server(answering(head)) as port, proxy() as way:
        assert (await outgoing(way.port).post(f"http://receiver.example:{port}/", {}, b"{}", DEADLINE)).status == 302
    assert way.targets == [f"{PUBLIC}:{port}"]


async def test_the_next_address_is_tried_through_the_proxy() -> None:
    requests: list[bytes] = []

    async def picky(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        requests.append(head.split()[1])
        writer.write(b"HTTP/1.1 504 No\r\n\r\n" if len(requests) == 1 else b"HTTP/1.1 200 Yes\r\n\r\n" + OK)

    async with server(picky) as port:
        assert (await outgoing(port, "1.1.1.1", "8.8.8.8").get("http://receiver.example/", DEADLINE)).status == 200
    assert requests == [b"1.1.1.1:80", b"8.8.8.8:80"]


async def test_credentials_of_the_proxy_are_sent_to_it_and_shown_nowhere() -> None:
    async with server(answering(OK)) as port, proxy("ada:hunter 2") as way:
        url = f"http://receiver.example:{port}/"
        assert (await outgoing(way.port, user="ada:hunter%202@").post(url, {}, b"{}", DEADLINE)).status == 200
        for user, words in (("ada:wrong@", "did not accept the user and password"), ("", "asks for a user")):
            with pytest.raises(OSError, match=rf"^the egress proxy 127\.0\.0\.1:{way.port} {words}.*407") as refused:
                await outgoing(way.port, user=user).post(url, {}, b"{}", DEADLINE)
            assert "wrong" not in str(refused.value)


@pytest.mark.parametrize(
    ("answer", "then", "problem"),
    [
        (
            b"HTTP/1.1 502 Bad gateway\r\n\r\n",
            "close",
            r"answered 502 .* connection to 93\.184\.216\.34:80",
        ),
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", "hang", "answered 403"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "hang", "answered 100"),
        (b"SSH-2.0-x\r\n\r\n", "hang", "is it an HTTP proxy"),
        (b"HTTP/1.1 200", "close", "no usable answer"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 9_000, "hang", "no usable answer"),
        (b"", "hang", "did not answer within 0.3 s"),
        (b"HTTP/1.1 200 OK\r\nX: ", "drip", "did not answer within 0.3 s"),
    ],
)
async def test_what_a_proxy_does_wrong_is_named(answer: bytes, then: str, problem: str) -> None:
    async with server(answering(answer, then, body=0)) as port:
        asked = outgoing(port).get("http://receiver.example/", SHORT if "within" in problem else DEADLINE)
        with pytest.raises(OSError, match=rf"^the egress proxy 127\.0\.0\.1:{port} .*{problem}"):
            await asyncio.wait_for(asked, DEADLINE)


async def test_a_proxy_that_cannot_be_reached_is_named() -> None:
    async with server(silent) as port:
        pass
    with pytest.raises(OSError, match=rf"^the egress proxy 127\.0\.0\.1:{port} cannot be reached"):
        await outgoing(port, user="ada:hunter2@").get("http://receiver.example/", DEADLINE)


async def test_a_receiver_that_is_slow_behind_the_proxy_is_named(tmp_path: Path) -> None:
    _, trusting = certificates(tmp_path, [])
    async with server(silent) as port, proxy() as way:
        for scheme in ("http", "https"):
            with pytest.raises(TimeoutError, match=r"^receiver\.example did not answer within 0\.3 s"):
                await outgoing(way.port, tls=trusting).get(f"{scheme}://receiver.example:{port}/", SHORT)


@pytest.mark.req("OBS-6")
async def test_pings_and_webhooks_of_a_node_go_through_it(
    memory_nodes: Nodes, caplog: pytest.LogCaptureFixture
) -> None:
    async with proxy("ada:hunter2") as way, receiving() as receiver:
        setting = f"http://ada:hunter2@127.0.0.1:{way.port}"
        app = memory_nodes.app(private_urls=True, egress_proxy=setting)
        wrong = memory_nodes.app(private_urls=True, egress_proxy=setting.replace("hunter2", "hunter3"))
        for each in (app, wrong):

            @each.job("good", ping=receiver.url("/ping"))
            async def good(ctx: JobContext) -> None: ...

        async with app:
            await app.webhooks.create(receiver.url("/hook"), id="hook")
            await ended(app, await app.enqueue("good"))
            await until(lambda: receiver.at("/ping") and receiver.at("/hook"))
        assert set(way.targets) == {f"127.0.0.1:{receiver.port}"}
        async with wrong:
            await ended(wrong, await wrong.enqueue("good"))
            await until(lambda: "did not accept the user and password" in caplog.text)

            async def refused() -> str:
                attempts = [each for run in await wrong.webhooks.deliveries("hook") for each in run.attempts]
                return " ".join(each.error or "" for each in attempts)

            errors = await until(refused)
        shown = f"{caplog.text} {errors} {app.settings} {app.settings.in_force()}"
        assert f"http://ada:***@127.0.0.1:{way.port}" in shown
        assert "hunter" not in shown


@pytest.mark.parametrize(
    "url",
    ["proxy:3128", "https://p:3128", "socks5://p:1080", "http://p", "http://p:0", "http://p:99999", "http://:3128",
     "http://p:3128/x", "http://p:3128?a=b", "http://p:3128#x", "http://u:hunter2@p", "http://u:hunter2@p:x",
     "http://p q:1", "http://u:hunter2\u202e@p:1", 3128],
)  # fmt: skip
def test_what_is_no_address_of_a_proxy_is_refused(url: Any) -> None:
    with pytest.raises(InvalidValue, match=r"egress_proxy .*allowed: http://proxy\.internal:3128") as refused:
        load({"egress_proxy": url}, environ={})
    assert "hunter2" not in f"{refused.value} {refused.value!r}"
