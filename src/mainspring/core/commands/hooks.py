"""Incoming hooks: a signed request of another system triggers a job, once for each delivery.

A hook is a stored entry with the job, the style of the signature and the secrets. Its secrets must be stored as they
are, because the signature is computed from them; they are shown once and never again. The sender's id of a delivery is
kept for some days: a delivery that comes again gets the answer of the first one, and its execution has an id that
follows from it, so that a crash between the two steps does not run the job twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Literal, get_args

import msgspec

from ...model.errors import AlreadyRunning, CommandRefused, InvalidValue, NotFound, one_of
from ...model.execution import ExecutionRow, State
from ...model.store.entries import Entry, EntryWrite
from ...model.time.instants import SECOND, Micros, maybe_datetime, to_datetime
from ...model.values.access import HIDDEN, Secret
from ...model.values.ids import Chance
from ...model.values.json_text import read_json
from ...model.values.reading import SYSTEM_PREFIX, choice, duration, identifier, words
from ...model.values.webhook_signatures import HasItems, Received, Style, checked_secret, new_secret, received
from ..auditing import audit_record
from ..declaring.signature import Signature
from ..jobs.job_cache import JobCache
from ..ports import Clock, Store
from ..views.execution import row_of
from .idempotency import Answer, Idempotency, StillAtWork
from .job_creation import Creation
from .trigger import ManualRuns

KIND: Literal["hook"] = "hook"
MOST = 100
MOST_SECRETS = 5
OVERLAP = "24h"
"""How long a secret stays valid after it was replaced."""
LONGEST_OVERLAP = 30 * 86_400.0
DELIVERIES_KEPT = 4 * 86_400 * SECOND
"""Longer than senders go on: Standard Webhooks, GitHub and Stripe give up within about three days."""
FRESH_FOR = 2.0
"""Seconds for which hooks are cached, so that requests of strangers cost no round trip to the database."""
PARAMETERS = ("payload", "event", "delivery")


class HookNotFound(NotFound):
    noun = "hook"


class _StoredSecret(msgspec.Struct, frozen=True, omit_defaults=True):
    text: str
    created: Micros
    expires: Micros | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(created={self.created}, expires={self.expires})"


class _Hook(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of the entry. `passed` are the parameters that the handler took when the hook was set, for processes
    that do not know the handler; the newest secret comes first."""

    job: str
    style: Style
    secrets: tuple[_StoredSecret, ...]
    passed: tuple[str, ...]
    created: Micros
    updated: Micros
    by: str
    enabled: bool = True

    def valid_secrets(self, now: Micros) -> tuple[_StoredSecret, ...]:
        return tuple(each for each in self.secrets if each.expires is None or each.expires > now)


class SecretView(msgspec.Struct, frozen=True):
    """A secret that is accepted, without its text."""

    created_at: datetime
    """When it was added."""
    expires_at: datetime | None
    """When it is no longer accepted; None until it is replaced."""


class HookView(msgspec.Struct, frozen=True, kw_only=True):
    """An incoming hook as users see it, without its secrets."""

    name: str
    """Its name."""
    job: str
    """The job that it triggers."""
    style: Style
    """How requests are signed: `standard`, `github` or `stripe`."""
    enabled: bool
    """Whether it accepts requests."""
    path: str
    """The path that other systems send requests to."""
    secrets: list[SecretView]
    """The secrets that are accepted, without their text."""
    created_at: datetime
    """When it was created."""
    updated_at: datetime
    """When it was changed."""
    by: str
    """Who changed it."""


class HookWithSecret(msgspec.Struct, frozen=True):
    """A hook that was just set, with the secret if a new one was generated: it is never available again."""

    hook: HookView
    """The hook."""
    secret: Secret | None
    """The secret that was generated; None if there is no new one."""


class Delivered(msgspec.Struct, frozen=True, omit_defaults=True):
    """The execution that a delivery made, and its state then. `repeated` if the delivery had come before."""

    execution_id: str
    status: State
    repeated: bool = False


