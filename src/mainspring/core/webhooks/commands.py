"""Commands on endpoints: create, change, rotate, test. Every change is one compare-and-set with its audit record, which
never holds a secret."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, get_args

import msgspec

from ...model.errors import CommandRefused, InvalidValue, MainspringError, nearest
from ...model.execution import ExecutionRow, State
from ...model.store.entries import Entry, EntryWrite
from ...model.store.messages import Audit
from ...model.time.instants import Micros, maybe_datetime, seconds_to_micros, to_datetime
from ...model.values.access import Secret
from ...model.values.ids import Chance, random_id
from ...model.values.payload import presentable
from ...model.values.reading import choice, duration, identifier, is_identifier, words
from ...model.values.webhook_signatures import Scheme, checked_secret, new_secret, public_key
from ..auditing import audit_record
from ..filters.executions import execution_query
from ..loops import Emit
from ..ports import Store
from ..queries.queries import Queries
from ..rules import new_execution
from ..views.webhooks import NewWebhook, WebhookView
from . import delivering
from .endpoints import (
    KIND,
    MOST_ENDPOINTS,
    MOST_SECRETS,
    Endpoint,
    EndpointNotFound,
    EndpointSecret,
    Format,
    check_filter,
    check_url,
    endpoint_of,
    entry_of,
    masked_url,
)
from .events import TEST, check_events
from .hand_over import SYSTEM_JOB, EventHandOver, new_deliveries
from .payloads import WebhookEvent
from .subscriptions import Subscriptions

OVERLAP = 86_400.0
"""Seconds for which the old secret signs beside the new one."""
LONGEST_OVERLAP = 30 * 86_400.0
LONGEST_DESCRIPTION = 500
_FILTERS = ("jobs", "queues", "tenants")
FIELDS = ("url", "description", "events", *_FILTERS)
"""What an update can change."""


UNDELIVERED = frozenset({State.FAILED, State.CANCELLED})
PAGE = 500


class _Message(msgspec.Struct, frozen=True):
    """The parameters of a delivery without its body."""

    id: str
    event: str


class WebhookChanged(MainspringError):
    """The endpoint has changed since the caller saw it (`WebhookView.tag`)."""

    def __init__(self, id: str, seen: str, tag: str) -> None:
        super().__init__(id, seen, tag)
        self.id, self.seen, self.tag = id, seen, tag

    def __str__(self) -> str:
        return f"webhook {self.id!r} has changed since it was read: it was {self.seen}, now it is {self.tag}"


class Webhooks:
    def __init__(
        self,
        store: Store,
        subscriptions: Subscriptions,
        hand_over: EventHandOver,
        queries: Queries,
        chance: Chance,
        emit: Emit,
        mails: bool,
        private: bool,
    ) -> None:
        """`mails` says whether there is a server for e-mails; `private` is the setting `private_urls`."""
        self._store, self._subscriptions, self._hand_over = store, subscriptions, hand_over
        self._queries, self._chance, self._emit, self._mails = queries, chance, emit, mails
        self._private = private

    # --- reading ------------------------------------------------------------------------------------------
    async def all(self) -> list[WebhookView]:
        """Every endpoint, by id."""
        entries = await self._store.list_entries(KIND, "", limit=10 * MOST_ENDPOINTS)
        return [view(found) for entry in entries if (found := endpoint_of(entry)) is not None]

    async def get(self, id: str) -> WebhookView:
        return view(await self._read(id))

    async def deliveries(
        self, id: str, status: str | Iterable[str] | None = None, limit: int = 50, offset: int = 0
    ) -> list[ExecutionRow]:
        """What was and will be sent to an endpoint, newest first."""
        endpoint = await self._read(id)
        return await self._queries.executions(SYSTEM_JOB, status, tenant=endpoint.id, limit=limit, offset=offset)

    async def undelivered(self, id: str, since: Any, until: Any, limit: int) -> list[ExecutionRow]:
        """Of each message that never arrived and waits for no further try, its newest delivery; tests are left out.
        Newest first, so that a delivery that repeats another comes before it."""
        endpoint = await self._read(id)
        filters = {"job": SYSTEM_JOB, "tenant": endpoint.id, "since": since, "until": until}
        query = execution_query(await self._queries.execution_lists.filter(filters))
        until, query = query.created_to, msgspec.structs.replace(query, created_to=None, limit=PAGE)
        known: set[str] = set()
        found: list[ExecutionRow] = []
        while len(found) < limit and (page := await self._store.find(query)):
            for row in page:
                message = msgspec.json.decode(row.params, type=_Message)
                wanted = row.state in UNDELIVERED and message.event != TEST and (until is None or row.created < until)
                if wanted and message.id not in known:
                    found.append(row)
                known.add(message.id)
            query = msgspec.structs.replace(query, before=page[-1].id)
        return found[:limit]

    # --- changing -----------------------------------------------------------------------------------------
    async def create(
        self,
        url: str,
        *,
        id: str | None = None,
        format: str = "standard",
        scheme: str = "v1",
        secret: str | None = None,
        enabled: bool = True,
        by: str,
        **fields: Any,
    ) -> NewWebhook:
        """Without a `secret` a new one is made. The system job is created first, so that no delivery waits for it."""
        kind = _format(format)
        if kind == "email" and not self._mails:
            raise InvalidValue("format", "email", "'standard' or 'slack'", "For e-mails, set smtp_url")
        signs: Scheme = choice("scheme", scheme, get_args(Scheme))  # type: ignore[assignment]
        given = _secret(secret, signs) if kind == "standard" else None
        checked = _checked({"url": url, **fields}, kind, self._private)
        now = await self._store.now()
        endpoint = Endpoint(
            id=f"wh-{self._chance.randbytes(6).hex()}" if id is None else identifier("id", id),
            format=kind,
            scheme=signs,
            secrets=() if given is None else (_new(given, now),),
            enabled=_flag("enabled", enabled),
            disabled=None if enabled else now,
            created=now,
            created_by=words("by", by),
            **checked,
        )
        await self._refuse_more(endpoint.id)
        await self._hand_over.system_job()
        audit = self._audit("create", endpoint.id, by, now, after=_summary(endpoint))
        if not await self._write(endpoint, 0, audit):
            raise CommandRefused("create", "there", ["no webhook has that id"], f"webhook {endpoint.id!r}")
        return NewWebhook(await self.get(endpoint.id), None if given is None else Secret(given))

    async def update(self, id: str, changes: Mapping[str, Any], *, by: str, seen: str | None = None) -> WebhookView:
        """Change the named fields; None sets one back to its default."""
        for name in changes:
            if name not in FIELDS:
                guess = nearest(name, FIELDS)
                remedy = f"Did you mean {guess!r}?" if guess else ""
                raise InvalidValue("webhook", presentable(name), f"the fields {', '.join(FIELDS)}", remedy)

        def change(endpoint: Endpoint, now: Micros) -> Endpoint:
            fields = _checked(changes, endpoint.format, self._private)
            if fields.get("url", endpoint.url) != endpoint.url:
                fields["failing_since"] = None
            return msgspec.structs.replace(endpoint, **fields)

        return view(await self._change("update", id, by, change, seen))

    async def enable(self, id: str, *, by: str, seen: str | None = None) -> WebhookView:
        """Send to it again. What was cancelled while it was disabled is not sent by itself: retry it in bulk."""

        def change(endpoint: Endpoint, now: Micros) -> Endpoint:
            fields = {"disabled": None, "disabled_reason": None, "gave_up": False, "failing_since": None}
            return msgspec.structs.replace(endpoint, enabled=True, **fields)

        return view(await self._change("enable", id, by, change, seen))

    async def disable(self, id: str, *, reason: str | None = None, by: str, seen: str | None = None) -> WebhookView:
        """Send nothing to it any more, and cancel what waits for it."""
        why = f"disabled by {words('by', by)}" if reason is None else words("reason", reason, LONGEST_DESCRIPTION)

        def change(endpoint: Endpoint, now: Micros) -> Endpoint:
            disabled = endpoint.disabled if not endpoint.enabled else now
            return msgspec.structs.replace(
                endpoint, enabled=False, disabled=disabled, disabled_reason=why, gave_up=False
            )

        changed = await self._change("disable", id, by, change, seen)
        await delivering.cancel_waiting(self._store, id, f"webhook {id} was disabled: {why}", self._emit)
        return view(changed)

    async def rotate_secret(
        self, id: str, *, overlap: Any = OVERLAP, secret: str | None = None, by: str, seen: str | None = None
    ) -> NewWebhook:
        """A new secret. Messages are signed with both until `overlap` is over, so that a receiver can change in
        between."""
        lasts = duration("overlap", overlap, allow_zero=True)
        if lasts > LONGEST_OVERLAP:
            raise InvalidValue("overlap", presentable(overlap), "at most 30 days")
        made: list[str] = []

        def change(endpoint: Endpoint, now: Micros) -> Endpoint:
            if endpoint.format != "standard":
                state = f"of the format {endpoint.format}, which is not signed"
                raise CommandRefused("rotate", state, ["its format is standard"], f"webhook {endpoint.id!r}")
            made[:] = [_secret(secret, endpoint.scheme)]
            ends = now + seconds_to_micros(lasts)
            return msgspec.structs.replace(endpoint, secrets=_rotated(endpoint.secrets, made[0], now, ends))

        changed = await self._change("rotate_secret", id, by, change, seen)
        return NewWebhook(view(changed), Secret(made[0]))

    async def remove(self, id: str, *, by: str, seen: str | None = None) -> None:
        """Remove an endpoint and cancel what waits for it. The history of its deliveries stays."""
        while True:
            endpoint = await self._read(id, seen)
            now = await self._store.now()
            audit = self._audit("remove", id, by, now, before=_summary(endpoint))
            write = EntryWrite(entry=entry_of(endpoint), seen_version=endpoint.version, remove=True, audit=audit)
            if (await self._store.write_entries([write]))[0]:
                break
        await self._subscriptions.read_now()
        await delivering.cancel_waiting(self._store, id, f"webhook {id} was removed", self._emit)

    async def test(self, id: str, *, by: str) -> ExecutionRow:
        """Send a message of the type `webhook.test` now, once, also to an endpoint that is disabled."""
        endpoint, job, now = await self._read(id), await self._hand_over.system_job(), await self._store.now()
        data = {"webhook": endpoint.id, "message": "This is a test.", "sent_by": words("by", by)}
        event = WebhookEvent(TEST, now, random_id(now, self._chance), data)
        [made] = new_deliveries(job, event, [endpoint], now)
        row = msgspec.structs.replace(made, policy=new_execution.single_try(job), triggered_by=by)
        audit = self._audit("test", id, by, now, after=row.id)
        [added] = await self._store.add([row], [audit])
        self._subscriptions.on_handed_over()
        return added.execution or row

    # --- inside -------------------------------------------------------------------------------------------
    async def _change(self, command: str, id: str, by: str, change: Any, seen: str | None) -> Endpoint:
        while True:
            endpoint = await self._read(id, seen)
            now = await self._store.now()
            changed: Endpoint = change(endpoint, now)
            audit = self._audit(command, id, by, now, before=_summary(endpoint), after=_summary(changed))
            if await self._write(changed, endpoint.version, audit):
                return msgspec.structs.replace(changed, version=endpoint.version + 1)

    async def _read(self, id: str, seen: str | None = None) -> Endpoint:
        found = await self._store.entries(KIND, "", [id]) if is_identifier(id) else []
        endpoint = endpoint_of(found[0]) if found else None
        if endpoint is None:
            entries: list[Entry] = await self._store.list_entries(KIND, "", limit=10 * MOST_ENDPOINTS)
            raise EndpointNotFound(id, [entry.key for entry in entries])
        if seen is not None and seen != tag_of(endpoint):
            raise WebhookChanged(id, seen, tag_of(endpoint))
        return endpoint

    async def _refuse_more(self, id: str) -> None:
        known = [entry.key for entry in await self._store.list_entries(KIND, "", limit=10 * MOST_ENDPOINTS)]
        if len(known) >= MOST_ENDPOINTS and id not in known:
            allowed = f"at most {MOST_ENDPOINTS} webhooks"
            raise InvalidValue("webhook", id, allowed, "Remove one, or let one receiver serve several jobs")

    async def _write(self, endpoint: Endpoint, seen: int, audit: Audit) -> bool:
        write = EntryWrite(entry=entry_of(endpoint), seen_version=seen, audit=audit)
        won = (await self._store.write_entries([write]))[0]
        if won:
            await self._subscriptions.read_now()
        return won

    def _audit(self, command: str, id: str, by: str, now: Micros, **details: str) -> Audit:
        return audit_record(self._chance, f"{command}_webhook", f"webhook:{id}", by, now, **details)


def view(endpoint: Endpoint) -> WebhookView:
    newest = endpoint.secrets[0] if endpoint.secrets else None
    old = [secret.expires for secret in endpoint.secrets[1:] if secret.expires is not None]
    return WebhookView(
        id=endpoint.id,
        url=masked_url(endpoint.url),
        description=endpoint.description,
        events=endpoint.events,
        jobs=endpoint.jobs,
        queues=endpoint.queues,
        tenants=endpoint.tenants,
        format=endpoint.format,
        scheme=endpoint.scheme,
        enabled=endpoint.enabled,
        disabled_at=maybe_datetime(endpoint.disabled),
        disabled_reason=endpoint.disabled_reason,
        failing_since=maybe_datetime(endpoint.failing_since),
        created_at=to_datetime(endpoint.created),
        created_by=endpoint.created_by,
        secret_created_at=None if newest is None else to_datetime(newest.created),
        old_secret_until=maybe_datetime(max(old, default=None)),
        public_key=None if newest is None else newest.public,
        tag=tag_of(endpoint),
    )


def tag_of(endpoint: Endpoint) -> str:
    """Names one version of one endpoint; an endpoint created again under the same id has other tags."""
    return f"{endpoint.created:x}-{endpoint.version}"


def _format(value: Any) -> Format:
    return choice("format", value, get_args(Format))  # type: ignore[return-value]


def _checked(fields: Mapping[str, Any], format: Format, private: bool) -> dict[str, Any]:
    """The fields that were given. None stands for the default, where there is one."""
    checked: dict[str, Any] = {}
    for name, value in fields.items():
        match name:
            case "url":
                checked[name] = check_url(value, format, private)
            case "events":
                checked[name] = () if value is None else check_events(value)
            case "description":
                checked[name] = "" if value in (None, "") else words(name, value, LONGEST_DESCRIPTION)
            case _:
                checked[name] = () if value is None else check_filter(name, value)
    return checked


def _secret(given: str | None, scheme: Scheme) -> str:
    """A secret of the caller's own, or a new one."""
    if given is None:
        return new_secret(scheme)
    secret = checked_secret("secret", given)
    if not secret.startswith("whsec_" if scheme == "v1" else "whsk_"):
        allowed = f"a secret of the scheme {scheme}: {'whsec_...' if scheme == 'v1' else 'whsk_...'}"
        raise InvalidValue("secret", "********", allowed)
    return secret


