"""The edges of the interface: proxies in front of loopback mode, health checks, `metrics_port`, settings from files,
request ids in the audit, and a guard of one's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI

from mainspring import Mainspring, every
from mainspring.config.load import load
from mainspring.config.settings import SETTINGS
from mainspring.model.errors import ConfigurationError, InvalidValue
from mainspring.observe.metrics.access import MetricsAccess
from mainspring.server.access import Guard, Principal, Refused, Role, needs
from mainspring.server.api import create_api
from tests.api.access_support import SECRET, STRANGER, ask, settings, signed
from tests.support import Nodes

pytestmark = pytest.mark.req("SEC-1")

PROXIES = [
    *("Forwarded", "Via", "X-Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-By", "X-Forwarded-Proto"),
    *("X-Forwarded-Port", "X-Forwarded-Server", "X-Forwarded-Prefix", "X-Forwarded-Client-Cert", "X-Real-IP"),
    *("X-Original-Host", "X-Original-URL", "X-Original-For", "X-Client-IP", "X-Cluster-Client-IP", "X-ProxyUser-Ip"),
    *("CDN-Loop", "CF-Ray", "CF-Connecting-IP", "CF-Visitor", "True-Client-IP", "Fastly-Client-IP", "Fastly-FF"),
    *("Akamai-Origin-Hop", "X-Akamai-Edgescape", "X-Amzn-Trace-Id", "X-Amz-Cf-Id", "CloudFront-Viewer-Address"),
    *(
        "X-Azure-ClientIP",
        "X-Azure-SocketIP",
        "X-Azure-Ref",
        "X-FD-HealthProbe",
        "X-ARR-LOG-ID",
        "X-Cloud-Trace-Context",
    ),
    *("X-AppEngine-User-IP", "X-Goog-IAP-JWT-Assertion", "X-Envoy-External-Address", "X-Envoy-Attempt-Count"),
    *(
        "X-Envoy-Expected-Rq-Timeout-Ms",
        "X-Varnish",
        "Surrogate-Capability",
        "X-Vercel-Id",
        "X-NF-Client-Connection-IP",
    ),
    *("Fly-Client-IP", "WL-Proxy-Client-IP", "Proxy-Connection", "Client-IP", "X-Bluecoat-Via", "Front-End-Https"),
    *("X-Remote-Addr", "X-Originating-IP", "X-Source-IP", "X-Traefik-Router", "X_Forwarded_For", "X_Real_IP"),
    *("Ali-CDN-Real-IP", "CDN-Src-IP", "EO-Connecting-IP", "DO-Connecting-IP", "Incap-Client-IP", "X-Sucuri-ClientIP"),
    *(
        "Tailscale-User-Login",
        "X-Ngrok-Trace",
        "X-Tunnel-Id",
        "X-Kong-Request-Id",
        "X-Haproxy-Unique-Id",
        "X-Nginx-Proxy",
    ),
    *("Remote-User", "X-Remote-User", "X-Auth-Request-User", "X-Pomerium-Jwt-Assertion", "X-Request-Start"),
    *("X-Goog-Authenticated-User-Email", "SSL-Client-Cert", "X-SSL-Client-Verify", "X-Edge-IP", "X-Gateway-Host"),
]
HARMLESS = ["Accept", "User-Agent", "Traceparent", "X-Request-Id", "X-Requested-With", "Cookie", "X-Client-Version"]


@asynccontextmanager
async def interface(**given: Any) -> AsyncIterator[tuple[FastAPI, Mainspring]]:
    app = Mainspring("memory://", **given)
    app.job("job", trigger=every(hours=1))(lambda: None)
    try:
        yield create_api(app._runtime), app
    finally:
        await app.close()


async def test_loopback_mode_recognises_proxies() -> None:
    async with interface() as (api, _):
        for name in PROXIES:
            refused = await ask(api, "/api/v1/me", headers=[(name, "127.0.0.1")])
            assert (refused.status, refused.code) == (403, "loopback_only"), name
        for name in HARMLESS:
            assert (await ask(api, "/api/v1/me", headers=[(name, "1")])).status == 200, name


async def test_no_route_serves_loopback_through_a_proxy() -> None:
    async with interface() as (api, _):
        for path, item in api.openapi()["paths"].items():
            for method, operation in item.items():
                if operation["x-required-role"] in ("anyone", "signature"):
                    continue
                answer = await ask(api, path, method.upper(), headers=[("CDN-Loop", "x")])
                assert answer.status == 403, (method, path, answer)


# --- health checks ----------------------------------------------------------------------------------------------


async def test_health_checks_follow_api_allow_and_read_no_credentials() -> None:
    async with interface(api_tokens=True, api_allow="192.0.2.0/24", failed_logins_per_minute=2) as (api, app):
        token = (await app.tokens.create("probe", "viewer")).text.reveal()
        for path in ("/healthz", "/readyz"):
            for peer in (STRANGER, "127.0.0.1", "2001:db8::1"):
                refused = await ask(api, path, peer=peer, bearer=token)
                assert (refused.status, refused.code) == (403, "address_not_allowed"), (path, peer)
            assert (await ask(api, path, peer="192.0.2.7")).status == 200
            for _ in range(5):
                assert (await ask(api, path, peer="192.0.2.7", bearer="mainspring_wrong")).status == 200
        assert (await ask(api, "/api/v1/me", peer="192.0.2.7", bearer=token)).status == 200, "nothing was counted"


# --- metrics_port -----------------------------------------------------------------------------------------------

OPEN = {"sys_allow": "10.0.0.0/8"}
PROXIED = {"sys_allow": "10.0.0.0/8", "trusted_proxies": "192.0.2.1"}
METRICS: list[tuple[dict[str, str], str | None, Sequence[tuple[str, str]], int | None]] = [
    ({}, "127.0.0.1", [("Host", "localhost:9000")], None),
    ({}, "::1", [("Host", "[::1]:9000")], None),
    ({}, "127.0.0.1", [("Host", "evil.example")], 403),  # DNS rebinding
    ({}, "127.0.0.1", [("Host", "10.0.0.1")], 403),
    ({}, "127.0.0.1", [], 403),
    ({}, "127.0.0.1", [("Host", "localhost"), ("host", "evil.example")], 403),
    ({}, "127.0.0.1", [("Host", "localhost"), ("Origin", "https://evil.example")], 403),
    ({}, "127.0.0.1", [("Host", "localhost"), ("Sec-Fetch-Site", "cross-site")], 403),
    ({}, "127.0.0.1", [("Host", "localhost"), ("X-Forwarded-For", "127.0.0.1")], 403),
    ({}, "127.0.0.1", [("Host", "localhost"), ("CDN-Loop", "cloudflare")], 403),
    ({}, "10.0.0.7", [("Host", "localhost")], 403),
    ({}, None, [("Host", "localhost")], 403),
    ({"api_hosts": "worker"}, "127.0.0.1", [("Host", "worker:9000")], None),
    (OPEN, "10.0.0.7", [("Host", "10.0.0.1:9000")], None),
    (OPEN, "10.0.0.7", [("Host", "[2001:db8::1]:9000")], None),
    (OPEN, "10.0.0.7", [("Host", "evil.example")], 403),
    (OPEN, "10.0.0.7", [("Host", "10.0.0.1"), ("Via", "1.1 squid")], 403),
    (OPEN, "127.0.0.1", [("Host", "localhost")], 403),
    (OPEN, STRANGER, [("Host", "10.0.0.1"), ("X-Forwarded-For", "10.0.0.7")], 403),
    (PROXIED, "192.0.2.1", [("Host", "10.0.0.1"), ("X-Forwarded-For", "10.0.0.7")], None),
    (PROXIED, "192.0.2.1", [("Host", "10.0.0.1"), ("X-Forwarded-For", f"10.0.0.7, {STRANGER}")], 403),
    (PROXIED, "192.0.2.1", [("Host", "10.0.0.1")], 403),
    ({**OPEN, "api_allow": "192.0.2.0/24"}, "10.0.0.7", [("Host", "10.0.0.1")], 403),
]


@pytest.mark.parametrize("case", METRICS, ids=str)
async def test_metrics_port_judges_address_host_and_proxies(case: Any) -> None:
    given, peer, headers, status = case
    refusal = await MetricsAccess(settings(**given)).refusal(peer, "GET", headers)
    assert (None if refusal is None else refusal.status) == status, refusal


async def _metrics(port: int, *headers: str, method: str = "GET") -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write("\r\n".join([f"{method} /metrics HTTP/1.1", *headers, "", ""]).encode())
    answer = (await asyncio.wait_for(reader.read(), 20)).decode()
    writer.close()
    return answer


async def test_metrics_port_asks_for_credentials_where_authentication_is_set(memory_nodes: Nodes) -> None:
    app = memory_nodes.app(roles=["worker"], metrics_port=0, api_tokens=True, failed_logins_per_minute=3)
    app.job("job")(lambda: None)
    async with app:
        token = (await app.tokens.create("prometheus", "viewer")).text.reveal()
        port = app._runtime.parts.metrics.port  # type: ignore[union-attr]
        nobody = await _metrics(port, "Host: localhost")
        assert nobody.startswith("HTTP/1.1 401 ")
        assert "WWW-Authenticate: Bearer" in nobody
        assert (await _metrics(port, "Host: x", f"Authorization: Bearer {token}")).startswith("HTTP/1.1 200 ")
        assert (await _metrics(port, "Host: x", "Broken : header")).startswith("HTTP/1.1 400 ")
        for _ in range(3):
            assert (await _metrics(port, "Host: x", f"Authorization: Bearer {token}0")).startswith("HTTP/1.1 401 ")
        other = (await app.tokens.create("other", "viewer")).text.reveal()
        assert (await _metrics(port, "Host: x", f"Authorization: Bearer {other}")).startswith("HTTP/1.1 429 ")


async def test_metrics_port_refuses_what_a_page_could_send(memory_nodes: Nodes) -> None:
    app = memory_nodes.app(roles=["worker"], metrics_port=0)
    app.job("job")(lambda: None)
    async with app:
        port = app._runtime.parts.metrics.port  # type: ignore[union-attr]
        assert (await _metrics(port, "Host: localhost")).startswith("HTTP/1.1 200 ")
        for headers in (["Host: evil.example"], ["Host: localhost", "Forwarded: for=127.0.0.1"], []):
            assert (await _metrics(port, *headers)).startswith("HTTP/1.1 403 "), headers


# --- settings from files ----------------------------------------------------------------------------------------

FROM_FILES = {
    "database_url": "postgresql://app:hunter2@h/jobs",
    "redis_url": "redis://:hunter2@h:6379/0",
    "egress_proxy": "http://app:hunter2@proxy.internal:3128",
    "smtp_url": "smtp://app:hunter2@h:587?from=a@b.example",
    "jwt_secret": SECRET,
}


def test_every_secret_setting_can_be_read_from_a_file(tmp_path: Path) -> None:
    assert {name for name, setting in SETTINGS.items() if setting.secret} == set(FROM_FILES)
    for name, value in FROM_FILES.items():
        variable, file = f"MAINSPRING_{name.upper()}_FILE", tmp_path / name
        file.write_text(f"{value}\n")
        found = getattr(load(environ={variable: str(file)}), name)
        assert (found.reveal() if name == "jwt_secret" else found) == value
        with pytest.raises(ConfigurationError, match="both set"):
            load(environ={variable: str(file), f"MAINSPRING_{name.upper()}": value})
        for broken in (str(tmp_path / "missing"), str(tmp_path)):
            with pytest.raises(ConfigurationError, match=f"{variable}: the file .* cannot be read"):
                _ = load(environ={variable: broken}).check_http()


def test_an_error_shows_nothing_of_a_file_of_secrets_that_was_named_by_mistake(tmp_path: Path) -> None:
    file = tmp_path / "another-secret"
    file.write_text("hunter2")
    for name in FROM_FILES:
        with pytest.raises((ConfigurationError, InvalidValue)) as refused:
            _ = load(environ={f"MAINSPRING_{name.upper()}_FILE": str(file)}).check_http()
        assert "hunter2" not in f"{refused.value} {refused.value!r}", name


def test_a_file_of_secrets_has_an_end() -> None:
    for name in FROM_FILES:
        with pytest.raises(ConfigurationError, match="too long to be a secret"):
            _ = load(environ={f"MAINSPRING_{name.upper()}_FILE": "/dev/zero"}).check_http()


# --- the audit --------------------------------------------------------------------------------------------------


async def test_audit_records_of_tokens_and_calendars_carry_the_request_id() -> None:
    async with interface(jwt_secret=SECRET) as (api, app):
        admin: dict[str, Any] = {"peer": STRANGER, "bearer": signed(role="admin")}
        made = await ask(api, "/api/v1/tokens", "POST", body={"name": "ci", "role": "viewer"}, **admin)
        asked = [made, await ask(api, f"/api/v1/tokens/{made.body['id']}", "DELETE", **admin)]
        path = "/api/v1/calendars/bank"
        asked.append(await ask(api, path, "PUT", body={"entries": ["12-25"]}, **admin))
        asked.append(await ask(api, path, "DELETE", **admin))
        assert all(each.status < 300 for each in asked), asked
        expected = [each.headers["x-request-id"] for each in asked]
        assert [each.request_id for each in await app.audits()] == expected[::-1]


# --- a guard of one's own ---------------------------------------------------------------------------------------


async def test_a_guard_of_ones_own_takes_the_tokens_of_the_application() -> None:
    app = Mainspring("memory://", api_tokens=True)
    api = FastAPI()
    api.state.guard = Guard(app.settings.security, app)

    @api.get("/reports")
    async def reports(who: Annotated[Principal, Depends(needs(Role.OPERATOR))]) -> dict[str, str]:
        return {"who": who.name}

    tokens = {role: (await app.tokens.create(role, role)).text.reveal() for role in ("viewer", "operator")}
    assert (await ask(api, "/reports", peer=STRANGER, bearer=tokens["operator"])).body == {"who": "operator"}
    for bearer, status in ((tokens["viewer"], 403), (tokens["operator"][:-1] + "x", 401), (None, 401)):
        with pytest.raises(Refused) as refused:
            await ask(api, "/reports", peer=STRANGER, bearer=bearer)
        assert refused.value.status == status
    await app.close()
