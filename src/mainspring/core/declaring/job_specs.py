"""Options become a `JobSpec`: each checked by its entry in the table, then all of them together.

Registration, edits by operators, templates and creation over HTTP all come through here. Requests name some options
differently: `schedule` sets `trigger`, `timezone` sets `tz`, and `max_retries` counts one try less than `max_attempts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from ...model.calendars.hours import hours_of
from ...model.defaults import PAYLOAD_LIMIT
from ...model.errors import InvalidValue, nearest
from ...model.job import JobSpec
from ...model.policies import Isolation
from ...model.triggers import AnyTrigger, Trigger, cron, decode_trigger, encode_trigger, interval
from ...model.triggers.interval import interval_pair, period_as_call
from ...model.values.payload import NO_LIMIT, presentable
from ...model.values.reading import duration, zone, zone_name
from ...model.windows import Limited, window_spec
from ..rules.limits import check_limits, parameters_in_keys
from ..rules.secret_params import ANY, has_secrets, hide, is_secret, keep, refuse_mask, union
from .option_values import NO_WINDOW, check_description, check_mapping
from .options import EDITABLE, HTTP_FIELDS, OPTIONS, PROCESS_LIMITS, refuse_unknown
from .signature import Signature
from .synonyms import SYNONYMS

_CHECKS = {name: option.check for name, option in OPTIONS.items() if option.check is not None}
_UNATTENDED = {name: option.unattended for name, option in OPTIONS.items() if option.unattended is not UNSET}
_TENANT_RULES = tuple(name for name, option in OPTIONS.items() if option.needs == "tenants" and name != "tenants")
_PARENT_RULES = tuple(name for name, option in OPTIONS.items() if option.needs == "after")
_TRIGGERS = ("interval_minutes", "cron", "trigger")
"""Each of them says when a job runs."""
_UNSAID = JobSpec(handler="")


def job_spec(
    handler: str,
    signature: Signature | None,
    options: Mapping[str, Any],
    tz: str = "UTC",
    description: str = "",
    warn: bool = False,
    isolation: Isolation = "thread",
    payload_limit: int = PAYLOAD_LIMIT,
) -> JobSpec:
    """The specification that these options ask for. None counts as not given; `tz` is the zone of jobs that name none,
    `isolation` the place of plain functions that name none. `payload_limit` bounds the parameters.

    `signature` is None for a handler that this process does not have; its parameters are not checked then.
    """
    given = {name: value for name, value in options.items() if value is not None}
    fields: dict[str, Any] = {name: check(name, given[name]) for name, check in _CHECKS.items() if name in given}
    trigger = _trigger(given)
    unattended = trigger is not None or bool(fields.get("after"))
    if trigger is not None:
        fields["trigger"] = encode_trigger(trigger)
        if trigger.only_tick_micros() is not None:  # it has no later tick: a deploy at its time must not lose it
            fields.setdefault("missed", "latest")
    fields = {**_UNATTENDED, **fields} if unattended else fields
    fields["tz"] = _zone(given.get("tz"), trigger, tz, warn)
    secret = union(fields.get("secret", ()), () if signature is None else signature.secret)
    if secret:
        fields["secret"] = secret
    fields["params"] = _params(signature, given.get("params", {}), unattended, secret, payload_limit)
    fields["description"] = fields.get("description") or check_description("description", description)
    fields["enabled"] = fields.pop("schedule_enabled", True) and fields.get("enabled", True)
    fields["isolation"] = _isolation(fields.get("isolation"), signature, isolation)
    fields.pop("tenant_context", None)
    _check_together(given, fields, signature, scheduled=trigger is not None)
    return JobSpec(handler=handler, **fields)


def _check_together(
    given: Mapping[str, Any], fields: dict[str, Any], signature: Signature | None, *, scheduled: bool
) -> None:
    """The rules that concern more than one option."""
    overlap = fields.get("overlap", _UNSAID.overlap)
    if "overlap_limit" in fields and overlap != "allow":
        allowed = f"no limit together with overlap={overlap!r}"
        raise InvalidValue("overlap_limit", presentable(given["overlap_limit"]), allowed, "Set overlap='allow'")
    if "hours" in fields and not scheduled:
        remedy = "Hours hold back ticks only; what is enqueued or triggered by hand runs at once"
        shown = hours_of(fields["hours"]).describe()
        raise InvalidValue("hours", shown, "hours of a job that has a trigger", remedy)
    if "limits" in fields and signature is not None:
        check_limits(fields["limits"], signature.names)
    if "search" in fields and signature is not None:
        _refuse_unknown_paths("search", fields["search"], signature)
    _refuse_secret_keys(fields)
    if fields["isolation"] != "process":
        _refuse_alone(sorted(PROCESS_LIMITS), given, 'isolation="process"', 'Set isolation="process"')
    if not fields.get("tenants"):
        _refuse_alone(_TENANT_RULES, given, "tenants=", "List the tenants: tenants=")
        return
    for own in ("max_attempts", "retry"):  # the tries that a job names are those of its tenants too
        if own in given:
            fields.setdefault(f"tenant_{own}", fields[own])


def _refuse_secret_keys(fields: Mapping[str, Any]) -> None:
    """Refuse secrets as search keys and in keys of limits, which are shown."""
    secret = fields.get("secret", ())
    for path in fields.get("search", ()) if secret else ():
        if is_secret(path, secret):
            remedy = "The value of a secret is never stored as a search key: leave it out"
            raise InvalidValue("search", path, "parameters that are no secrets", remedy)
    for limit in fields.get("limits", ()) if secret else ():
        if any(has_secrets(name, secret) for name in parameters_in_keys([limit])):
            remedy = "The keys of limits are shown, so they cannot contain secrets"
            raise InvalidValue("limits.key", limit.key, "parameters that are no secrets", remedy)


def refuse_unknown_secrets(given: Mapping[str, Any], signature: Signature | None) -> None:
    """Refuse a secret that the handler has no parameter for: it is misspelt, and its value would be shown."""
    if signature is not None and given.get("secret") is not None:
        check = _CHECKS["secret"]
        _refuse_unknown_paths("secret", check("secret", given["secret"]), signature)


def _refuse_unknown_paths(option: str, paths: Sequence[str], signature: Signature) -> None:
    for path in paths:
        first = path.partition(".")[0]
        if signature.names is not None and first not in {*signature.names, ANY}:
            guess = nearest(first, signature.names)
            remedy = f"Did you mean {guess!r}?" if guess else f"It takes {signature}"
            raise InvalidValue(option, path, "parameters that the handler has", remedy)


def refuse_without_parents(named: Mapping[str, Any], after: Any) -> None:
    """Refuse rules about the jobs it follows for a job that follows none."""
    if not after:
        _refuse_alone(_PARENT_RULES, named, "after=", "Name the jobs it follows: after=")


def _refuse_alone(names: Iterable[str], given: Mapping[str, Any], needed: str, remedy: str) -> None:
    for name in names:
        default = getattr(_UNSAID, name)
        if given.get(name) not in (None, default):
            raise InvalidValue(name, presentable(given[name]), f"nothing without {needed}", remedy)


# --- single options that need more than their value -----------------------------------------------------------


def _trigger(given: Mapping[str, Any]) -> AnyTrigger | None:
    """The interval pair wins over cron; a trigger stands alone."""
    named = [name for name in _TRIGGERS if name in given]
    if "trigger" in named and len(named) > 1:
        raise InvalidValue(
            "trigger", presentable(given["trigger"]), f"either trigger= or {named[0]}=", "Remove one of them"
        )
    if "interval_minutes" in named:
        return interval(given["interval_minutes"], given.get("interval_type", "minutes"))
    if "interval_type" in given and not named:
        raise _unit_alone(given["interval_type"])
    if "cron" in named:
        return _cron(given["cron"])
    trigger = given.get("trigger")
    if trigger is None or isinstance(trigger, AnyTrigger):
        return trigger
    allowed = "a trigger such as every(minutes=30) or daily_at(...)"
    raise InvalidValue("trigger", presentable(trigger), allowed, _trigger_remedy(trigger))


def _unit_alone(unit: Any) -> InvalidValue:
    return InvalidValue("interval_type", presentable(unit), "a unit together with interval_minutes=")


def _trigger_remedy(trigger: Any) -> str:
    if not isinstance(trigger, str):
        return ""
    try:
        duration("trigger", trigger)
    except InvalidValue:
        return f"Pass a cron expression as cron={trigger!r}"
    return f"Use {period_as_call(trigger)}"


def _cron(expression: Any) -> AnyTrigger:
    if isinstance(expression, Trigger):
        remedy = f"Pass {expression.expression()!r} as trigger="
        raise InvalidValue("cron", presentable(expression), "a cron expression as text", remedy)
    return cron(expression)


def _zone(given: Any, trigger: AnyTrigger | None, default: str, warn: bool) -> str:
    own = getattr(trigger, "tz", None)
    if given is None:
        return own or zone_name(zone("tz", default, warn=False))
    name = zone_name(zone("tz", given, warn=warn))
    if own is not None and own != name:
        raise InvalidValue(
            "tz", name, f"the zone of the trigger, {own!r}", "Give the zone once: in the trigger or as tz="
        )
    return name


def _isolation(given: Isolation | None, signature: Signature | None, default: Isolation) -> Isolation | None:
    """Coroutines share the event loop unless they ask for a process; a default never moves them."""
    coroutine = signature is not None and signature.is_async
    if given == "thread" and coroutine:
        remedy = 'A coroutine runs on the event loop: leave isolation out, or set "process"'
        raise InvalidValue("isolation", given, '"process", or nothing, for a coroutine function', remedy)
    return given if given is not None or coroutine or signature is None else default


def _params(
    signature: Signature | None, params: Any, unattended: bool, secret: Sequence[str], limit: int
) -> dict[str, Any]:
    """No caller fills in what an unattended job lacks, so its own parameters must be complete."""
    refuse_mask(params, secret)
    try:
        if signature is not None:
            return signature.validate(params, partial=not unattended, limit=limit)
        return check_mapping("params", params, "an object (dict) of parameters", limit)
    except InvalidValue as error:
        raise hide(_with_its_source(error, signature, params) if unattended else error, secret) from None


def _with_its_source(error: InvalidValue, signature: Signature | None, params: Any) -> InvalidValue:
    """The same error; that a parameter of an unattended job is missing also says where its value can come from."""
    name = error.field.removeprefix("params.")
    if signature is None or name not in signature.required or name in params:
        return error
    remedy = f"{error.remedy}. A job that starts by itself needs a default for {name!r}, or params={{{name!r}: ...}}"
    return error.reworded(remedy=remedy)


# --- defaults from the settings -------------------------------------------------------------------------------


class JobDefaults(msgspec.Struct, frozen=True):
    """The defaults that an application's settings give to the options of its jobs.

    >>> JobDefaults({"retry": "patient"}).under({"queue": "reports"})
    {'retry': 'patient', 'queue': 'reports'}
    """

    options: Mapping[str, Any] = {}
    """Options that have a setting, by their names; None counts as not set."""
    max_span: float | None = None
    """The longest window that a caller may ask for, in seconds."""
    isolation: Isolation = "thread"
    """Where plain functions run that do not say."""
    payload_limit: int = PAYLOAD_LIMIT
    """The largest parameters, in bytes of JSON."""

    def under(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options, with the defaults for those that are missing."""
        given = {name: value for name, value in options.items() if value is not None}
        return {**self._missing(given), **given, **self._limited(given)}

    def _missing(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The tries that a job names are those of its tenants too, and win over the defaults for tenants."""
        missing = {name: value for name, value in self.options.items() if value is not None}
        if given.get("tenants", False) is False:
            return {name: value for name, value in missing.items() if name not in _TENANT_RULES}
        return {name: value for name, value in missing.items() if name.removeprefix("tenant_") not in given}

    def _limited(self, given: Mapping[str, Any]) -> dict[str, Any]:
        window = given.get("window", self.options.get("window"))
        if self.max_span is None or window in (None, NO_WINDOW):
            return {}
        spec = window_spec(window)
        if not isinstance(spec, Limited):
            return {"window": Limited(spec, self.max_span)}
        return {"window": spec if spec.max_span is not None else msgspec.structs.replace(spec, max_span=self.max_span)}


NO_DEFAULTS = JobDefaults()


# --- edits ----------------------------------------------------------------------------------------------------


def edited_fields(
    spec: JobSpec, signature: Signature | None, changes: Mapping[str, Any], payload_limit: int = PAYLOAD_LIMIT
) -> dict[str, Any]:
    """The fields of the specification that an operator's changes set, as plain JSON data.

    None takes an option away that may be missing. Everything not named stays as it is, parameters too that are larger
    than a limit which was lowered since.
    """
    check_editable(changes)
    changes = with_whole_interval(spec, _with_secrets(spec, signature, changes))
    fields = {OPTIONS[name].field for name in changes}
    for name, value in changes.items():
        if value is None and not OPTIONS[OPTIONS[name].field].nullable:
            raise InvalidValue(name, None, "a value", "To take edits back, revert the job")
    options = _present_options(spec, fields, changes) | dict(changes)
    limit = payload_limit if "params" in fields else NO_LIMIT
    new = job_spec(spec.handler, signature, options, spec.tz, payload_limit=limit)
    return {field: _plain(getattr(new, field)) for field in sorted(fields)}


def _with_secrets(spec: JobSpec, signature: Signature | None, changes: Mapping[str, Any]) -> Mapping[str, Any]:
    """The changes, with the stored values of secrets that they give as masks. Secrets stay secret: those they name are
    added."""
    named = changes.get("secret")
    if named is not None:
        refuse_unknown_secrets(changes, signature)
        check = _CHECKS["secret"]
        changes = {**changes, "secret": union(spec.secret, check("secret", named))}
    known = union(changes.get("secret") or spec.secret, () if signature is None else signature.secret)
    if isinstance(changes.get("params"), Mapping):
        changes = {**changes, "params": keep(changes["params"], spec.params, known)}
    return changes


def with_whole_interval(spec: JobSpec, changes: Mapping[str, Any]) -> Mapping[str, Any]:
    """The changes, with both parts of the interval pair if they name one: the other part stays as it is."""
    known = interval_pair(None if spec.trigger is None else decode_trigger(spec.trigger), spec.interval_type)
    if changes.get("interval_minutes") is not None:
        return {"interval_type": known[1] if known else None, **changes}
    if changes.get("interval_type") is None or not changes.keys().isdisjoint(_TRIGGERS):
        return changes
    if known is None:
        raise _unit_alone(changes["interval_type"])
    return {**changes, "interval_minutes": known[0]}


def check_editable(changes: Mapping[str, Any]) -> None:
    """Refuse names that are no options an operator can set."""
    refuse_unknown(changes, EDITABLE, "field")


def _present_options(spec: JobSpec, edited: set[str], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The options in force that are not edited. A new trigger brings its own zone, and a new overlap policy drops the
    limit of the old one."""
    unsaid = {"handler", "interval_type", *edited}
    if getattr(changes.get("trigger"), "tz", None) is not None:
        unsaid.add("tz")
    if changes.get("overlap", "allow") != "allow":
        unsaid.add("overlap_limit")
    options = {field: getattr(spec, field) for field in spec.__struct_fields__ if field not in unsaid}
    if options.get("trigger") is not None:
        options["trigger"] = decode_trigger(options["trigger"])
    return options


def _plain(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


# --- fields of requests ---------------------------------------------------------------------------------------


def options_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The options that these fields set. Names of options that HTTP does not know are options already.

    Where an interval and a schedule are both given, the interval wins.
    """
    if {"retry", "retry_backoff_seconds"} <= fields.keys():
        raise InvalidValue("retry", fields["retry"], "no waits beside retry_backoff_seconds", "Give one of them")
    schedules = [name for name in ("schedule", "schedule_time") if fields.get(name) is not None]
    if len(schedules) == 2:
        remedy = "They are two names of one field: give one of them"
        raise InvalidValue("schedule_time", fields["schedule_time"], "nothing together with schedule", remedy)
    unsaid = _overruled(fields, schedules)
    options = {}
    for name, value in fields.items():
        if name in unsaid:
            continue
        if (field := HTTP_FIELDS.get(name)) is None:
            options[name] = value
        else:
            options[field.option] = field.read(name, value)
    return options


def _overruled(fields: Mapping[str, Any], schedules: Sequence[str]) -> set[str]:
    """Of the fields that set the trigger, those that do not count because another one does."""
    named = {name for name in ("interval_minutes", "schedule", "schedule_time") if name in fields}
    if fields.get("interval_minutes") is not None:
        return named - {"interval_minutes"}
    return named - set(schedules[:1]) if schedules else set()


def taken_away(names: Iterable[str]) -> dict[str, None]:
    """The options to set to None so that these fields are taken away."""
    return {_stored_option(name): None for name in names}


def name_in_requests(option: str) -> str:
    """How requests name this option, for errors; names that are no options stay as they are."""
    if option in HTTP_FIELDS or option not in OPTIONS:
        return option
    fields = OPTIONS[OPTIONS[option].field or option].http_fields
    return fields[0].name if fields and fields[0].same_value else option


def field_meant(name: str, known: Iterable[str]) -> str | None:
    """The field of requests that was most likely meant by an unknown name."""
    fields = tuple(known)
    meant = name_in_requests(SYNONYMS.get(name, name))
    return meant if meant in fields else nearest(name, fields)


def _stored_option(name: str) -> str:
    option = HTTP_FIELDS[name].option if name in HTTP_FIELDS else name
    return OPTIONS[option].field if option in OPTIONS else option
