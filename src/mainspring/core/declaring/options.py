"""Decorator arguments become a `JobSpec` here: checked at registration, each refusal naming field, value and remedy.

Text options may hold placeholders, `cron="${reports.cron}"` or `"${reports.cron:0 3 * * *}"`: filled in at start-up
from the settings and the environment. What they stand for is checked then.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta, tzinfo
from typing import Any, TypeAlias, TypedDict, get_args

import msgspec

from ...model.calendars.hours import Hours, Outside, encode_hours, hours_of
from ...model.defaults import ENQUEUED_ATTEMPTS, SCHEDULED_ATTEMPTS
from ...model.errors import ConfigurationError, InvalidValue, nearest
from ...model.job import JobSpec
from ...model.limits import Limit
from ...model.policies import (
    MAX_OVERLAP,
    CatchUp,
    Overlap,
    Retention,
    Retry,
    check_max_attempts,
    check_missed,
    check_retry,
)
from ...model.triggers.combined import AnyTrigger, Trigger, cron, encode_trigger, interval
from ...model.values.payload import encode_payload, presentable, safe_text
from ...model.values.reading import choice, duration, identifier, whole, zone, zone_name
from ...model.windows import Limited, Offset, encode_window_spec, window_spec
from ..rules.limits import check_limits, check_weights
from ..rules.pings import check_ping
from .defaults import NO_DEFAULTS, JobDefaults
from .dependency_options import flow_options, refuse_without_parents
from .signature import Signature
from .tenant_options import TenantProvider, tenant_options

Lookup: TypeAlias = Callable[[str], str | None]
"""Finds the value of a placeholder: None, or `ConfigurationError`, when there is none."""

Duration: TypeAlias = float | str | timedelta


class JobOptions(TypedDict, total=False):
    """What can be said of a job when it is declared. All of it is optional."""

    cron: str | None
    trigger: Trigger | None
    interval_minutes: int | None
    interval_type: str | None
    tz: str | tzinfo | None
    params: Mapping[str, Any] | None
    queue: str | None
    priority: int
    max_attempts: int | None
    retry: Retry | str | Mapping[str, Any] | None
    timeout: Duration | None
    non_retryable: Iterable[type[BaseException] | str]
    overlap: str | None
    overlap_limit: int | None
    missed: str | CatchUp | Mapping[str, Any] | None
    missed_while_paused: str | CatchUp | Mapping[str, Any]
    grace: Duration | None
    window: str | Offset | Limited | Mapping[str, Any] | None
    hours: Hours | str | Mapping[str, Any] | None
    outside: str
    enabled: bool
    schedule_enabled: bool | None
    retention: Retention | Mapping[str, Any] | None
    description: str
    metadata: Mapping[str, Any] | None
    trigger_role: str | None
    limits: Limit | Mapping[str, Any] | Iterable[Limit | Mapping[str, Any]]
    weights: Mapping[str, int]
    tenants: TenantProvider
    tenant_context: Callable[..., Any] | None
    tenant_concurrency: int | None
    tenant_max_attempts: int | None
    tenant_retry: Retry | str | Mapping[str, Any] | None
    continue_on_failure: bool
    ping: str | Mapping[str, str] | None
    after: str | Iterable[str]
    on_failed_parent: str
    not_before: str | None
    allow_override: bool


OPTIONS = tuple(JobOptions.__annotations__)
INHERITED = frozenset(
    {
        "queue",
        "priority",
        "max_attempts",
        "retry",
        "timeout",
        "non_retryable",
        "overlap",
        "overlap_limit",
        "retention",
        "trigger_role",
        "limits",
        "weights",
    }
)
"""The policy of a handler's own declaration that its further jobs follow, unless they say otherwise."""

TRIGGER_ROLES = ("operator", "admin")
PRIORITIES = (-32_768, 32_767)

