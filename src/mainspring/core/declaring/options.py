"""The table of job options: every option once, with its check, its default, its JSON type and its words.

From this table follow the checks of registrations and edits (`job_specs`), the fields that HTTP and the command line
take (`job_specs`, `server/models/jobs.py`), what further jobs of a handler inherit, the options that settings give
a default (`config/jobs.py`), the `policy` of a job's JSON form, and the table in docs/guide.md.

To add an option: an entry in `OPTIONS` and one in `JobOptions`, a field of `JobSpec` if it is stored, and the code that
obeys it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import tzinfo
from functools import partial
from types import GenericAlias
from typing import Annotated, Any, Literal, TypeAlias, TypedDict, get_args

import msgspec
from msgspec import UNSET, Meta

from ...model.calendars.hours import Hours, Outside
from ...model.defaults import API_RETRIES, SCHEDULED_ATTEMPTS
from ...model.errors import InvalidValue
from ...model.job import JobSpec
from ...model.labels import LONGEST_TAG, LONGEST_VALUE, MOST_KEYS, MOST_TAGS
from ...model.limits import MAX_CONCURRENCY, MAX_LIMITS, Limit
from ...model.policies import (
    MAX_ATTEMPTS,
    MAX_DELAY,
    MAX_OVERLAP,
    CatchUp,
    FailedParent,
    Isolation,
    MissedRule,
    Overlap,
    Retention,
    Retry,
    RetryPreset,
    TriggerRole,
    check_missed,
    check_retry,
)
from ...model.triggers import Trigger
from ...model.triggers.interval import IntervalType
from ...model.values.given import Duration, Several, Size
from ...model.values.reading import (
    IDENTIFIER,
    LARGEST_SIZE,
    LEAST_SIZE,
    choice,
    duration,
    identifier,
    size,
    time_of_day,
    whole,
    words,
)
from ...model.windows import Limited, Offset, WindowName
from ..rules import secret_params
from ..rules.limits import MAX_WEIGHT, check_limits, check_weights
from ..rules.pings import check_ping
from ..rules.search_keys import LONGEST_PATH, PATH, check_search
from .dependency_options import MAX_PARENTS, parents_in
from .handler_types import TenantContext, TenantProvider
from .option_values import (
    api_backoff,
    attempts_of_retries,
    check_description,
    check_exceptions,
    check_hours,
    check_mapping,
    check_retention,
    check_switch,
    check_tags,
    check_window,
    trigger_of_text,
)
from .synonyms import suggestion
from .tenant_options import check_tenant_context, check_tenants

MOST_LISTED = 12
"""Longer lists of allowed names are left out of a message that has a suggestion."""

ValueCheck: TypeAlias = Callable[[str, Any], Any]
"""Takes the name of the field and a given value; returns the value to store, or raises `InvalidValue`."""


class PingAddresses(TypedDict, total=False):
    """Addresses by what happened to the execution."""

    success: str
    failure: str
    start: str


class JobOptions(TypedDict, total=False):
    """The options of `@app.job`, `app.register` and `app.schedule`. All of them are optional."""

    cron: str | None
    trigger: Trigger | None
    interval_minutes: int | None
    interval_type: IntervalType | None
    tz: str | tzinfo | None
    params: Mapping[str, Any] | None
    queue: str | None
    priority: int
    max_attempts: int | None
    retry: Retry | RetryPreset | Mapping[str, Any] | None
    timeout: Duration | None
    run_timeout: Duration | None
    non_retryable: type[BaseException] | str | Several[type[BaseException] | str]
    overlap: Overlap | None
    overlap_limit: int | None
    missed: MissedRule | CatchUp | Mapping[str, Any] | None
    missed_while_paused: MissedRule | CatchUp | Mapping[str, Any]
    grace: Duration | None
    window: WindowName | Offset | Limited | Mapping[str, Any] | None
    hours: Hours | str | Mapping[str, Any] | None
    outside: Outside
    enabled: bool
    schedule_enabled: bool | None
    retention: Retention | Mapping[str, Any] | None
    description: str
    metadata: Mapping[str, Any] | None
    owner: str | None
    tags: str | Iterable[str]
    trigger_role: TriggerRole | None
    search: str | Iterable[str]
    secret: str | Iterable[str]
    limits: Limit | Mapping[str, Any] | Iterable[Limit | Mapping[str, Any]]
    weights: Mapping[str, int]
    tenants: TenantProvider
    tenant_context: TenantContext | None
    tenant_concurrency: int | None
    tenant_max_attempts: int | None
    tenant_retry: Retry | RetryPreset | Mapping[str, Any] | None
    continue_on_failure: bool
    ping: str | PingAddresses | None
    after: str | Iterable[str]
    on_failed_parent: FailedParent
    not_before: str | None
    isolation: Isolation | None
    max_cpu: Duration | None
    max_memory: Size | None
    max_address_space: Size | None
    allow_override: bool


# --- the entries of the table ---------------------------------------------------------------------------------


class HttpField(msgspec.Struct, frozen=True, kw_only=True):
    """A field of the HTTP interface that sets an option. The command line takes the same names."""

    name: str
    option: str
    json: Any
    meaning: str
    read: ValueCheck = lambda field, value: value
    """Turns the value of the field into the value of the option."""
    same_value: bool = True
    """Whether an error about the option's value is an error about the field's value too."""


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One option of a job."""

    name: str
    meaning: str
    """What it does: the words of the documentation and of the OpenAPI document."""
    see: str = ""
    """Further reading, which only the documentation shows."""
    check: ValueCheck | None = None
    """None: the option is read together with others, in `job_specs`."""
    json: Any = None
    """Its type in JSON, built from types, `Annotated[..., Meta(...)]` and the structs of the model. None: HTTP has no
    field of this name."""
    http: tuple[HttpField, ...] = ()
    """Fields of the HTTP interface that set this option under another name."""
    field: str = ""
    """The field of `JobSpec` that it sets; empty for options that are not stored."""
    default: str = ""
    """The default in words, where it is not simply the default of the field."""
    unattended: Any = UNSET
    """The default of jobs that run by themselves, on a schedule or after other jobs, where that differs."""
    setting: str = ""
    """The setting that gives its default."""
    nullable: bool = False
    """Whether an edit may take it away with None."""
    inherited: Literal["never", "code", "always"] = "never"
    """Which further jobs of a handler take it over from the handler's own job: none, those that code declares, or
    those created over HTTP too."""
    literal: bool = False
    """The text is the user's own and never searched for placeholders."""
    text: Literal["text", "whole", "switch"] = "text"
    """What the text of a placeholder is read as."""
    stand_in: Any = None
    """Takes the place of a placeholder when a declaration is checked before the settings are known."""
    code_only: bool = False
    """Only code can set it: it is a function, or about the declaration itself."""
    policy: bool = True
    """Whether a job's JSON form shows it under `policy`; the others have a field of their own."""
    needs: str = ""
    """The option without which this one has no effect."""

    @property
    def http_fields(self) -> tuple[HttpField, ...]:
        """The fields of the HTTP interface that set it."""
        if self.json is None:
            return self.http
        meaning = f"{self.meaning[0].upper()}{self.meaning[1:]}."
        own = HttpField(name=self.name, option=self.name, json=self.json, meaning=meaning)
        return (own, *self.http)

    @property
    def default_text(self) -> str:
        """The default as the documentation shows it."""
        if self.default:
            return self.default
        plain = _code(getattr(_UNSAID, self.field))
        return plain if self.unattended is UNSET else f"{_code(self.unattended)} with a schedule, {plain} on demand"


