"""The mode without authentication: this machine only, and no web page through a browser on it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from mainspring.config.security import SecuritySettings
from mainspring.model.errors import ConfigurationError
from mainspring.server.access import UVICORN_OPTIONS, Guard, may_listen
from tests.api.access_support import SECRET, STRANGER, Answer, ask, settings, signed, tiny_api
from tests.support import until

OPEN = settings()
JWT = settings(jwt_secret=SECRET)


async def get(given: SecuritySettings = OPEN, path: str = "/admin", **request: object) -> Answer:
    return await ask(tiny_api(Guard(given)), path, **request)  # type: ignore[arg-type]


# --- who is admin -------------------------------------------------------------------------------------------------


@pytest.mark.req("SEC-2")
@pytest.mark.parametrize("peer", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
async def test_without_authentication_this_machine_is_admin(peer: str) -> None:
    answer = await get(peer=peer)
    assert (answer.status, answer.body) == (200, {"actor": "loopback", "role": "admin", "kind": "loopback"})


@pytest.mark.req("SEC-1", "SEC-2")
@pytest.mark.parametrize("peer", [STRANGER, "10.0.0.1", "testclient", None])
async def test_and_nobody_else_is_anything(peer: str | None) -> None:
    answer = await get(peer=peer, path="/viewer")
    assert (answer.status, answer.code) == (403, "loopback_only")
    assert "api_tokens" in answer.message, "the remedy is named"


@pytest.mark.req("SEC-1")
@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "Via"])
async def test_a_proxy_on_this_machine_lets_nobody_in(header: str) -> None:
    for proxies in ["", "127.0.0.1"]:
        answer = await get(settings(trusted_proxies=proxies), headers=[(header, "127.0.0.1")])
        assert (answer.status, answer.code) == (403, "loopback_only")


@pytest.mark.req("SEC-2")
async def test_with_authentication_this_machine_needs_it_too() -> None:
    assert (await get(JWT)).status == 401
    assert (await get(JWT, bearer=signed())).status == 200
    allowed = settings(jwt_secret=SECRET, allow_loopback=True)
    assert (await get(allowed)).body["kind"] == "loopback"
    assert (await get(allowed, bearer=signed())).body["kind"] == "jwt", "credentials that are given count"
    assert (await get(allowed, bearer="wrong")).status == 401, "and wrong ones are not made good by the address"
    assert (await get(allowed, peer=STRANGER)).status == 401
    assert (await get(allowed, headers=[("X-Forwarded-For", "127.0.0.1")])).status == 401


async def test_credentials_that_nothing_can_check_are_refused() -> None:
    assert (await get(bearer=signed())).status == 401


# --- browsers -----------------------------------------------------------------------------------------------------


@pytest.mark.req("SEC-4")
@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9", "127.0.0.1", "127.0.0.1:65535", "[::1]", "[::1]:8000"])
async def test_names_of_this_machine(host: str) -> None:
    assert (await get(host=host)).status == 200


@pytest.mark.req("SEC-4")
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8000",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "localhost@evil.example",
        "localhost:8000:evil",
        "localhost/evil",
        "203.0.113.9",
        "",
        None,
    ],
)
async def test_a_foreign_name_that_resolves_to_this_machine_is_refused(host: str | None) -> None:
    """DNS rebinding: the browser believes to talk to the foreign name, and says so."""
    answer = await get(host=host)
    assert (answer.status, answer.code) == (403, "unknown_host")


@pytest.mark.req("SEC-4")
async def test_two_host_headers_are_one_too_many() -> None:
    assert (await get(headers=[("Host", "evil.example")])).code == "unknown_host"


@pytest.mark.req("SEC-4")
async def test_further_names_can_be_listed() -> None:
    listed = settings(api_hosts="Jobs.internal")
    assert (await get(listed, host="jobs.internal:8000")).status == 200
    own_page = [("Origin", "https://jobs.internal")]
    assert (await get(listed, host="jobs.internal", headers=own_page)).status == 200
    assert (await get(listed, host="other.internal")).status == 403


@pytest.mark.req("SEC-4")
@pytest.mark.parametrize(
    "headers",
    [
        [("Origin", "https://evil.example")],
        [("Origin", "null")],
        [("Origin", "http://localhost:3000")],
        [("Origin", "http://[")],
        [("Origin", "http://localhost:8000"), ("Origin", "https://evil.example")],
        [("Sec-Fetch-Site", "cross-site")],
        [("Sec-Fetch-Site", "same-site")],
        [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate")],
    ],
)
async def test_pages_of_others_cannot_post(headers: list[tuple[str, str]]) -> None:
    answer = await get(path="/operator/x", method="POST", headers=headers)
    assert (answer.status, answer.code) == (403, "cross_site")


@pytest.mark.req("SEC-4")
@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("Origin", "http://localhost:8000"), ("Sec-Fetch-Site", "same-origin")],
        [("Sec-Fetch-Site", "none")],
    ],
)
async def test_own_pages_and_programs_can(headers: list[tuple[str, str]]) -> None:
    assert (await get(path="/operator/x", method="POST", headers=headers)).status == 200


@pytest.mark.req("SEC-4")
async def test_a_link_from_elsewhere_may_be_followed_but_no_image_loaded() -> None:
    assert (await get(headers=[("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate")])).status == 200
    assert (await get(headers=[("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "no-cors")])).status == 403


@pytest.mark.req("SEC-4")
async def test_loopback_beside_authentication_is_guarded_the_same_way() -> None:
    allowed = settings(jwt_secret=SECRET, allow_loopback=True)
    assert (await get(allowed, host="evil.example")).status == 403
    assert (
        await get(allowed, method="POST", path="/admin/x", headers=[("Origin", "https://evil.example")])
    ).status == 403


# --- where to listen ----------------------------------------------------------------------------------------------


@pytest.mark.req("SEC-2")
@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "[::1]", "localhost"])
def test_loopback_needs_no_authentication(host: str) -> None:
    may_listen(host, OPEN)


@pytest.mark.req("SEC-2")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "10.0.0.1", "example.com", "::ffff:0.0.0.0", "localhost.evil"])
def test_other_machines_need_it(host: str) -> None:
    with pytest.raises(ConfigurationError, match=r"api_tokens=true .* or listen on 127\.0\.0\.1"):
        may_listen(host, OPEN)
    with pytest.raises(ConfigurationError):
        may_listen(host, settings(allow_loopback=True, sys_allow="0.0.0.0/0", api_allow="10.0.0.0/8"))
    may_listen(host, JWT)
    may_listen(host, settings(api_tokens=True))


@pytest.mark.req("SEC-1")
def test_the_server_does_not_rewrite_addresses() -> None:
    """uvicorn would believe X-Forwarded-For from 127.0.0.1 by itself."""
    assert UVICORN_OPTIONS["proxy_headers"] is False


# --- over real sockets --------------------------------------------------------------------------------------------


@asynccontextmanager
async def serving(listener: socket.socket, **options: Any) -> AsyncIterator[None]:
    config = uvicorn.Config(tiny_api(Guard(OPEN)), log_config=None, lifespan="off", **UVICORN_OPTIONS | options)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve([listener]))
    try:
        await until(lambda: server.started, "the server listens")
        yield
    finally:
        server.should_exit = True
        await task
        listener.close()


async def status_line(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *headers: str) -> str:
    lines = ["GET /admin HTTP/1.1", "Host: localhost", "Connection: close", *headers, "", ""]
    writer.write("\r\n".join(lines).encode())
    answer = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    return answer.splitlines()[0]


@pytest.mark.req("SEC-1", "SEC-2")
@pytest.mark.parametrize("options", [{}, {"proxy_headers": True}], ids=["as we start it", "as others may"])
async def test_over_tcp_only_a_plain_request_is_local(options: dict[str, Any]) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    async with serving(listener, **options):
        plain = await status_line(*await asyncio.open_connection("127.0.0.1", port))
        proxied = await status_line(*await asyncio.open_connection("127.0.0.1", port), "X-Forwarded-For: 127.0.0.1")
        assert (plain, proxied) == ("HTTP/1.1 200 OK", "HTTP/1.1 403 Forbidden")


@pytest.mark.req("SEC-1")
async def test_over_a_unix_socket_nobody_is_local(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    async with serving(listener):
        answer = await status_line(*await asyncio.open_unix_connection(str(tmp_path / "s")))
        assert answer == "HTTP/1.1 403 Forbidden"