def _rotated(secrets: tuple[EndpointSecret, ...], text: str, now: Micros, ends: Micros) -> tuple[EndpointSecret, ...]:
    """The new secret first. Expired secrets go; those that had an end keep it, unless the new end is sooner."""
    kept = [
        msgspec.structs.replace(each, expires=ends if each.expires is None else min(each.expires, ends))
        for each in secrets
        if each.expires is None or now < each.expires
    ]
    living = [each for each in kept if each.expires is not None and now < each.expires and each.text != text]
    return (_new(text, now), *living[: MOST_SECRETS - 1])


def _new(text: str, now: Micros) -> EndpointSecret:
    return EndpointSecret(text, now, public=public_key(text) if text.startswith("whsk_") else None)


def _flag(field: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise InvalidValue(field, presentable(value), "True or False")


def _summary(endpoint: Endpoint) -> str:
    """For the audit: the address by its host, the secrets by their number."""
    fields = {
        "url": masked_url(endpoint.url),
        "description": endpoint.description,
        "events": endpoint.events,
        "jobs": endpoint.jobs,
        "queues": endpoint.queues,
        "tenants": endpoint.tenants,
        "format": endpoint.format,
        "enabled": endpoint.enabled,
        "disabled_reason": endpoint.disabled_reason,
        "secrets": len(endpoint.secrets),
    }
    return msgspec.json.encode({name: value for name, value in fields.items() if value or name == "enabled"}).decode()