class Hooks:
    def __init__(
        self, store: Store, clock: Clock, chance: Chance, creation: Creation, jobs: JobCache, runs: ManualRuns
    ) -> None:
        self._store, self._clock, self._chance = store, clock, chance
        self._creation, self._jobs, self._runs = creation, jobs, runs
        self.deliveries = Idempotency(store, clock, "delivery", DELIVERIES_KEPT)
        self._cached: dict[str, _Hook] = {}
        self._fresh_until = 0.0

    # --- reading ------------------------------------------------------------------------------------------
    async def all(self) -> list[HookView]:
        """Every hook, by name."""
        found, now = await self._all(), await self._store.now()
        return [_view(name, hook, now) for name, hook in found.items()]

    async def get(self, name: str) -> HookView:
        return _view(name, (await self._read(name))[0], await self._store.now())

    async def _all(self) -> dict[str, _Hook]:
        entries = await self._store.list_entries(KIND, "", limit=MOST)
        return {entry.key: hook for entry in entries if (hook := entry.read(_Hook)) is not None}

    async def _read(self, name: str) -> tuple[_Hook, int]:
        found = next(iter(await self._store.entries(KIND, "", [name])), None)
        hook = None if found is None else found.read(_Hook)
        if found is None or hook is None:
            raise HookNotFound(name, await self._all())
        return hook, found.version

    # --- changing -----------------------------------------------------------------------------------------
    async def set(
        self,
        name: str,
        job: str,
        *,
        style: str = "standard",
        secret: str | None = None,
        enabled: bool = True,
        by: str,
    ) -> HookWithSecret:
        """Store a hook under this name, in place of one that is there, whose secrets stay if no other is given."""
        identifier("name", name)
        kind: Any = choice("style", style, get_args(Style))
        if not isinstance(enabled, bool):
            raise InvalidValue("enabled", enabled, "true or false")
        given = None if secret is None else _checked(secret, kind)
        passed = await self._passed(job, PARAMETERS[:1])
        while True:
            old, version = await self._old(name)
            now = await self._store.now()
            kept = () if old is None or old.style != kind else old.valid_secrets(now)
            text = given if given is not None or kept else _generated(kind)
            secrets = kept if text is None else (_StoredSecret(text, now),)
            created = now if old is None else old.created
            hook = _Hook(job, kind, secrets, passed, created, now, words("by", by), enabled)
            if await self._put("set", name, old, hook, version, now):
                shown = text if given is None and text is not None else None
                return HookWithSecret(_view(name, hook, now), None if shown is None else Secret(shown))

    async def rotate_secret(
        self, name: str, secret: str | None = None, *, overlap: Any = OVERLAP, by: str
    ) -> HookWithSecret:
        """Add a secret. Those before it stay valid for `overlap`, so that the sender can change over in between."""
        while True:
            old, version = await self._read(name)
            text = _generated(old.style) if secret is None else _checked(secret, old.style)
            seconds = duration("overlap", overlap, allow_zero=True)
            if seconds > LONGEST_OVERLAP:
                raise InvalidValue("overlap", overlap, "at most 30 days")
            now = await self._store.now()
            end = now + round(seconds * SECOND)
            earlier = [
                msgspec.structs.replace(each, expires=end if each.expires is None else min(each.expires, end))
                for each in old.valid_secrets(now)
            ]
            secrets = (_StoredSecret(text, now), *(each for each in earlier if (each.expires or 0) > now))
            hook = msgspec.structs.replace(old, secrets=secrets[:MOST_SECRETS], updated=now, by=words("by", by))
            if await self._put("rotate_secret", name, old, hook, version, now):
                return HookWithSecret(_view(name, hook, now), Secret(text) if secret is None else None)

    async def remove(self, name: str, *, by: str) -> None:
        while True:
            old, version = await self._read(name)
            now = await self._store.now()
            audit = audit_record(self._chance, "remove", f"hook:{name}", by, now, before=_summary(old))
            gone = EntryWrite(entry=Entry(kind=KIND, key=name), seen_version=version, remove=True, audit=audit)
            if (await self._store.write_entries([gone]))[0]:
                self._fresh_until = 0.0
                return

    async def _old(self, name: str) -> tuple[_Hook | None, int]:
        try:
            return await self._read(name)
        except HookNotFound:
            if len(await self._store.list_entries(KIND, "", limit=MOST)) >= MOST:
                state = f"one of {MOST} hooks"
                raise CommandRefused("set", state, ["another one is removed"], f"hook {name!r}") from None
            return None, 0

    async def _put(self, action: str, name: str, old: _Hook | None, hook: _Hook, version: int, now: Micros) -> bool:
        before = None if old is None else _summary(old)
        audit = audit_record(self._chance, action, f"hook:{name}", hook.by, now, before=before, after=_summary(hook))
        entry = Entry(kind=KIND, key=name, body=msgspec.json.encode(hook).decode())
        self._fresh_until = 0.0
        return (await self._store.write_entries([EntryWrite(entry=entry, seen_version=version, audit=audit)]))[0]

    async def _passed(self, job: str, unknown: tuple[str, ...]) -> tuple[str, ...]:
        """The parameters that the job's handler takes from a delivery; `unknown` in a process without its code."""
        if identifier("job", job).startswith(SYSTEM_PREFIX):
            raise InvalidValue(
                "job", job, "a job of the application", f"{SYSTEM_PREFIX}* are jobs of Mainspring itself"
            )
        found = await self._jobs.read(job)
        signature = self._creation.signature(found.spec.handler)
        return unknown if signature is None else passed_to(signature, job, found.spec.params)

    # --- receiving ----------------------------------------------------------------------------------------
    async def receive(self, name: str, body: bytes, headers: HasItems | Iterable[tuple[str, str]]) -> Received:
        """The delivery, if a secret of the hook signed it; raises `WebhookError` or `HookNotFound` otherwise."""
        hook, now = await self._hook(name), self._clock.now()
        secrets = [each.text for each in hook.valid_secrets(now)]
        found = received(body, headers, secrets, now / SECOND, hook.style, read=partial(read_json, "body"))
        if not hook.enabled:
            raise CommandRefused("trigger", "disabled", ["enabled"], f"hook {name!r}")
        return found

    async def deliver(self, name: str, delivery: Received) -> Delivered:
        """Trigger the job of the hook, or return what became of this delivery when it came before. A refusal that made
        no execution frees the delivery, so that it may succeed when it comes again."""
        try:
            begun = await self.deliveries.begin(f"hook:{name}", delivery.delivery, KIND)
        except StillAtWork:
            state, subject = "being accepted by another request", f"delivery {delivery.delivery!r}"
            raise CommandRefused("accept", state, ["that one was answered"], subject) from None
        if isinstance(begun, Answer):
            return msgspec.structs.replace(msgspec.json.decode(begun.body, type=Delivered), repeated=True)
        try:
            made = await self._trigger(name, delivery, begun.execution_id)
        except (CommandRefused, InvalidValue, NotFound):
            await self.deliveries.forget(begun)
            raise
        done = Delivered(made.id, made.state)
        await self.deliveries.finish(begun, Answer(202, msgspec.json.encode(done).decode()))
        return done

    async def _trigger(self, name: str, delivery: Received, id: str) -> ExecutionRow:
        """An overlap policy that admits no second execution makes it a skipped one."""
        hook = await self._hook(name)
        parts: Mapping[str, Any] = {
            "payload": delivery.payload,
            "event": delivery.event,
            "delivery": delivery.delivery,
        }
        params = {each: parts[each] for each in await self._passed(hook.job, hook.passed)}
        try:
            return await self._runs.trigger(hook.job, params, by=f"hook:{name}", trigger="api", id=id)
        except AlreadyRunning as skipped:
            return row_of(skipped.execution)

    async def _hook(self, name: str) -> _Hook:
        if self._clock.monotonic() >= self._fresh_until:
            until = self._clock.monotonic() + FRESH_FOR
            self._cached, self._fresh_until = await self._all(), until
        if name not in self._cached:
            raise HookNotFound(name)
        return self._cached[name]