_TRIGGERS = ("interval_minutes", "cron", "trigger")
_LITERAL = frozenset({"params", "metadata", "description"})  # text of the user's own, never searched for placeholders
_WHOLE = frozenset({"priority", "max_attempts", "overlap_limit", "interval_minutes"})
_SWITCHES = frozenset({"enabled", "schedule_enabled"})
_WORDS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
_STAND_INS = {"cron": "@daily", "interval_minutes": 1, "overlap": "allow"}  # until the real value is known
_PLACEHOLDER = re.compile(r"\$\{([A-Za-z0-9_.-]+)(?::([^}]*))?\}")


class Declaration(msgspec.Struct, frozen=True):
    """One job as code declares it: its options as given, its handler's name, and where that was said."""

    name: str
    handler: str
    options: dict[str, Any]
    where: str
    description: str = ""

    def check(self, signature: Signature) -> None:
        """Refuse now what is wrong whatever the placeholders stand for."""
        provisional = {name: _provisional(name, value) for name, value in self.options.items()}
        self._spec(signature, provisional, "UTC", warn=True)
        refuse_without_parents(self.options, self.options.get("after"))

    def spec(
        self, signature: Signature, lookup: Lookup | None = None, tz: str = "UTC", defaults: JobDefaults = NO_DEFAULTS
    ) -> JobSpec:
        """The specification, with placeholders filled in; `tz` is the zone of jobs that name none."""
        if not any(_has_placeholder(name, value) for name, value in self.options.items()):
            return self._spec(signature, defaults.under(self.options), tz)
        try:
            filled = {name: fill(name, value, lookup) for name, value in self.options.items()}
            return self._spec(signature, defaults.under(filled), tz)
        except ConfigurationError as error:
            raise ConfigurationError(f"job {self.name!r} ({self.where}): {error}") from None
        except InvalidValue as error:
            remedy = f"{error.remedy}{'. ' if error.remedy else ''}It comes from a setting of job {self.name!r}"
            raise InvalidValue(error.field, error.value, error.allowed, f"{remedy} ({self.where})") from None

    def _spec(self, signature: Signature, options: Mapping[str, Any], tz: str, warn: bool = False) -> JobSpec:
        return job_spec(self.handler, signature, options, tz, self.description, warn)


def known_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, none of them unknown."""
    for name in options:
        if name not in OPTIONS:
            guess = nearest(name, OPTIONS)
            raise InvalidValue("option", name, ", ".join(OPTIONS), f"Did you mean {guess!r}?" if guess else "")
    return dict(options)


def job_spec(
    handler: str,
    signature: Signature | None,
    options: Mapping[str, Any],
    tz: str = "UTC",
    description: str = "",
    warn: bool = False,
) -> JobSpec:
    """The specification these options ask for, with the defaults that depend on the trigger."""
    given = {name: value for name, value in options.items() if value is not None}
    trigger = _trigger(given)
    scheduled, flow = trigger is not None, flow_options(given)
    unattended = scheduled or bool(flow["after"])
    return JobSpec(
        handler=handler,
        trigger=None if trigger is None else encode_trigger(trigger),
        tz=_zone(given.get("tz"), trigger, tz, warn),
        params=_params(signature, given.get("params", {}), unattended),
        queue=identifier("queue", given.get("queue", "default")),
        priority=whole("priority", given.get("priority", 0), *PRIORITIES),
        max_attempts=check_max_attempts(
            "max_attempts", given.get("max_attempts", SCHEDULED_ATTEMPTS if unattended else ENQUEUED_ATTEMPTS)
        ),
        retry=check_retry("retry", given.get("retry", "queue")),
        timeout=duration("timeout", given["timeout"]) if "timeout" in given else None,
        non_retryable=_exception_names(given.get("non_retryable", ())),
        missed=check_missed("missed", given.get("missed", _default_missed(trigger))),
        missed_while_paused=check_missed("missed_while_paused", given.get("missed_while_paused", "skip")),
        grace=duration("grace", given["grace"], allow_zero=True) if "grace" in given else None,
        window=encode_window_spec(window_spec(given["window"])) if "window" in given else None,
        hours=_hours(given["hours"], scheduled) if "hours" in given else None,
        outside=choice("outside", given.get("outside", "skip"), get_args(Outside)),  # type: ignore[arg-type]
        enabled=_switch(given, "enabled") and _switch(given, "schedule_enabled"),
        retention=_retention(given.get("retention")),
        description=_description(given.get("description") or description),
        metadata=_metadata(given.get("metadata", {})),
        trigger_role=choice("trigger_role", given["trigger_role"], TRIGGER_ROLES) if "trigger_role" in given else None,
        limits=check_limits(given.get("limits", ()), None if signature is None else signature.names),
        weights=check_weights(given.get("weights", {})),
        ping=check_ping(given["ping"]) if "ping" in given else None,
        **_overlap(given, unattended),
        **flow,
        **tenant_options(given),
    )


def first_line(documented: Any) -> str:
    """The first line of a docstring of one's own; a docstring inherited from a builtin says nothing."""
    text = getattr(documented, "__doc__", None)
    return inspect.cleandoc(text).partition("\n")[0].strip() if isinstance(text, str) else ""


