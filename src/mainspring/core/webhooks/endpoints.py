"""Endpoints: where webhooks are sent, which events each one wants, and the secrets that sign them.

An endpoint is an entry of the kind `webhook`. It holds its secrets in plain text, because every message has to be
signed with them: nothing but the sending of a message reads them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

from ...model.errors import InvalidValue, NotFound
from ...model.store.entries import Entry
from ...model.time.instants import SECOND, Micros
from ...model.values.address_classes import address_class, may_reach, written_address
from ...model.values.payload import presentable
from ...model.values.reading import identifier, words
from ...model.values.web_address import NOT_SHOWN, host_of, web_address
from ...model.values.webhook_signatures import Scheme

Format: TypeAlias = Literal["standard", "slack", "email"]

KIND: Literal["webhook"] = "webhook"
MOST_ENDPOINTS = 100
MOST_FILTERS = 100
MOST_SECRETS = 5
GIVE_UP_AFTER: Micros = 5 * 86_400 * SECOND
"""An endpoint that has only failed for so long is disabled."""
_ADDRESS = re.compile(r"[^\s@:/?#<>,;\"]{1,64}@[A-Za-z0-9.-]{1,255}")


class EndpointNotFound(NotFound):
    noun = "webhook"


class EndpointSecret(msgspec.Struct, frozen=True, omit_defaults=True):
    """`expires` is set when a newer secret takes its place. `public` is the public half of a secret of the scheme
    `v1a`."""

    text: str
    created: Micros
    expires: Micros | None = None
    public: str | None = None

    def __repr__(self) -> str:
        return f"EndpointSecret(created={self.created}, expires={self.expires})"


class Endpoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Secrets are sorted newest first. `failing_since` is set by the first failure after a success; `gave_up` says that
    the endpoint was disabled because of its receiver, and not by an operator."""

    id: str
    url: str
    description: str = ""
    events: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    format: Format = "standard"
    scheme: Scheme = "v1"
    secrets: tuple[EndpointSecret, ...] = ()
    enabled: bool = True
    created: Micros
    created_by: str
    disabled: Micros | None = None
    disabled_reason: str | None = None
    gave_up: bool = False
    failing_since: Micros | None = None
    version: int = 0

    def __repr__(self) -> str:
        return f"Endpoint(id={self.id!r}, url={masked_url(self.url)!r})"

    def wants_event(self, event: str) -> bool:
        """Whether it subscribes to events of this name; without names, to all."""
        return not self.events or event in self.events

    def lets_through(self, job: str, queue: str, tenant: str | None) -> bool:
        """Whether its filters let through what happened to this job. Without a tenant, no filter on tenants does."""
        return (
            (not self.jobs or job in self.jobs)
            and (not self.queues or queue in self.queues)
            and (not self.tenants or tenant in self.tenants)
        )

    @property
    def is_for_people(self) -> bool:
        """Whether people read its messages, in a chat or as mail. They do not hear of failures whose error is muted."""
        return self.format != "standard"

    def signing_secrets(self, now: Micros) -> list[str]:
        """The secrets in force, newest first."""
        return [secret.text for secret in self.secrets if secret.expires is None or now < secret.expires]

    def gives_up(self, now: Micros) -> bool:
        """Whether it has only failed for too long."""
        return self.failing_since is not None and now - self.failing_since >= GIVE_UP_AFTER


def endpoint_of(entry: Entry) -> Endpoint | None:
    """None for an endpoint that this release cannot read: a node of the newer release serves it."""
    found = entry.read(Endpoint)
    return None if found is None else msgspec.structs.replace(found, version=entry.version)


def entry_of(endpoint: Endpoint) -> Entry:
    body = msgspec.json.encode(msgspec.structs.replace(endpoint, version=0)).decode()
    return Entry(kind=KIND, key=endpoint.id, body=body)


def masked_url(url: str) -> str:
    """The part of an address that is not a secret: path and query often hold a token.

    >>> masked_url("https://hooks.example.com:8443/services/T0/B0/x?key=1"), masked_url("mailto:ops@example.com")
    ('https://hooks.example.com:8443/...', 'mailto:...@example.com')
    """
    if url.startswith("mailto:"):
        return f"mailto:...@{url.rpartition('@')[2]}"
    return f"{urlsplit(url).scheme}://{host_of(url)}/..."


def check_url(url: Any, format: Format, private: bool) -> str:
    """An address to send to; `private` is the setting `private_urls`. Errors never show more of it than its host: the
    rest may be a secret. Names are looked up and checked when a message is sent."""
    if format != "email":
        return _reachable(web_address("url", url), private)
    address = url.removeprefix("mailto:") if isinstance(url, str) and url.startswith("mailto:") else ""
    if not _ADDRESS.fullmatch(address):
        raise InvalidValue("url", NOT_SHOWN, "mailto: and one address, such as mailto:ops@example.com")
    return f"mailto:{address}"


def _reachable(url: str, private: bool) -> str:
    found = written_address(urlsplit(url).hostname or "")
    if found is not None and not may_reach(found, private):
        remedy = "" if private else "To send webhooks into your own network, set private_urls = true"
        raise InvalidValue("url", host_of(url), f"a public address; this one is {address_class(found)}", remedy)
    return url


def check_filter(field: str, value: Any) -> tuple[str, ...]:
    """Names to restrict an endpoint to; none for all. Tenants are free text."""
    given = (value,) if isinstance(value, str) else value
    if not isinstance(given, Iterable):
        raise InvalidValue(field, presentable(value), "a list of names")
    check = words if field == "tenants" else identifier
    names = tuple(dict.fromkeys(check(field, name) for name in given))
    if len(names) > MOST_FILTERS:
        raise InvalidValue(field, len(names), f"at most {MOST_FILTERS} names")
    return names
