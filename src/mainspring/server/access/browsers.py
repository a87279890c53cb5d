"""What keeps a browser that uses the dashboard apart from a web page that abuses it.

The cookie `mainspring_session` holds the credential that a user gave on the login page. Only routes of the dashboard
accept it; the API never does, so no other site can make a browser use the API. Forms carry a random token that must
equal the cookie `mainspring_form`, and browsers say in Origin and Sec-Fetch-Site which site a request comes from.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence

from starlette.requests import HTTPConnection

from ...core.access.local_requests import is_own_origin
from .principals import forbidden

SESSION = "mainspring_session"
FORM = "mainspring_form"
LONGEST_COOKIE = 3_800
"""Characters: browsers drop cookies of more than 4,096 bytes, with their name and attributes."""

_TOKEN = re.compile(r"[0-9a-f]{32}")


def cookie_of(connection: HTTPConnection, name: str) -> str:
    """The value of a cookie of ours, which never has a backslash in it; empty if there is none. Python takes quadratic
    time to read the backslashes of others."""
    for header in connection.headers.getlist("cookie"):
        for cookie in header.split(";"):
            found, _, value = cookie.partition("=")
            if found.strip() == name:
                return value.strip().removeprefix('"').removesuffix('"')
    return ""


def session_of(connection: HTTPConnection) -> str | None:
    """The credential in the cookie of a dashboard user."""
    return cookie_of(connection, SESSION) or None


def form_token_of(connection: HTTPConnection) -> str | None:
    """The token that forms of this browser carry; None if it has none yet."""
    found = cookie_of(connection, FORM)
    return found if _TOKEN.fullmatch(found) else None


def new_form_token() -> str:
    return secrets.token_hex(16)


def check_form(connection: HTTPConnection, token: str, names: Sequence[str] = ()) -> None:
    """Refuse a form that does not come from a page of this dashboard. `names` are further names of this host."""
    site = connection.headers.get("sec-fetch-site")
    if site is not None and site != "same-origin":
        raise forbidden("cross_site", "this form was sent by another web site")
    host = connection.headers.get("host", "")
    if any(not is_own_origin(origin, host, names) for origin in connection.headers.getlist("origin")):
        raise forbidden("cross_site", "this form was sent by another web site")
    known = form_token_of(connection)
    if known is None or not secrets.compare_digest(known.encode(), token.encode("utf-8", "replace")):
        raise forbidden("form_expired", "this form is out of date; load the page again and repeat what you did")
