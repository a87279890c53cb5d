"""Secrets inside addresses: found wherever they stand, so that no error, log or page shows one.

A secret is the password before the host, a user name that looks like a token, and the value of an option whose name
says so (`password`, `token`, `apikey` ...), in addresses of every scheme and in the key-value form of libpq. Names and
values may be percent-encoded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import unquote_plus

MASK = "***"

_WORDS = (
    r"passw(?:or)?d|pwd|passphrase|secret|token|api[-_.]?key|access[-_.]?key|account[-_.]?key|private[-_.]?key"
    r"|shared[-_.]?key|credential|signature"
)
_SECRET_NAME = re.compile(rf"{_WORDS}|^(?:pass|sig|key|auth|authorization|jwt|pat)$", re.IGNORECASE)
_NESTED = re.compile(rf"(?:{_WORDS})[\w.-]*\s*[=:]", re.IGNORECASE)
"""A secret inside the value of an option, such as authMechanismProperties=AWS_SESSION_TOKEN:..."""
_PASSWORD_MARK = re.compile(r"(:|%3A)", re.IGNORECASE)
_HOST = re.compile(r"[^:]*(:\d+)?(/[^:]*)?")
_OPTIONS = re.compile(r"\?(?=[^?=@]+=|[^@]*$)")
"""What begins with a name, or has no @ after it: any other question mark is part of a password."""
_KEY_VALUE = re.compile(r"\s*\w+\s*=")
_OPTION = re.compile(r"(?P<name>[^?&;#\s=/@,]+)(?P<mark>\s*=\s*)(?P<value>'(?:[^'\\]|\\.)*'|[^&;#\s]*)")
_LIKE_A_TOKEN = re.compile(r"(?=[^\d]*\d)(?=.*[A-Za-z])[\w.~+-]{20,}|(?:gh[a-z]_|github_pat_|glpat-|sk-|xox|eyJ).+")


def without_password(url: str) -> str:
    """The address with every secret in it replaced.

    >>> without_password("postgresql://app:secret@localhost/jobs?sslpassword=x&options=-c%20a%3Db")
    'postgresql://app:***@localhost/jobs?sslpassword=***&options=-c%20a%3Db'
    >>> without_password("mongodb://h/?authMechanismProperties=AWS_SESSION_TOKEN:abc&ap%69key=1")
    'mongodb://h/?authMechanismProperties=***&ap%69key=***'
    """
    return _masked(url)[0]


def without_secrets_of(url: object, text: str) -> str:
    """An error of a driver without the secrets of the address that it is about: some drivers quote what they cannot
    read.

    >>> without_secrets_of("postgresql://app:se%zz@h/jobs", 'invalid percent-encoded token: "se%zz"')
    'invalid percent-encoded token: "***"'
    """
    found = _masked(url)[1] if isinstance(url, str) else set()
    for secret in sorted(found | {unquote_plus(each) for each in found}, key=len, reverse=True):
        text = text.replace(secret, MASK) if secret.strip() else text
    return text


def _masked(url: str) -> tuple[str, set[str]]:
    """The address without its secrets, and the secrets."""
    secrets: set[str] = set()

    def hide(secret: str) -> str:
        secrets.add(secret.strip("'"))
        return MASK

    def option(found: re.Match[str]) -> str:
        value = _decoded(found["value"])
        if not value or not (_SECRET_NAME.search(_decoded(found["name"])) or _NESTED.search(value)):
            return found[0]
        return found["name"] + found["mark"] + hide(found["value"])

    scheme, mark, rest = url.partition("://") if "://" in url else ("", "", url)
    user, at, rest = _split_user(rest)
    return scheme + mark + _masked_user(user, hide) + at + _OPTION.sub(option, rest), secrets


def _split_user(rest: str) -> tuple[str, str, str]:
    """What stands before the host, the @, and all behind it. A password may contain any character, though it should
    not; the @ of an option belongs to the option."""
    options = _OPTIONS.search(rest)
    before_options = rest if options is None else rest[: options.start()]
    if "@" not in rest or _KEY_VALUE.match(rest) or ("@" not in before_options and _HOST.fullmatch(before_options)):
        return "", "", rest
    user, at, _ = before_options.rpartition("@") if "@" in before_options else rest.rpartition("@")
    return user, at, rest[len(user) + 1 :]


def _masked_user(text: str, hide: Callable[[str], str]) -> str:
    user, mark, password = _PASSWORD_MARK.split(text, maxsplit=1) if _PASSWORD_MARK.search(text) else (text, "", "")
    shown = hide(user) if _LIKE_A_TOKEN.fullmatch(user) else user
    return shown + mark + (hide(password) if mark else "")


def _decoded(text: str) -> str:
    """Without percent-encoding, even if it was encoded twice."""
    while (decoded := unquote_plus(text)) != text:
        text = decoded
    return text
