"""Bytes that are no honest HTTP: two lengths, odd chunks, odd heads and odd targets. One answer at most is given,
and no second request is read out of the first."""

from __future__ import annotations

import msgspec

HIDDEN = (
    b"POST /api/v1/jobs/greet/trigger HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer TOKEN\r\nContent-Length: 0\r\n\r\n"
)
"""What an attacker would like to be read as a request of its own."""
TRIGGER = b"POST /api/v1/jobs/no-such-job/trigger HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer TOKEN\r\n"
ME = b"GET /api/v1/me HTTP/1.1\r\n"
JSON = b"Content-Type: application/json\r\n"
END = b"Connection: close\r\n\r\n"


class WireAttack(msgspec.Struct, frozen=True):
    """`expected` are the statuses that are allowed; 0 stands for a connection that is closed without an answer."""

    kind: str
    sent: bytes
    expected: tuple[int, ...] = (400,)


def attacks() -> list[WireAttack]:
    return [*_lengths(), *_heads(), *_targets(), *_methods()]


def _lengths() -> list[WireAttack]:
    """`TOKEN` is replaced by that of an admin: what is smuggled would work."""
    n = str(len(HIDDEN)).encode()
    heads = {
        "two lengths": b"Content-Length: 0\r\nContent-Length: " + n,
        "two lengths in one header": b"Content-Length: 0, " + n,
        "a length with a sign": b"Content-Length: +" + n,
        "a length below zero": b"Content-Length: -1",
        "a length in hexadecimal": b"Content-Length: 0x10",
        "a length with a fraction": b"Content-Length: 1.0",
        "a length beyond all digits": b"Content-Length: " + b"9" * 25,
        "a length of nothing": b"Content-Length: ",
        "a length with a space inside": b"Content-Length: 1 0",
        "a length in other digits": b"Content-Length: \xd9\xa3",
        "a space before the colon": b"Content-Length : " + n,
        "an unknown coding": b"Transfer-Encoding: gzip",
        "a coding of rubbish": b"Transfer-Encoding: xchunked",
        "chunked before another coding": b"Transfer-Encoding: chunked, identity",
        "chunked twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "chunked twice in one header": b"Transfer-Encoding: chunked, chunked",
        "a vertical tab before chunked": b"Transfer-Encoding: \x0bchunked",
        "a coding in quotes": b'Transfer-Encoding: "chunked"',
    }
    made = [
        WireAttack(kind, TRIGGER + JSON + head + b"\r\n\r\n" + HIDDEN, (400, 413, 501)) for kind, head in heads.items()
    ]
    chunked = TRIGGER + JSON + b"Transfer-Encoding: chunked\r\n"
    both = TRIGGER + JSON + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    made.append(WireAttack("a length and chunks", both + HIDDEN, (400,)))
    made.append(WireAttack("chunks and a length that hides a request", _hiding(TRIGGER + JSON), (400,)))
    old = (TRIGGER + JSON).replace(b"HTTP/1.1", b"HTTP/1.0")
    made.append(WireAttack("chunks in HTTP/1.0", old + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + HIDDEN, (400,)))
    chunks = {
        "a chunk size of rubbish": b"zz\r\n{}\r\n0\r\n\r\n",
        "a chunk size below zero": b"-2\r\n{}\r\n0\r\n\r\n",
        "a chunk size with a sign": b"+2\r\n{}\r\n0\r\n\r\n",
        "a chunk size in hexadecimal notation": b"0x2\r\n{}\r\n0\r\n\r\n",
        "a chunk size of 40 digits": b"f" * 40 + b"\r\n{}\r\n",
        "a chunk that is longer than its size": b"2\r\n{}{}\r\n0\r\n\r\n",
        "a chunk without its end": b"2\r\n{}0\r\n\r\n",
        "a chunk size without a line": b"\r\n{}\r\n0\r\n\r\n",
    }
    made += [WireAttack(kind, chunked + b"\r\n" + body, (400,)) for kind, body in chunks.items()]
    return made


def _hiding(head: bytes) -> bytes:
    """For a reader of lengths the second request is the body of the first."""
    body = b"0\r\n\r\n" + HIDDEN
    return head + b"Transfer-Encoding: chunked\r\nContent-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body


