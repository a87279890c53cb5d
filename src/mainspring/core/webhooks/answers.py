"""What the answer of a receiver means: pure rules."""

from __future__ import annotations

import re
from datetime import UTC
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec

from ...model.time.instants import SECOND, Micros, to_micros
from ..ports import HttpAnswer

LONGEST_WAIT = 86_400.0
"""Seconds: no receiver may ask for more."""
SHOWN = 1_024
"""Characters of an answer that are kept."""
SECRET_FROM = 8
"""Characters: shorter pieces of an address are no secrets."""
GONE = 410
_MAY_ASK_FOR_TIME = (429, 503)


class Verdict(NamedTuple):
    """`delay` is how long the receiver wants us to wait."""

    kind: Literal["delivered", "gone", "failed"]
    error: str = ""
    delay: float = 0.0


def judge(answer: HttpAnswer, now: Micros) -> Verdict:
    """Only 2xx is a success. A redirect is a failure: it is never followed, because it could lead anywhere."""
    if 200 <= answer.status < 300:
        return Verdict("delivered")
    text = excerpt(answer, 200)
    error = f"the receiver answered {answer.status}" + (f": {text}" if text else "")
    if answer.status == GONE:
        return Verdict("gone", error)
    asked = answer.headers.get("retry-after") if answer.status in _MAY_ASK_FOR_TIME else None
    return Verdict("failed", error, 0.0 if asked is None else wished_delay(asked, now))


def without_address(answer: HttpAnswer, url: str) -> HttpAnswer:
    """Error pages repeat the path that was asked for, and the path may be a secret.

    >>> page = HttpAnswer(404, {}, b"Cannot POST /services/T0/B0/x7dkq02mfj")
    >>> without_address(page, "https://chat.example/services/T0/B0/x7dkq02mfj").body
    b'Cannot POST /.../T0/B0/...'
    """
    parts, body = urlsplit(url), answer.body
    pieces = {piece for piece in re.split(r"[/?&=;,]", f"{parts.path}?{parts.query}") if len(piece) >= SECRET_FROM}
    for piece in sorted(pieces, key=len, reverse=True):
        body = body.replace(piece.encode(), b"...")
    return answer if body == answer.body else msgspec.structs.replace(answer, body=body)


def excerpt(answer: HttpAnswer, limit: int = SHOWN) -> str:
    """The beginning of the answer's body as text that is safe to store and to print on a terminal."""
    text = answer.body[:limit].decode("utf-8", "replace").strip()
    return "".join(char if char.isprintable() or char == "\n" else "\ufffd" for char in text)


def wished_delay(text: str, now: Micros) -> float:
    """The seconds that a `Retry-After` header asks for, as a number or a date; 0 for anything else.

    >>> from mainspring.model.time.instants import to_micros
    >>> wished_delay("120", 0), wished_delay("99999999", 0), wished_delay("soon", 0), wished_delay("-5", 0)
    (120.0, 86400.0, 0.0, 0.0)
    >>> wished_delay("Thu, 01 Jan 1970 00:01:30 GMT", 30_000_000)
    60.0
    """
    text = text.strip()
    if text.isascii() and text.isdigit():
        seconds = float(text[:12])
    else:
        from email.utils import parsedate_to_datetime  # hardly any receiver sends a date

        try:
            at = parsedate_to_datetime(text)
            seconds = (to_micros(at if at.tzinfo is not None else at.replace(tzinfo=UTC)) - now) / SECOND
        except (ValueError, TypeError, OverflowError):
            return 0.0
    return min(max(seconds, 0.0), LONGEST_WAIT)
