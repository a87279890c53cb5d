"""The policies of a job: retries, overlap, catch-up, uniqueness, retention. Plain data with its arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import msgspec

from .defaults import ENQUEUED_ATTEMPTS, TENANT_ATTEMPTS
from .errors import InvalidValue, nearest, one_of
from .values.given import Duration, Several
from .values.payload import presentable
from .values.reading import OptionFields, choice, duration, whole

Overlap: TypeAlias = Literal["skip", "queue", "allow", "cancel_running"]
MissedRule: TypeAlias = Literal["skip", "latest", "all"]
FailedParent: TypeAlias = Literal["skip", "run"]
TriggerRole: TypeAlias = Literal["operator", "admin"]
Isolation: TypeAlias = Literal["thread", "process"]
RetryPreset: TypeAlias = Literal["queue", "tenant", "patient"]

Ending: TypeAlias = Literal["completed", "partial", "failed", "cancelled", "skipped"]

ENDINGS = get_args(Ending)
MAX_DELAY = 30 * 86_400.0
MAX_ATTEMPTS = 1_000
MAX_DELAYS = 100
MAX_OVERLAP = 1_000
MAX_CAUGHT_UP = 1_000

RETRY_PRESETS: dict[str, dict[str, float | None]] = {
    "queue": {"initial": 2.0, "multiplier": 2.0, "max": None},
    "tenant": {"initial": 5.0, "multiplier": 2.0, "max": 60.0},
    "patient": {"initial": 60.0, "multiplier": 2.0, "max": 3600.0},
}


class Retry(msgspec.Struct, metaclass=OptionFields, frozen=True):
    """The backoff between the attempts of an execution.

    `Retry("patient")` is a preset and waits 60, 120, 240, ... 3600 s. Or choose the values yourself:
    `Retry(initial="1s", multiplier=3, max="1m", jitter=0.1)`. `jitter` varies each delay by up to that share in both
    directions. `Retry(delays=["5s", "5m", "2h"])` names each delay; the last one repeats.
    """

    initial: float | str = 2.0
    """The first delay; in seconds once it is read. Or the name of a preset: `queue`, `tenant`, `patient`."""
    multiplier: float | None = None
    """The factor by which each delay is longer than the one before."""
    max: float | str | None = None
    """The longest delay."""
    jitter: float = 0.0
    """The share, from 0 to 1, by which each delay varies at random in both directions."""
    delays: tuple[float | str, ...] = ()
    """Each delay by itself; the last one repeats. Use it instead of `initial`, `multiplier` and `max`."""

    if TYPE_CHECKING:  # the constructor takes more types than the fields have afterwards

        def __init__(
            self,
            initial: Duration = 2.0,
            multiplier: float | None = None,
            max: Duration | None = None,
            jitter: float = 0.0,
            delays: Several[Duration] = (),
        ) -> None: ...

    def __post_init__(self) -> None:
        if not isinstance(self.jitter, int | float) or not 0 <= self.jitter <= 1:
            raise InvalidValue("retry.jitter", self.jitter, "a share from 0 to 1")
        msgspec.structs.force_setattr(self, "jitter", float(self.jitter))
        msgspec.structs.force_setattr(self, "delays", _checked_delays(self))
        preset = RETRY_PRESETS.get(self.initial, {}) if isinstance(self.initial, str) else {}
        if isinstance(self.initial, str) and self.initial.isalpha() and not preset:
            allowed = f"{one_of(map(repr, RETRY_PRESETS))}, or a first pause such as '2s'"
            raise InvalidValue("retry.initial", self.initial, allowed)
        initial = duration("retry.initial", preset.get("initial", self.initial), allow_zero=True)
        multiplier = preset.get("multiplier", 2.0) if self.multiplier is None else self.multiplier
        limit = preset.get("max") if self.max is None else self.max
        if not isinstance(multiplier, int | float) or not 1 <= multiplier <= 100:
            raise InvalidValue("retry.multiplier", multiplier, "a number from 1 to 100")
        msgspec.structs.force_setattr(self, "initial", initial)
        msgspec.structs.force_setattr(self, "multiplier", float(multiplier))
        msgspec.structs.force_setattr(self, "max", None if limit is None else duration("retry.max", limit))

    def delay(self, failures: int, roll: float = 0.5) -> float:
        """Seconds to wait after the given number of failures; `roll` in [0, 1) decides the jitter."""
        spread = 1 + self.jitter * (2 * roll - 1)
        if self.delays:
            named = self.delays[min(failures, len(self.delays)) - 1]
            assert isinstance(named, float)
            return min(named, MAX_DELAY) * spread
        assert isinstance(self.initial, float)
        assert self.max is None or isinstance(self.max, float)
        limit = MAX_DELAY if self.max is None else min(self.max, MAX_DELAY)
        growth = (self.multiplier or 1.0) ** min(failures - 1, 100)
        return min(self.initial * growth, limit) * spread


def _checked_delays(retry: Retry) -> tuple[float, ...]:
    """The named delays in seconds. They replace the growing ones, so both together are a mistake."""
    given = retry.delays
    if not isinstance(given, list | tuple) or len(given) > MAX_DELAYS:
        raise InvalidValue("retry.delays", presentable(given), f"a list of at most {MAX_DELAYS} durations")
    if given and (retry.initial != 2.0 or retry.multiplier not in (None, 2.0) or retry.max is not None):
        allowed = "no initial, multiplier or max together with delays"
        raise InvalidValue("retry.delays", presentable(given), allowed, "Name every delay, or none")
    return tuple(duration("retry.delays", each, allow_zero=True) for each in given)


class CatchUp(msgspec.Struct, metaclass=OptionFields, frozen=True, omit_defaults=True):
    """What happens to missed ticks: `skip` runs none of them, `latest` the last one, `all` the newest `max_runs`.

    Ticks older than `max_age` do not run. With `all`, the runs are due one after another, `pace` apart:
    `CatchUp("all", max_age="7d", max_runs=50, pace="10s")`.
    """

    rule: MissedRule
    """`skip` runs no missed tick, `latest` the last one, `all` the newest `max_runs`."""
    max_age: float | str | None = None
    """Ticks older than this do not run."""
    max_runs: int = 100
    """How many ticks run at most, with `all`."""
    pace: float | str = 5.0
    """The time between two of these runs, with `all`."""

    def __post_init__(self) -> None:
        choice("catch_up.rule", self.rule, get_args(MissedRule))
        age = None if self.max_age is None else duration("catch_up.max_age", self.max_age)
        whole("catch_up.max_runs", self.max_runs, 1, MAX_CAUGHT_UP)
        msgspec.structs.force_setattr(self, "max_age", age)
        msgspec.structs.force_setattr(self, "pace", duration("catch_up.pace", self.pace, allow_zero=True))
        for field in self.__struct_fields__[1:]:
            if getattr(self, field) != _NO_LIMITS[field] and field not in _LIMITS_OF[self.rule]:
                remedy = (
                    "Use 'all', or leave it out" if field != "max_age" else "Use 'latest' or 'all', or leave it out"
                )
                given = getattr(self, field)
                raise InvalidValue(f"catch_up.{field}", given, f"no {field} together with {self.rule!r}", remedy)

    @property
    def age_limit(self) -> float | None:
        """Seconds."""
        return self.max_age  # type: ignore[return-value]  # __post_init__ made it a number

    @property
    def seconds_between(self) -> float:
        """`pace` in seconds."""
        return self.pace  # type: ignore[return-value]  # __post_init__ made it a number


_NO_LIMITS: dict[str, Any] = {"max_age": None, "max_runs": 100, "pace": 5.0}
_LIMITS_OF: dict[str, tuple[str, ...]] = {
    "skip": (),
    "latest": ("max_age",),
    "all": ("max_age", "max_runs", "pace"),
}


def as_catch_up(value: MissedRule | CatchUp) -> CatchUp:
    """The rule with its limits; a rule without limits is stored as its name."""
    return value if isinstance(value, CatchUp) else _PLAIN_RULES[value]


_PLAIN_RULES: dict[str, CatchUp] = {name: CatchUp(name) for name in get_args(MissedRule)}


def check_missed(field: str, value: Any) -> MissedRule | CatchUp:
    """Check a rule for missed ticks. A rule without limits of its own is stored as its name."""
    if isinstance(value, Mapping):
        value = _read_catch_up(field, value)
    if isinstance(value, CatchUp):
        return value.rule if value == _PLAIN_RULES[value.rule] else value
    if isinstance(value, str) and value in _PLAIN_RULES:
        return value  # type: ignore[return-value]
    names = ", ".join(repr(name) for name in _PLAIN_RULES)
    raise InvalidValue(field, value, f'{names}, or CatchUp("all", max_age="7d", max_runs=50, pace="10s")')


def _read_catch_up(field: str, value: Mapping[Any, Any]) -> CatchUp:
    """Read the JSON form: `{"rule": "all", "max_age": "7d"}`."""
    fields = CatchUp.__struct_fields__
    unknown = [name for name in value if name not in fields]
    if unknown or "rule" not in value:
        wrong = f"there is no {unknown[0]!r}" if unknown else "rule is missing"
        raise InvalidValue(field, dict(value), f"an object of {', '.join(fields)}; {wrong}")
    with _named("catch_up", field):
        return CatchUp(**value)


@contextmanager
def _named(own: str, field: str) -> Iterator[None]:
    """Errors about a part of an option name the option that was given."""
    try:
        yield
    except InvalidValue as error:
        renamed = field + error.field.removeprefix(own)
        raise InvalidValue(renamed, error.value, error.allowed, error.remedy) from None


class Unique(msgspec.Struct, metaclass=OptionFields, frozen=True, forbid_unknown_fields=True):
    """A unique key with options. An execution holds the key `enqueued` until its first claim, `running` from then on.

    With `Unique("k", for_="24h")` it holds the key until it ends, and for at least 24 hours. With
    `Unique("k", debounce="5s")` several enqueues make one execution, 5 seconds after the last and with its parameters.
    """

    enqueued: str | None = None
    """The key that an execution holds until its first claim; without `running`, until it ends."""
    running: str | None = None
    """The key that an execution holds from its first claim until it ends."""
    for_: float | str | None = None
    """For how long after the enqueue the execution holds the key at least."""
    debounce: float | str | None = None
    """How long after the last enqueue the execution runs; each enqueue replaces the parameters of the one before."""

    def __post_init__(self) -> None:
        self._check_keys()
        for field in ("for_", "debounce"):
            value = getattr(self, field)
            if value is None:
                continue
            if self.enqueued is None or self.running is not None or None not in (self.for_, self.debounce):
                example = f'Unique("key", {field}={value!r})'
                raise InvalidValue(f"unique.{field}", value, "one key and one period", f"Write {example}")
            msgspec.structs.force_setattr(self, field, duration(f"unique.{field}", value))

    @property
    def lasting(self) -> bool:
        """Whether the key is held for a period, and not only while an execution is live."""
        return self.for_ is not None or self.debounce is not None

    def _check_keys(self) -> None:
        for field in ("enqueued", "running"):
            key = getattr(self, field)
            if key is not None and (not isinstance(key, str) or not 1 <= len(key) <= 500 or not key.isprintable()):
                raise InvalidValue(f"unique.{field}", key, "printable text of 1 to 500 characters, or None")


class Retention(msgspec.Struct, metaclass=OptionFields, frozen=True):
    """How long ended executions stay. An execution is deleted only if it is both old and not among the newest.

    `by_state` overrides the days of single states: `Retention(by_state={"failed": 90, "completed": 3})`.
    """

    newest: int = 100
    """How many of the newest executions of a job stay, however old they are."""
    days: float = 30.0
    """How many days a finished execution stays."""
    on_demand_success_days: float = 7.0
    """How many days a successful execution of a job without a schedule stays."""
    skipped_days: float = 7.0
    """How many days a skipped execution stays."""
    at_most: int | None = None
    """The maximum number of ended executions of a job that stay, however recent they are; None for no limit."""
    keep_success: bool = True
    """False deletes an execution as soon as it has completed."""
    by_state: dict[Ending, float] = {}
    """Days for single states, instead of `days`: `{"failed": 90}`."""

    def __post_init__(self) -> None:
        for field in ("newest", "days", "on_demand_success_days", "skipped_days"):
            value = getattr(self, field)
            if not isinstance(value, int | float) or not value >= 0:
                raise InvalidValue(f"retention.{field}", value, "a number from 0 up")
        for state, days in self.by_state.items():
            if state not in ENDINGS or not isinstance(days, int | float) or not days >= 0:
                allowed = f"days from 0 up for {', '.join(ENDINGS)}"
                raise InvalidValue("retention.by_state", f"{state}: {days}", allowed)
        if self.at_most is not None and (not isinstance(self.at_most, int) or self.at_most < 1):
            raise InvalidValue("retention.at_most", self.at_most, "a whole number from 1 up, or None")


class FanOut(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the tenants of one parent run: the attempts of each, how many run at once, and whether the others continue
    when one has failed for good."""

    max_attempts: int = TENANT_ATTEMPTS
    retry: Retry = Retry("tenant")
    concurrency: int | None = None
    continue_on_failure: bool = True
    chosen: bool = False
    """The caller chose some of the tenants: the execution does not cover its window."""