_UNSAID = JobSpec(handler="")


def _code(value: Any) -> str:
    if value is None or value == ():
        return "none"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"


def _option(name: str, meaning: str, check: ValueCheck | None, json: Any = None, **rest: Any) -> Option:
    return Option(name=name, meaning=meaning, check=check, json=json, **{"field": name, **rest})


def _choice(name: str, meaning: str, words: Any, **rest: Any) -> Option:
    return _option(name, meaning, lambda field, value: choice(field, value, get_args(words)), words, **rest)


def _whole(name: str, meaning: str, low: int, high: int, **rest: Any) -> Option:
    rest = {"json": _number(low, high), "text": "whole", **rest}
    return _option(name, meaning, lambda field, value: whole(field, value, low, high), **rest)


def _switch(name: str, meaning: str, **rest: Any) -> Option:
    rest = {"json": bool, "text": "switch", **rest}
    return _option(name, meaning, check_switch, **rest)


def _duration(name: str, meaning: str, *, allow_zero: bool = False, **rest: Any) -> Option:
    return _option(name, meaning, partial(duration, allow_zero=allow_zero), DURATION, **rest)


def _size(name: str, meaning: str, **rest: Any) -> Option:
    return _option(name, meaning, size, SIZE, **rest)


def _number(low: int, high: int) -> Any:
    return Annotated[int, Meta(ge=low, le=high)]