def passed_to(signature: Signature, job: str, preset: Mapping[str, Any]) -> tuple[str, ...]:
    """Which parts of a delivery the handler takes; refused if it does not take the payload, or needs more than the
    delivery and the job's own parameters give."""
    names = {each.name for each in signature.parameters.fields}
    taken = tuple(name for name in PARAMETERS if signature.parameters.open or name in names)
    if PARAMETERS[0] not in taken:
        remedy = f"Give the handler a parameter payload; it takes {signature}"
        raise InvalidValue("job", job, "a job whose handler takes the parameter payload", remedy)
    missing = [name for name in signature.required if name not in taken and name not in preset]
    if missing:
        remedy = "Give them defaults, or set them as params of the job"
        raise InvalidValue(
            "job",
            job,
            f"a job whose handler needs no more than {one_of(PARAMETERS)}: it needs {', '.join(missing)}",
            remedy,
        )
    return taken


def _checked(secret: str, style: Style) -> str:
    if isinstance(secret, str) and secret.startswith("whsk_"):
        remedy = "A receiver needs no more than that; the private key stays with the sender"
        raise InvalidValue("secret", HIDDEN, "the public key, which begins with whpk_", remedy)
    return checked_secret("secret", secret, style)


def _generated(style: Style) -> str:
    if style == "stripe":
        raise InvalidValue("secret", None, "the secret that Stripe shows for the endpoint, which begins with whsec_")
    return new_secret()


def _view(name: str, hook: _Hook, now: Micros) -> HookView:
    return HookView(
        name=name,
        job=hook.job,
        style=hook.style,
        enabled=hook.enabled,
        path=f"/hooks/{name}",
        secrets=[SecretView(to_datetime(one.created), maybe_datetime(one.expires)) for one in hook.valid_secrets(now)],
        created_at=to_datetime(hook.created),
        updated_at=to_datetime(hook.updated),
        by=hook.by,
    )


def _summary(hook: _Hook) -> str:
    """For the audit: everything but the secrets."""
    fields = {"job": hook.job, "style": hook.style, "enabled": hook.enabled, "secrets": len(hook.secrets)}
    return msgspec.json.encode(fields).decode()
