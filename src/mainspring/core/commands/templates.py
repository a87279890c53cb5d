"""Job templates: a handler with options under a name, from which jobs are created.

A template is a stored entry. It keeps the given options only, checked and in the form in which a job stores them; jobs
created from it get the usual defaults for the rest. Later changes of the template do not touch them. The metadata of a
job names its template.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Any, Literal

import msgspec

from ...model.errors import CommandRefused, InvalidValue, NotFound
from ...model.execution import ExecutionRow
from ...model.job import JobSpec
from ...model.store.entries import Entry, EntryWrite
from ...model.store.messages import Audit
from ...model.time.instants import Micros, to_datetime, to_micros
from ...model.triggers import Trigger, decode_trigger
from ...model.values.ids import Chance
from ...model.values.reading import identifier, is_identifier, own_name
from ..auditing import audit_record
from ..declaring.job_specs import check_editable, edited_fields, with_whole_interval
from ..declaring.options import OPTIONS, joined_secrets
from ..ports import Store
from ..rules.secret_params import hide, mask_fields, mask_fields_pair, union
from ..views.job import JobView
from .job_creation import Creation
from .steering import Check

KIND: Literal["template"] = "template"
MOST = 1_000
PAGE = 50
ORIGIN = "template"
"""The field of a job's metadata that names its template."""
_TRIGGERS = frozenset(name for name, option in OPTIONS.items() if option.field == "trigger")


class TemplateNotFound(NotFound):
    noun = "template"