def _text(low: int, high: int, pattern: str | None = None) -> Any:
    return Annotated[str, Meta(min_length=low, max_length=high, pattern=pattern)]


def _list(item: Any, most: int) -> Any:
    return Annotated[GenericAlias(list, (item,)), Meta(max_length=most)]


def _mapping(key: Any, value: Any, most: int) -> Any:
    return Annotated[GenericAlias(dict, (key, value)), Meta(max_length=most)]


# --- types in JSON --------------------------------------------------------------------------------------------

NO_NUL = r"^[^\x00]*$"  # no store takes NUL
DURATION: Any = Annotated[float | _text(1, 32), Meta(description='Seconds, or text such as "250ms", "10m", "1h30m".')]
SIZE: Any = Annotated[
    _number(LEAST_SIZE, LARGEST_SIZE) | _text(1, 32), Meta(description='Bytes, or text such as "512MB", "1.5GiB".')
]
ADDRESS = Annotated[str, Meta(min_length=1, max_length=1_000, examples=["https://hc.example/abc"])]
NAME = Annotated[str, Meta(pattern=f"^{IDENTIFIER}$")]


_RETRY: Any = RetryPreset | Retry
_MISSED: Any = MissedRule | CatchUp

# --- the table ------------------------------------------------------------------------------------------------

