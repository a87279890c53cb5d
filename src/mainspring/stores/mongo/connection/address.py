"""What an address says: which server, which database, and what our collections are called.

>>> parse_address("mongodb://localhost/app?prefix=jobs").collections
'jobs'
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import msgspec
from pymongo.errors import ConfigurationError, InvalidURI
from pymongo.uri_parser import parse_uri

from ....model.errors import InvalidValue
from ....model.values.database_url import without_password

DEFAULT_DATABASE = "mainspring"
DEFAULT_PREFIX = "mainspring"
_PREFIX = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,50}")

OPTIONS: dict[str, Any] = {
    "appname": "mainspring",
    "retryWrites": True,
    "retryReads": True,
    "heartbeatFrequencyMS": 2_000,  # how often a server is asked who it is: a new primary is known within this
    "connectTimeoutMS": 5_000,
    "serverSelectionTimeoutMS": 10_000,  # an election takes up to that long; who waits for it is not told of an error
    "socketTimeoutMS": 30_000,  # a line that has fallen silent is given up
    "maxPoolSize": 20,
}
"""What is asked of the driver unless the address says otherwise."""


class Address(msgspec.Struct, frozen=True):
    """`url` is for the driver; `options` are those the address does not give itself."""

    url: str
    database: str
    collections: str
    options: dict[str, Any]
    name: str


def parse_address(url: str, prefix: str | None = None) -> Address:
    """Our own option is taken out of the query; the rest goes to the driver as it is."""
    plain, _, text = url.partition("?")
    query = parse_qsl(text, keep_blank_values=True)
    ours = {name: value for name, value in query if name == "prefix"}
    rest = urlencode([(name, value) for name, value in query if name != "prefix"], quote_via=quote, safe=":,")
    driver_url = f"{plain}?{rest}" if rest else plain
    given = {name.lower() for name, _ in query}
    return Address(
        url=driver_url,
        database=_database(driver_url, plain),
        collections=checked_prefix(prefix or ours.get("prefix", DEFAULT_PREFIX)),
        options={name: value for name, value in OPTIONS.items() if name.lower() not in given},
        name=without_password(driver_url),
    )


def checked_prefix(prefix: str) -> str:
    if _PREFIX.fullmatch(prefix) is None:
        raise InvalidValue("prefix", prefix, "letters, digits and underscores, at most 51, no digit first")
    return prefix


def _database(url: str, plain: str) -> str:
    """The name after the hosts. An address of DNS records is only looked up when the driver connects."""
    if plain.startswith("mongodb+srv://"):
        return plain.partition("://")[2].partition("/")[2] or DEFAULT_DATABASE
    try:
        return parse_uri(url, warn=False)["database"] or DEFAULT_DATABASE
    except (InvalidURI, ConfigurationError, ValueError) as error:
        allowed = "an address such as mongodb://host:27017/name"
        raise InvalidValue("database_url", without_password(url), allowed, str(error)) from None