class _TemplateBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of the entry."""

    handler: str
    fields: dict[str, Any]
    created: Micros
    updated: Micros
    by: str


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """A named set of a handler and job options, from which you create jobs."""

    name: str
    """Its name."""
    handler: str
    """The handler of the jobs that are created from it."""
    fields: dict[str, Any]
    """The options that it sets, as plain data."""
    created_at: datetime
    """When it was created."""
    updated_at: datetime
    """When it was changed."""
    by: str
    """Who changed it."""
    version: int
    """How often it was changed."""
    secret: tuple[str, ...] = ()
    """Paths into its parameters whose values are not shown: its own, and those of its handler."""

    @property
    def spec(self) -> JobSpec:
        """The options as the specification of a job."""
        return msgspec.convert({"handler": self.handler, **self.fields}, JobSpec)

    @property
    def options(self) -> dict[str, Any]:
        """The fields as options of a job."""
        options = {field: getattr(self.spec, field) for field in self.fields}
        return options if self.trigger is None else options | {"trigger": self.trigger}

    @property
    def trigger(self) -> Trigger | None:
        """When the jobs that are created from it are due; None if the template has no trigger."""
        encoded = self.fields.get("trigger")
        return None if encoded is None else decode_trigger(encoded)


class Templates:
    def __init__(self, store: Store, chance: Chance, creation: Creation) -> None:
        self._store, self._chance, self._creation = store, chance, creation

    # --- reading ------------------------------------------------------------------------------------------
    async def all(self) -> list[Template]:
        """Every template, by name."""
        return [template async for template in self.each()]

    async def each(self) -> AsyncIterator[Template]:
        """Every template, by name, one at a time: their parameters can be large."""
        secrets: dict[str, tuple[str, ...]] = {}
        async for entry in self._entries():
            yield await self._read(entry, secrets)
            await asyncio.sleep(0)  # large parameters take milliseconds to read

    async def get(self, name: str) -> Template:
        found = await self._store.entries(KIND, "", [name]) if is_identifier(name) else []
        if not found:
            raise TemplateNotFound(name, [entry.key async for entry in self._entries()])
        return await self._read(found[0], {})

    async def _entries(self) -> AsyncIterator[Entry]:
        after = ""
        while page := await self._store.list_entries(KIND, "", after=after, limit=PAGE):
            for entry in page:
                yield entry
            after = page[-1].key

    async def _read(self, entry: Entry, secrets: dict[str, tuple[str, ...]]) -> Template:
        """Its handler may have got secrets since it was written; `secrets` keeps those that were read."""
        found = _read(entry)
        if found.handler not in secrets:
            secrets[found.handler] = await self._creation.secrets_of(found.handler)
        return msgspec.structs.replace(found, secret=union(found.secret, secrets[found.handler]))

    # --- writing ------------------------------------------------------------------------------------------
    async def create(self, name: str, handler: str, options: Mapping[str, Any], *, by: str) -> Template:
        identifier("name", name)
        await self._creation.check_handler(own_name("handler", handler))
        given = {option: value for option, value in options.items() if value is not None}
        secret = await self._creation.secrets_of(handler)
        fields = self._checked(handler, JobSpec(handler=handler, secret=secret), given)
        if len([entry.key async for entry in self._entries()]) >= MOST:
            raise CommandRefused("create", f"one of {MOST} templates", ["another one is removed"], f"template {name!r}")
        now = await self._store.now()
        body = _TemplateBody(handler=handler, fields=fields, created=now, updated=now, by=by)
        if not await self._put(name, body, 0, self._audit("create", name, by, now, None, body)):
            raise CommandRefused("create", "there", ["no template has that name"], f"template {name!r}")
        return await self.get(name)

    async def update(self, name: str, changes: Mapping[str, Any], *, by: str, handler: str | None = None) -> Template:
        """Change the named options and leave the rest; None removes an option. Jobs created from it do not change."""
        check_editable(changes)
        if handler is not None:
            await self._creation.check_handler(own_name("handler", handler))
        while True:
            old = await self.get(name)
            new_handler = handler or old.handler
            base = msgspec.convert({"handler": new_handler, **old.fields}, JobSpec)
            removed = {OPTIONS[option].field for option, value in changes.items() if value is None}
            given = {option: value for option, value in changes.items() if value is not None}
            kept = {field: value for field, value in old.fields.items() if field not in removed}
            if handler is not None and "params" in kept:  # parameters for the old code must fit the new
                given = {"params": kept["params"], **given}
            secret = union(old.secret, await self._creation.secrets_of(new_handler))
            kept_spec = msgspec.structs.replace(_without(base, kept), secret=secret)
            fields = kept | self._checked(new_handler, kept_spec, given)
            now = await self._store.now()
            body = _TemplateBody(
                handler=new_handler, fields=fields, created=to_micros(old.created_at), updated=now, by=by
            )
            if await self._put(name, body, old.version, self._audit("update", name, by, now, old, body)):
                return await self.get(name)

    async def remove(self, name: str, *, by: str) -> None:
        """Remove a template. Jobs created from it stay."""
        while True:
            old = await self.get(name)
            now = await self._store.now()
            before = _text(mask_fields(old.fields, old.secret))
            audit = audit_record(self._chance, "remove", f"template:{name}", by, now, before=before)
            entry = Entry(kind=KIND, key=name)
            if (
                await self._store.write_entries(
                    [EntryWrite(entry=entry, seen_version=old.version, remove=True, audit=audit)]
                )
            )[0]:
                return

    # --- creating jobs --------------------------------------------------------------------------------------
    async def apply(
        self,
        template: str,
        name: str | None,
        overrides: Mapping[str, Any],
        *,
        by: str,
        execution_id: str | None = None,
        check: Check | None = None,
    ) -> tuple[JobView, ExecutionRow | None]:
        """Create a job from a template. Parameters and metadata are merged with those of the template, name by name;
        every other override replaces the option of the template."""
        check_editable(overrides)
        found = await self.get(template)
        options = applied(found, overrides)
        return await self._creation.create(name, found.handler, options, by=by, execution_id=execution_id, check=check)

    # --- inside -------------------------------------------------------------------------------------------
    def _checked(self, handler: str, base: JobSpec, given: Mapping[str, Any]) -> dict[str, Any]:
        """The fields that these options set. Parameters may be incomplete: a job adds the rest. The secrets of the
        handler, which `base` has, become those of the template."""
        fields = edited_fields(base, None, given, self._creation.payload_limit)
        if base.secret:
            fields["secret"] = list(union(base.secret, fields.get("secret", ())))
        signature = self._creation.signature(handler)
        if signature is not None and "params" in fields:
            try:
                fields["params"] = signature.validate(
                    fields["params"], partial=True, limit=self._creation.payload_limit
                )
            except InvalidValue as error:
                raise hide(error, fields.get("secret", ())) from None
        return fields

    async def _put(self, name: str, body: _TemplateBody, seen: int, audit: Audit) -> bool:
        entry = Entry(kind=KIND, key=name, body=msgspec.json.encode(body).decode())
        return (await self._store.write_entries([EntryWrite(entry=entry, seen_version=seen, audit=audit)]))[0]

    def _audit(
        self, action: str, name: str, by: str, now: Micros, before: Template | None, after: _TemplateBody
    ) -> Audit:
        secret = union(() if before is None else before.secret, after.fields.get("secret", ()))
        old = {} if before is None else {"handler": before.handler, **before.fields}
        earlier, later = mask_fields_pair(old, {"handler": after.handler, **after.fields}, secret)
        return audit_record(
            self._chance,
            action,
            f"template:{name}",
            by,
            now,
            before=None if before is None else _text(earlier),
            after=_text(later),
        )


def applied(template: Template, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a job created from this template. An override of None removes the option of the template."""
    options, overrides = template.options, with_whole_interval(template.spec, overrides)
    if _TRIGGERS & overrides.keys():
        options.pop("trigger", None)
    if overrides.get("overlap", "allow") != "allow":
        options.pop("overlap_limit", None)
    if getattr(overrides.get("trigger"), "tz", None) is not None:
        options.pop("tz", None)
    merged = {
        field: {**options.get(field, {}), **_mapping(field, overrides.get(field))} for field in ("params", "metadata")
    }
    merged["metadata"][ORIGIN] = template.name
    return {**options, **overrides, **merged, **joined_secrets({"secret": template.secret}, overrides)}


def _mapping(field: str, value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidValue(field, value, "an object (dict)")
    return value


def _without(spec: JobSpec, kept: Mapping[str, Any]) -> JobSpec:
    """The specification with only those fields set."""
    return msgspec.convert({"handler": spec.handler, **kept}, JobSpec)


def _read(entry: Entry) -> Template:
    body = msgspec.json.decode(entry.body, type=_TemplateBody)
    return Template(
        name=entry.key,
        handler=body.handler,
        fields=body.fields,
        created_at=to_datetime(body.created),
        updated_at=to_datetime(body.updated),
        by=body.by,
        version=entry.version,
        secret=tuple(body.fields.get("secret", ())),
    )


def _text(fields: Mapping[str, Any]) -> str:
    return msgspec.json.encode(fields).decode()