_ENTRIES = (
    _option(
        "cron",
        "the schedule as a cron expression; a job without `cron`, `trigger` and `interval_minutes` runs on demand",
        None,
        field="trigger",
        stand_in="@daily",
        policy=False,
    ),
    _option(
        "trigger",
        "the schedule as a trigger object",
        None,
        see=": see [triggers](#triggers)",
        http=(
            HttpField(
                name="schedule",
                option="trigger",
                json=Annotated[str, Meta(max_length=500)],
                meaning="Cron (5 fields, or 6 with seconds first), `@every 30m`, or `@once 2030-01-01T00:00:00Z`.",
                read=trigger_of_text,
            ),
            HttpField(
                name="schedule_time",
                option="trigger",
                json=Annotated[str, Meta(max_length=500)],
                meaning="The same as `schedule`, by its older name.",
                read=trigger_of_text,
            ),
        ),
        nullable=True,
        policy=False,
    ),
    _option(
        "interval_minutes",
        "the schedule as a number of `interval_type` units between runs; takes precedence over a cron expression",
        None,
        _number(1, 52_560_000),
        field="trigger",
        text="whole",
        default="none",
        stand_in=1,
        nullable=True,
        policy=False,
    ),
    _option(
        "interval_type",
        'the unit of `interval_minutes`: `"minutes"`, `"hours"` or `"days"`',
        lambda field, value: choice(field, value, get_args(IntervalType)),
        IntervalType,
        nullable=True,
        policy=False,
    ),
    _option(
        "tz",
        "the time zone of the schedule and the windows",
        None,
        http=(
            HttpField(
                name="timezone",
                option="tz",
                json=Annotated[str, Meta(max_length=100)],
                meaning="An IANA name.",
            ),
        ),
        default="the setting `timezone`",
    ),
    _option(
        "params",
        "parameters of every run; a trigger or enqueue can add to or override them",
        None,
        Annotated[dict[str, Any], Meta(description="Parameters of the handler, checked against its signature.")],
        literal=True,
        policy=False,
    ),
    _option(
        "queue",
        "the queue of its executions; workers serve the queues in their setting `queues`",
        identifier,
        NAME,
        inherited="always",
        policy=False,
    ),
    _whole(
        "priority",
        "executions with a higher priority run first within their queue; from -32768 to 32767",
        -32_768,
        32_767,
        inherited="code",
    ),
    _whole(
        "max_attempts",
        "the number of attempts, including the first",
        1,
        MAX_ATTEMPTS,
        json=None,
        http=(
            HttpField(
                name="max_retries",
                option="max_attempts",
                json=_number(0, MAX_ATTEMPTS - 1),
                meaning=f"Attempts after the first one; {API_RETRIES} for new jobs.",
                read=attempts_of_retries,
                same_value=False,
            ),
        ),
        unattended=SCHEDULED_ATTEMPTS,
        setting="retry_max_attempts",
        inherited="code",
    ),
    _option(
        "retry",
        "the backoff between attempts",
        check_retry,
        _RETRY,
        see=": a preset or a `Retry(...)`, see below",
        http=(
            HttpField(
                name="retry_backoff_seconds",
                option="retry",
                json=Annotated[float, Meta(ge=0, le=MAX_DELAY)],
                meaning="Delay before the first retry, doubled for each further one up to an hour. Excludes `retry`.",
                read=api_backoff,
            ),
        ),
        default='`"queue"`',
        setting="retry_policy",
        inherited="code",
    ),
    _duration("timeout", "how long one attempt may take", nullable=True, inherited="always"),
    _duration(
        "run_timeout",
        "how long the whole run may take from its first start, including retries, backoff and tenants",
        default="the setting `run_timeout`, else none",
        setting="run_timeout",
        nullable=True,
        inherited="always",
    ),
    _option(
        "non_retryable",
        'exceptions that are never retried, given by name such as `"ValueError"`',
        check_exceptions,
        _list(_text(1, 200), 100),
        see=" or as classes",
        inherited="always",
    ),
    _choice(
        "overlap",
        "what happens when a run is due while another execution of the job is alive",
        Overlap,
        see=": see [overlap](#overlap)",
        unattended="skip",
        stand_in="allow",
        inherited="code",
    ),
    _whole(
        "overlap_limit",
        'with `overlap="allow"`: the maximum number of executions alive at once',
        1,
        MAX_OVERLAP,
        nullable=True,
        inherited="code",
    ),
    _option(
        "missed",
        'what happens to ticks found later than `grace`: `"skip"`, `"latest"`, `"all"`, or a catch-up with limits',
        check_missed,
        _MISSED,
        see=" (a `CatchUp`): see [time](time.md#missed-ticks)",
        default='`"skip"`; for a `once` trigger `"latest"`',
    ),
    _option(
        "missed_while_paused",
        "what happens to ticks that fall into a pause; takes the same values as `missed`",
        check_missed,
        _MISSED,
    ),
    _duration(
        "grace",
        "how late a tick may be found and still count as on time",
        allow_zero=True,
        default='one period, at most `"1m"`',
        nullable=True,
    ),
    _option(
        "window",
        'the range of data that a run covers, such as `"yesterday"`',
        check_window,
        Annotated[str, Meta(max_length=100)] | Offset | Limited,
        see=": `ctx.window`, see below",
        default="the setting `date_range_type`, else none",
        setting="date_range_type",
        nullable=True,
    ),
    _option(
        "hours",
        "when ticks may run, in the job's zone: times of day, weekdays and calendars; text sets the times of day only",
        check_hours,
        Annotated[str, Meta(max_length=500)] | Hours,
        see=": see [calendars](calendars.md)",
        default="always",
        nullable=True,
    ),
    _choice(
        "outside",
        'what happens to a tick outside `hours`: `"skip"`, or `"wait"` for the next opening',
        Outside,
    ),
    _switch("enabled", "false turns the schedule off; you can still trigger the job", json=None),
    _switch(
        "schedule_enabled",
        "the name of `enabled` over HTTP: false turns the schedule off; you can still trigger the job",
        field="enabled",
        default="`True`",
        policy=False,
    ),
    _option(
        "retention",
        "how long finished executions stay in the history",
        check_retention,
        Retention,
        see=": see below",
        default="`Retention()`",
        inherited="code",
    ),
    _option(
        "description",
        "one line that describes the job to people",
        check_description,
        Annotated[str, Meta(max_length=1_000, pattern=NO_NUL)],
        default="the docstring's first line",
        literal=True,
        policy=False,
    ),
    _option(
        "metadata", "your own data, stored with the job", check_mapping, dict[str, Any], literal=True, policy=False
    ),
    _option(
        "owner",
        "the team or person responsible for the job; you can filter lists by it",
        words,
        _text(1, LONGEST_VALUE, NO_NUL),
        default="none",
        nullable=True,
        inherited="always",
        literal=True,
        policy=False,
    ),
    _option(
        "tags",
        "labels that you can filter lists of jobs by",
        check_tags,
        _list(_text(1, LONGEST_TAG, NO_NUL), MOST_TAGS),
        literal=True,
        policy=False,
    ),
    _choice(
        "trigger_role",
        "the role that HTTP clients need to run, control or change the job; you cannot set a role above your own",
        TriggerRole,
        see=": see [security](security.md)",
        default='`"operator"`',
        nullable=True,
        inherited="always",
    ),
    _option(
        "search",
        "dotted paths of up to 10 parameters whose values become search keys of the job's executions",
        check_search,
        _list(Annotated[str, Meta(max_length=LONGEST_PATH, pattern=f"^{PATH}$")], MOST_KEYS),
        see=': `search=("order_id", "user.id")`, see [errors](errors.md#search-keys)',
        inherited="always",
    ),
    _option(
        "secret",
        "dotted paths of parameters whose values are never shown, in addition to parameters with a secret type; edits "
        "can only add paths",
        secret_params.check_secret,
        _list(
            Annotated[str, Meta(max_length=secret_params.LONGEST_PATH, pattern=f"^{secret_params.PATH}$")],
            secret_params.MOST_PATHS,
        ),
        see=': `secret=("api_key", "card.number")`, see [security](security.md#secret-parameters)',
        literal=True,
        inherited="always",
    ),
    _option(
        "limits",
        "how many executions with the same key may run at once or start per second",
        lambda field, value: check_limits(value),
        _list(Limit, MAX_LIMITS),
        see=': `Limit("api", rate="50/s")`, see [limits](limits.md)',
        inherited="always",
    ),
    _option(
        "weights",
        'how many turns each tenant gets in its queue: `{"acme": 3}`; `"*"` sets the weight of all other tenants',
        lambda field, value: check_weights(value),
        _mapping(_text(1, 200, NO_NUL), _number(1, MAX_WEIGHT), 1_000),
        default="`1` each",
        inherited="always",
    ),
    _option(
        "tenants",
        "the tenants that each run fans out to: a list, or a function that returns one",
        check_tenants,
        see=": see [tenants](tenants.md)",
        default="none",
        code_only=True,
        needs="tenants",
    ),
    _option(
        "tenant_context",
        "a function that returns a context manager, which is entered around the handler for each tenant",
        check_tenant_context,
        field="",
        default="the application's",
        code_only=True,
        policy=False,
    ),
    _whole(
        "tenant_concurrency",
        "how many tenants of one run may run at the same time",
        1,
        MAX_CONCURRENCY,
        default="no limit",
        setting="tenant_concurrency",
        nullable=True,
        needs="tenants",
    ),
    _whole(
        "tenant_max_attempts",
        "the number of attempts of each tenant",
        1,
        MAX_ATTEMPTS,
        setting="tenant_max_attempts",
        needs="tenants",
    ),
    _option(
        "tenant_retry",
        "the backoff between the attempts of a tenant",
        check_retry,
        _RETRY,
        default='`"tenant"`',
        setting="tenant_retry",
        needs="tenants",
    ),
    _switch(
        "continue_on_failure",
        "false: when a tenant fails for good, the tenants that have not started are cancelled",
        setting="tenant_continue_on_failure",
        needs="tenants",
    ),
    _option(
        "ping",
        "URLs to request when a run starts, succeeds or fails, so that an external monitor notices when runs stop; "
        "a single URL is requested on success",
        lambda field, value: check_ping(value),
        ADDRESS | PingAddresses,
        see=": see [alerts](alerts.md#dead-mans-switch)",
        nullable=True,
    ),
    _option(
        "after",
        "the parent jobs: this job runs once all of them have ended",
        lambda field, value: parents_in(value),
        _list(NAME, MAX_PARENTS),
        see=": see [dependencies](dependencies.md)",
        nullable=True,
        policy=False,
    ),
    _choice(
        "on_failed_parent",
        'what happens when a parent job did not complete: `"skip"` or `"run"`',
        FailedParent,
        needs="after",
    ),
    _option(
        "not_before",
        'the earliest time of day, in the job\'s zone, to start after the parent jobs, such as `"06:00"`',
        lambda field, value: time_of_day(field, value).isoformat(),
        Annotated[str, Meta(max_length=20, examples=["06:00"])],
        nullable=True,
        needs="after",
    ),
    _choice(
        "isolation",
        'where the handler runs: `"process"` is a child process that can be stopped and measured, `"thread"` is for '
        "plain functions; coroutines run on the event loop unless you set this option",
        Isolation,
        see=": see [isolation](isolation.md)",
        default="the setting `default_isolation`",
        nullable=True,
        inherited="always",
        stand_in="process",
    ),
    _duration(
        "max_cpu",
        'with `isolation="process"`: the CPU time that one attempt may use',
        nullable=True,
        inherited="always",
        needs="isolation",
    ),
    _size(
        "max_memory",
        'with `isolation="process"`: the memory that one attempt may hold, including its own child processes',
        nullable=True,
        inherited="always",
        needs="isolation",
    ),
    _size(
        "max_address_space",
        'with `isolation="process"`: the address space of the process; allocations beyond it raise `MemoryError`',
        nullable=True,
        inherited="always",
        needs="isolation",
    ),
    _switch(
        "allow_override",
        "for tests: true replaces a job of the same name instead of refusing the declaration",
        json=None,
        field="",
        default="`False`",
        code_only=True,
        policy=False,
    ),
)