class RunPolicy(msgspec.Struct, frozen=True, omit_defaults=True):
    """The rules of one execution, copied from its job when it is created."""

    max_attempts: int = ENQUEUED_ATTEMPTS
    retry: Retry = Retry()
    timeout: float | None = None
    non_retryable: tuple[str, ...] = ()
    overlap: Overlap = "allow"
    follow_up: bool = False
    keep_success: bool = True
    feeds: bool = False
    """Other jobs follow this one: its endings are handed over to them."""
    fan_out: FanOut | None = None
    """Of a parent: instead of the handler, one child execution runs for each tenant."""
    fail_fast: bool = False
    """Of a tenant: when it has failed for good, its siblings that have not started are cancelled."""
    ping: tuple[tuple[str, str], ...] = ()
    """Addresses to request when it starts, succeeds or fails: see `core.rules.pings`."""
    tz: str = "UTC"
    """The zone in which its window is shown."""
    run_timeout: float | None = None
    """Seconds from its first start to its end, whatever happens in between."""
    isolation: Isolation | None = None
    """Where the handler runs; None: a coroutine on the event loop, a plain function in a thread."""
    max_cpu: float | None = None
    """Seconds of processor time that one attempt may use. This and the next two need `isolation="process"`."""
    max_memory: int | None = None
    """Bytes that the process of the handler and its own children may hold together."""
    max_address_space: int | None = None
    """Bytes of address space; the handler gets a `MemoryError` beyond."""
    search: tuple[str, ...] = ()
    """Paths into the parameters whose values are its search keys."""
    secret: tuple[str, ...] = ()
    """Paths into the parameters whose values are never shown: see `core.rules.secret_params`."""


def check_retry(field: str, value: Any) -> Retry:
    """A `Retry`, its JSON form, or the name of a preset."""
    if isinstance(value, Retry):
        return value
    if isinstance(value, Mapping):
        for name in value:
            if name not in Retry.__struct_fields__:
                guess = nearest(str(name), Retry.__struct_fields__)
                remedy = f"Did you mean {guess!r}?" if guess else ""
                allowed = f"fields of Retry: {', '.join(Retry.__struct_fields__)}"
                raise InvalidValue(field, presentable(name), allowed, remedy)
        with _named("retry", field):
            return Retry(**value)
    if isinstance(value, str):
        try:
            return Retry(value)
        except InvalidValue:
            pass
    allowed = "a Retry(...), or 'queue', 'tenant' or 'patient'"
    raise InvalidValue(field, presentable(value), allowed, _retry_remedy(value))


def _retry_remedy(value: Any) -> str:
    if isinstance(value, int):
        return f"The number of attempts is max_attempts={value}"
    guess = nearest(value, RETRY_PRESETS) if isinstance(value, str) else None
    return f"Did you mean {guess!r}?" if guess else ""