def _heads() -> list[WireAttack]:
    heads = {
        "a folded header": b"Host: a\r\nX-A: b\r\n c: d\r\n",
        "a folded first header": b" Host: a\r\n",
        "NUL in a header": b"Host: a\r\nX-A: b\0c\r\n",
        "a bare CR in a header": b"Host: a\r\nX-A: b\rX-C: d\r\n",
        "a header without a colon": b"Host: a\r\nX-A\r\n",
        "a header without a name": b"Host: a\r\n: b\r\n",
        "a header with a space in its name": b"Host: a\r\nX A: b\r\n",
        "a header name beyond ASCII": b"Host: a\r\nX-\xc3\xa9: b\r\n",
        "no Host": b"",
        "two Hosts": b"Host: a\r\nHost: b\r\n",
        "a head of a megabyte": b"Host: a\r\nX-A: " + b"a" * 1_000_000 + b"\r\n",
        "ten thousand headers": b"Host: a\r\n" + b"X-A: b\r\n" * 10_000,
    }
    allowed = {"a folded header": (400, 401), "a head of a megabyte": (400, 0), "ten thousand headers": (400, 401)}
    return [WireAttack(kind, ME + head + END, (*allowed.get(kind, (400,)), 431)) for kind, head in heads.items()]


def _targets() -> list[WireAttack]:
    """None of them is another way to something that needs a login."""
    host = b"Host: localhost\r\n" + END
    targets = {
        "an absolute target": b"http://localhost/api/v1/tokens",
        "an absolute target of another host": b"http://evil.example/api/v1/tokens",
        "no target": b"",
        "a star": b"*",
        "no slash": b"api/v1/tokens",
        "two slashes": b"//api/v1/tokens",
        "slashes inside": b"/api//v1///tokens",
        "a slash at the end": b"/api/v1/tokens/",
        "dots": b"/healthz/../api/v1/tokens",
        "escaped dots": b"/healthz/%2e%2e/api/v1/tokens",
        "twice escaped dots": b"/healthz/%252e%252e/api/v1/tokens",
        "an escaped slash": b"/api%2fv1%2ftokens",
        "an escaped letter": b"/api/v1/%74okens",
        "capitals": b"/API/V1/TOKENS",
        "a semicolon": b"/api/v1/tokens;x=y",
        "a semicolon before dots": b"/healthz/..;/api/v1/tokens",
        "a backslash": b"/healthz\\..\\api\\v1\\tokens",
        "NUL": b"/api/v1/tokens%00.html",
        "overlong UTF-8": b"/healthz/%c0%ae%c0%ae/api/v1/tokens",
        "a bad escape": b"/api/v1/%zztokens",
        "a fragment": b"/api/v1/tokens#x",
        "bytes beyond ASCII": b"/api/v1/tokens\xff",
        "a space": b"/api/v1/to kens",
        "a tab": b"/api/v1/tokens\tx",
        "100 KB": b"/api/v1/" + b"a" * 100_000,
        "a version from the future": b"/api/v1/tokens HTTP/9.9\r\nX:",
        "no version": b"/api/v1/tokens\r\nX:",
    }
    refused = (400, 401, 404, 405, 431)
    return [
        WireAttack(f"a target of {kind}", b"GET " + each + b" HTTP/1.1\r\n" + host, refused)
        for kind, each in targets.items()
    ]


def _methods() -> list[WireAttack]:
    host = b"Host: localhost\r\n" + END
    made = []
    for method in (
        b"TRACE",
        b"TRACK",
        b"CONNECT",
        b"PROPFIND",
        b"DEBUG",
        b"get",
        b"PRI",
        b"OPTIONS",
        b"HEAD",
        b"PATCH",
    ):
        for path in (b"/api/v1/tokens", b"/dashboard/jobs", b"/metrics"):
            text = method + b" " + path + b" HTTP/1.1\r\n" + host
            made.append(WireAttack(f"the method {method.decode()}", text, (400, 401, 404, 405)))
    made.append(WireAttack("a method with a space", b"GE T / HTTP/1.1\r\n" + host))
    made.append(WireAttack("a TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 40 + b"\r\n\r\n"))
    made.append(WireAttack("the preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\n", (400, 404, 405, 505)))
    made.append(WireAttack("a command of Redis", b"*1\r\n$8\r\nFLUSHALL\r\n\r\n"))
    made.append(WireAttack("a WebSocket", b"GET /dashboard/live HTTP/1.1\r\n" + WEBSOCKET, (400, 401, 303, 403, 426)))
    return made


WEBSOCKET = (
    b"Host: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
