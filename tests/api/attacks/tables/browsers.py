"""What a foreign web page makes a visitor's browser send, and where it would like the dashboard to lead or to leak."""

from __future__ import annotations

from urllib.parse import quote

from tests.api.attacks.attack import Attack, attack, with_form

TOKEN = "ab" * 16
COOKIE = ("cookie", f"mainspring_form={TOKEN}")
LOCAL = "127.0.0.1"

SENDERS: dict[str, tuple[tuple[str, str], ...]] = {
    "Sec-Fetch-Site cross-site": (("sec-fetch-site", "cross-site"),),
    "Sec-Fetch-Site same-site": (("sec-fetch-site", "same-site"),),
    "Sec-Fetch-Site in capitals": (("sec-fetch-site", "CROSS-SITE"),),
    "Sec-Fetch-Site of rubbish": (("sec-fetch-site", "same-origin, cross-site"),),
    "a foreign Origin": (("origin", "https://evil.example"),),
    "Origin null": (("origin", "null"),),
    "an Origin that begins like ours": (("origin", "http://localhost.evil.example"),),
    "an Origin that ends like ours": (("origin", "http://evil-localhost"),),
    "our Origin on another port": (("origin", "http://localhost:9999"),),
    "an Origin with our name as the user": (("origin", "http://localhost@evil.example"),),
    "our Origin and a foreign one": (("origin", "http://localhost"), ("origin", "https://evil.example")),
    "our Origin before a foreign one": (("origin", "http://localhost/ http://evil.example"),),
    "our Origin with a path": (("origin", "http://localhost/evil"),),
    "our Origin of another scheme": (("origin", "ftp://localhost"),),
    "an Origin without a scheme": (("origin", "//localhost"),),
    "an extension's Origin": (("origin", "chrome-extension://abc"),),
    "a file's Origin": (("origin", "file://"),),
}
FORMS = ("jobs/greet/trigger", "jobs/greet/delete", "locks/release", "webhooks", "bulk/new", "logout", "login")
TOKENS = {
    "a form without a token": {},
    "a form with an empty token": {"csrf": ""},
    "a form with another token": {"csrf": "cd" * 16},
    "a form with half the token": {"csrf": "ab" * 8},
    "a form with a token beyond ASCII": {"csrf": "\u00e9" * 32},
    "a form with the token in capitals": {"csrf": "AB" * 16},
}
COOKIES = {
    "a form without its cookie": (),
    "a cookie of another shape": (("cookie", "mainspring_form=x"),),
    "an empty cookie": (("cookie", "mainspring_form="),),
    "a cookie of another name": (("cookie", f"__Host-mainspring_form={TOKEN}"),),
}
HOSTS = {
    "a rebound name": "evil.example",
    "a rebound name with our port": "evil.example:8000",
    "a name that begins like ours": "localhost.evil.example",
    "a name that ends like ours": "evil-localhost",
    "our name as the user": "localhost@evil.example",
    "our name after a comma": "evil.example, localhost",
    "our address with a tail": "127.0.0.1.evil.example",
    "another loopback address": "127.0.0.2",
    "our address as a number": "2130706433",
    "our address in hexadecimal": "0x7f.1",
    "a short address": "127.1",
    "an unspecified address": "0.0.0.0",
    "a mapped address": "[::ffff:127.0.0.1]",
    "an address with a zone": "[::1%25lo]",
    "an open bracket": "[::1",
    "a port of text": "localhost:evil",
    "two ports": "localhost:80:80",
    "a path after the name": "localhost/evil.example",
    "a space": "localhost evil.example",
    "a final dot": "localhost.",
    "nothing": "",
}
PROXIED = (
    *("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "x-client-ip", "via"),
    *("true-client-ip", "cf-connecting-ip", "x-cluster-client-ip", "x-original-forwarded-for"),
)
LEAVING = {
    "another site": "https://evil.example/",
    "no scheme": "//evil.example",
    "three slashes": "///evil.example",
    "a backslash": "/\\evil.example",
    "a backslash after the dashboard": "/dashboard\\..\\..\\evil",
    "a tab": "/\t/evil.example",
    "a line break": "/dashboard\r\nSet-Cookie: a=b",
    "our name as the user": "http://jobs.example@evil.example/dashboard",
    "our name and more": "http://jobs.example.evil.example/dashboard",
    "a script": "javascript:alert(1)",
    "data": "data:text/html,x",
    "a page beside the dashboard": "/dashboardx",
    "a foreign dashboard": "https://evil.example/dashboard",
}


def attacks() -> list[Attack]:
    return [*_forms(), *_loopback(), *_leaving(), *_pages()]


def _forms() -> list[Attack]:
    made = []
    for path in FORMS:
        door = f"POST /dashboard/{path}"
        for kind, fields in TOKENS.items():
            made.append(attack(kind, door, 403, who="admin", **with_form(fields, COOKIE)))
        for kind, cookies in COOKIES.items():
            made.append(attack(kind, door, 403, who="admin", **with_form({"csrf": TOKEN}, *cookies)))
        for kind, headers in SENDERS.items():
            given = with_form({"csrf": TOKEN}, COOKIE, *headers)
            made.append(attack(f"a form with {kind}", door, 403, who="admin", **given))
        for kind in ("text/plain", "multipart/form-data; boundary=x", "application/json"):
            headers = (("content-type", kind), COOKIE)
            body = f"csrf={TOKEN}".encode()
            made.append(attack(f"a form as {kind}", door, 415, who="admin", body=body, headers=headers))
        made.append(attack("the token in the query", f"{door}?csrf={TOKEN}", 403, who="admin", **with_form({}, COOKIE)))
        if path not in ("login", "logout"):
            given = with_form({"csrf": TOKEN}, COOKIE)
            made.append(attack("a form of a stranger", door, 303, 401, 403, never=("greet is",), **given))
    return made


def _loopback() -> list[Attack]:
    """Where nobody logs in, a request that looks as if a page or a proxy sent it is not served."""
    made = []
    for route in ("GET /api/v1/jobs", "POST /api/v1/jobs/greet/trigger", "GET /dashboard/jobs", "GET /metrics"):
        for kind, host in HOSTS.items():
            made.append(_at_loopback(f"a Host of {kind}", route, host=host))
        made.append(_at_loopback("no Host", route, host=None))
        made.append(_at_loopback("two Hosts", route, headers=(("host", "evil.example"),)))
        proxied = {name: ((name, "127.0.0.1"),) for name in PROXIED}
        for kind, headers in (SENDERS | proxied).items():
            made.append(_at_loopback(f"a request with {kind}", route, headers=headers))
        peers = ("203.0.113.9", "10.0.0.1", "::ffff:10.0.0.1")
        made += [_at_loopback("another machine", route, peer=peer) for peer in peers]
        header = (("authorization", "Bearer x"),)
        made.append(_at_loopback("a credential that nothing can check", route, headers=header, expected=(401,)))
    return made


def _at_loopback(kind: str, route: str, expected: tuple[int, ...] = (403,), **more: object) -> Attack:
    given = {"host": "localhost", "peer": LOCAL, **more}
    return attack(kind, route, *expected, door="loopback", **given)


def _leaving() -> list[Attack]:
    """Wherever a page leads, it is a page of the dashboard."""
    made = []
    for kind, url in LEAVING.items():
        made.append(attack(f"a login that leads to {kind}", f"GET /dashboard/login?next={quote(url)}", 200))
        referer = (("referer", url.replace("\r\n", "")),)
        given = with_form({"csrf": TOKEN}, COOKIE, *referer)
        door = "POST /dashboard/jobs/no-such-job/pause"
        made.append(attack(f"a form that leads back to {kind}", door, 303, 404, who="admin", **given))
        made.append(attack(f"a search that leads to {kind}", f"GET /dashboard/search?q={quote(url)}", 303, who="admin"))
    return made


def _pages() -> list[Attack]:
    """Pages that strangers come to: none says more than that a login is needed, and none can be framed."""
    made = []
    for path in (
        "",
        "/jobs",
        "/jobs/greet",
        "/executions",
        "/system",
        "/locks",
        "/changes",
        "/no-such-page",
        "/webhooks",
    ):
        never = ("greet", "close-the-year", "test-admin")
        route = f"GET /dashboard{path}"
        made.append(
            attack("a page without a login", route, 303, 307, 401, never=never[1:] if "greet" in path else never)
        )
        made.append(
            attack("a page with a forged session", route, 303, 307, 401, never=never[1:], headers=_session("x"))
        )
    made.append(attack("a static file upwards", "GET /dashboard/static/..%2f..%2fvisit.py", 404, 401, 303))
    made.append(attack("a static file of another type", "GET /dashboard/static/visit.py", 404))
    return made


def _session(value: str) -> tuple[tuple[str, str], ...]:
    return (("cookie", f"mainspring_session={value}"),)