# ---------------------------------------------------------------- placeholders


def fill(field: str, value: Any, lookup: Lookup | None) -> Any:
    """The option with its placeholders replaced; whole numbers and switches are read from the text."""
    if not _has_placeholder(field, value):
        return value
    text = _PLACEHOLDER.sub(lambda found: _looked_up(field, found[1], found[2], lookup), value)
    if field in _WHOLE and re.fullmatch(r"[+-]?[0-9]{1,18}", text.strip()):
        return int(text)
    return _WORDS.get(text.strip().lower(), text) if field in _SWITCHES else text


def _has_placeholder(field: str, value: Any) -> bool:
    if not isinstance(value, str) or field in _LITERAL or "${" not in value:
        return False
    if "${" in _PLACEHOLDER.sub("", value):
        raise InvalidValue(field, value, '"${key}" or "${key:default}", with a key such as reports.cron')
    return True


def _looked_up(field: str, key: str, default: str | None, lookup: Lookup | None) -> str:
    variable = re.sub(r"[.-]", "_", key).upper()
    try:
        found = lookup(key) if lookup is not None else None
    except ConfigurationError:
        if default is None:
            raise
        found = None
    found = os.environ.get(variable) if found is None else found
    if found is None and default is None:
        raise ConfigurationError(
            f"{field} refers to ${{{key}}}, which has no value; set it in the settings or as {variable}, "
            f'or give a default: "${{{key}:...}}"'
        )
    return str(found if found is not None else default)


def _provisional(field: str, value: Any) -> Any:
    """A stand-in for an option that is only known at start-up, so that all others can be checked now."""
    return _STAND_INS.get(field) if _has_placeholder(field, value) else value


# ---------------------------------------------------------------- single options


def _trigger(given: Mapping[str, Any]) -> AnyTrigger | None:
    """The interval pair wins over cron; a trigger stands alone."""
    named = [name for name in _TRIGGERS if name in given]
    if "trigger" in named and len(named) > 1:
        raise InvalidValue(
            "trigger", presentable(given["trigger"]), f"either trigger= or {named[0]}=", "Remove one of them"
        )
    if "interval_minutes" in named:
        return interval(given["interval_minutes"], given.get("interval_type", "minutes"))
    if "interval_type" in given:
        raise InvalidValue("interval_type", given["interval_type"], "a unit together with interval_minutes=")
    if "cron" in named:
        return _cron(given["cron"])
    trigger = given.get("trigger")
    if trigger is None or isinstance(trigger, AnyTrigger):
        return trigger
    raise InvalidValue(
        "trigger", presentable(trigger), "a trigger such as every(minutes=30) or daily_at(...)", _meant(trigger)
    )