OPTIONS: dict[str, Option] = {option.name: option for option in _ENTRIES}
"""Every option by its name."""

HTTP_FIELDS: dict[str, HttpField] = {field.name: field for option in _ENTRIES for field in option.http_fields}
"""Every field of the HTTP interface that sets an option, by its name there."""

EDITABLE = tuple(option.name for option in _ENTRIES if not option.code_only)
"""What operators can set."""


PROCESS_LIMITS = frozenset(option.name for option in _ENTRIES if option.needs == "isolation")
"""The options that only a handler in a process of its own can obey."""


def inherited_options(*, by: Literal["code", "http"]) -> frozenset[str]:
    """The options that a further job of a handler takes over from the handler's own job."""
    wanted = ("always",) if by == "http" else ("always", "code")
    return frozenset(option.name for option in _ENTRIES if option.inherited in wanted)


def with_inherited(inherited: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a further job, with those that it takes over. Its secrets are added to those it takes over,
    because they concern the parameters of the same handler."""
    return {**inherited_under(inherited, given), **given, **joined_secrets(inherited, given)}


def joined_secrets(*options: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The option `secret` of all of these together; none if none of them has it."""
    named = [secret_params.check_secret("secret", each["secret"]) for each in options if each.get("secret") is not None]
    return {"secret": secret_params.union(*named)} if named else {}


def inherited_under(inherited: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What a further job takes over beside the options it names: no limit that needs what it has named otherwise."""
    dropped = set()
    if given.get("overlap") is not None:
        dropped.add("overlap_limit")
    if given.get("isolation") == "thread":
        dropped |= PROCESS_LIMITS
    return {name: value for name, value in inherited.items() if name not in dropped}


def policy_fields(*, tenants: bool) -> tuple[str, ...]:
    """The fields of a specification that make up the `policy` of a job; rules for tenants only if it has any."""
    return tuple(each.field for each in _ENTRIES if each.policy and (tenants or each.needs != "tenants"))


def refuse_unknown(given: Mapping[Any, Any], known: Iterable[str], field: str) -> None:
    """Raise `InvalidValue` for the first name that is not known, with a suggestion."""
    allowed = tuple(known)
    for name, value in given.items():
        if name not in allowed:
            remedy = suggestion(name, value, allowed)
            listed = f"a known {field}" if remedy and len(allowed) > MOST_LISTED else ", ".join(allowed)
            raise InvalidValue(field, name, listed, remedy)


def known_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a declaration, none of them unknown."""
    refuse_unknown(options, OPTIONS, "option")
    return dict(options)