def _meant(trigger: Any) -> str:
    if not isinstance(trigger, str):
        return ""
    try:
        return f"Use every(seconds={duration('trigger', trigger):g})"
    except InvalidValue:
        return f"Pass a cron expression as cron={trigger!r}"


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
        raise InvalidValue("tz", name, f"the zone of the trigger, {own!r}", "Say it once: in the trigger or as tz=")
    return name


def _params(signature: Signature | None, params: Any, scheduled: bool) -> dict[str, Any]:
    """A scheduled job has nobody to fill in what is missing, so its own parameters must be complete."""
    if signature is not None:
        return signature.validate(params, partial=not scheduled)
    if not isinstance(params, Mapping):
        raise InvalidValue("params", presentable(params), "an object (dict) of parameters")
    encode_payload("params", dict(params))
    return dict(params)


def _exception_names(value: Any) -> tuple[str, ...]:
    """Exceptions by name: their classes are not needed where the policy is only stored."""
    single = isinstance(value, (str, type)) or not isinstance(value, Iterable)
    return tuple(_exception_name(item) for item in ((value,) if single else value))


def _exception_name(item: Any) -> str:
    if isinstance(item, type) and issubclass(item, BaseException):
        return item.__name__ if item.__module__ == "builtins" else f"{item.__module__}.{item.__qualname__}"
    if isinstance(item, str) and all(part.isidentifier() for part in item.split(".")):
        return item
    raise InvalidValue("non_retryable", presentable(item), "exception classes, or their names such as 'ValueError'")


def _overlap(given: Mapping[str, Any], scheduled: bool) -> dict[str, Any]:
    overlap = choice("overlap", given.get("overlap", "skip" if scheduled else "allow"), get_args(Overlap))
    limit = given.get("overlap_limit")
    if limit is not None and overlap != "allow":
        allowed = f"no limit together with overlap={overlap!r}"
        raise InvalidValue("overlap_limit", presentable(limit), allowed, "Set overlap='allow'")
    return {
        "overlap": overlap,
        "overlap_limit": None if limit is None else whole("overlap_limit", limit, 1, MAX_OVERLAP),
    }


def _hours(value: Any, scheduled: bool) -> dict[str, Any]:
    hours = hours_of(value)
    if not scheduled:
        remedy = "Hours hold back ticks only; what is enqueued or triggered by hand runs at once"
        raise InvalidValue("hours", hours.describe(), "hours of a job that has a trigger", remedy)
    return encode_hours(hours)


def _default_missed(trigger: AnyTrigger | None) -> str:
    """A one-shot has no later tick that could make up for it: a deploy at its time must not lose it."""
    return "latest" if trigger is not None and trigger.only_tick_micros() is not None else "skip"


def _switch(given: Mapping[str, Any], field: str) -> bool:
    value = given.get(field, True)
    if not isinstance(value, bool):
        raise InvalidValue(field, presentable(value), "True or False")
    return value


def _retention(value: Any) -> Retention:
    if value is None or isinstance(value, Retention):
        return value or Retention()
    if not isinstance(value, Mapping):
        raise InvalidValue("retention", presentable(value), "a Retention(...)")
    for unknown in value.keys() - set(Retention.__struct_fields__):
        raise InvalidValue("retention", presentable(value), f"fields of Retention, which has no {unknown!r}")
    try:
        return msgspec.convert(dict(value), Retention)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, InvalidValue):
            raise error.__cause__ from None
        raise InvalidValue("retention", presentable(value), f"fields of Retention ({error})") from None


def _description(value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidValue("description", presentable(value), "text")
    return safe_text(value, 1_000)


def _metadata(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidValue("metadata", presentable(value), "an object (dict)")
    plain = dict(value)
    encode_payload("metadata", plain)
    return plain
