"""What the doctor knows: facts in groups, each gathered once, or missing for a reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from ...model.calendars.calendar import Calendar
from ...model.controls import Control
from ...model.job import Job
from ...model.store.inspection import MongoFacts, PostgresFacts, RedisFacts, SqliteFacts
from ...model.store.messages import StorageSize
from ...model.time.instants import Micros
from ..access.api_tokens import TokenView
from ..deploys.records import Conflict
from ..errors.commands import ErrorGroupView
from ..rules import problem_facts
from .schema_diff import Difference

Group: TypeAlias = Literal[
    "configuration",
    "settings",
    "declarations",
    "machine",
    "database",
    "schema",
    "objects",
    "sqlite",
    "postgres",
    "mongo",
    "redis",
    "live",
    "jobs",
]


class ConfigurationFacts(msgspec.Struct, frozen=True):
    """Why arguments, environment or configuration file are refused; empty if they are not."""

    error: str = ""


class SettingFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that checks look at, by their names. `sources` says where each that was given came from, and
    `refused` why the HTTP interface would not start with them."""

    database_url: str
    roles: tuple[str, ...]
    uvloop: bool | str
    concurrency: int
    poll_interval: float
    lease: float
    heartbeat: float
    wakeups: bool
    stop_timeout: float
    log_level: str
    locks: str
    redis_url: str | None
    redis_wakeups: bool
    host: str
    metrics_port: int | None
    private_urls: bool
    sys_allow: tuple[str, ...]
    trusted_proxies: tuple[str, ...]
    allow_loopback: bool
    jwt_audience: str | None
    audit_retention: float | None
    authenticates: bool
    takes_jwt: bool
    sources: Mapping[str, str] = {}
    refused: str = ""


class MachineFacts(msgspec.Struct, frozen=True, kw_only=True):
    """This machine and the environment of this process. `missing` are packages that settings ask for: setting, package
    and extra. `shadowed` are variables without effect, each with what is used instead. `zones` is the release of the
    time zone data, such as `2026a`; empty if there is none."""

    year: int
    zones: str = ""
    zones_known: bool = True
    missing: Sequence[tuple[str, str, str]] = ()
    descriptors: int | None = None
    shadowed: Sequence[tuple[str, str]] = ()
    config_above: str | None = None


class DatabaseFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The database of the settings. `error` says why it cannot be used: it is `absent`, does not answer, or refuses."""

    name: str
    kind: str
    error: str = ""
    problem: Literal["", "absent", "unreachable", "refused", "process_only"] = ""


class SchemaFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Where the schema stands: see `model.store.schema`."""

    required: int
    newest: int
    pending: Sequence[int] = ()
    outdated: Sequence[str] = ()


class ObjectFacts(msgspec.Struct, frozen=True, kw_only=True):
    """How the objects of the schema differ from those of this release, and the statements that repair it."""

    differences: Sequence[Difference] = ()
    script: str = ""


class LiveFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What runs on the database: the facts behind `mainspring problems`, and what else checks look at."""

    now: Micros
    problems: problem_facts.Facts
    conflicts: Sequence[Conflict] = ()
    tokens: Sequence[TokenView] = ()
    muted: Sequence[ErrorGroupView] = ()
    paused: Mapping[tuple[str, str], Control] = {}
    size: StorageSize = StorageSize(kind="")


class JobFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it is stored, or as the application declares it if it is not stored. `average_ms` is how long its last
    runs took on average, over `runs` of them."""

    job: Job
    average_ms: float | None = None
    runs: int = 0


class JobsFacts(msgspec.Struct, frozen=True, kw_only=True):
    """`unreadable` are jobs that this release cannot read, each with the zone that it names. `declared` are the jobs of
    the application, None without one."""

    now: Micros
    jobs: Sequence[JobFacts] = ()
    unreadable: Sequence[tuple[str, str]] = ()
    calendars: Mapping[str, Calendar] = {}
    declared: frozenset[str] | None = None


class DeclarationFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The application that was named: why its declarations are refused, or only its isolated jobs."""

    error: str = ""
    isolation_error: str = ""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Groups that are None do not apply here, or could not be gathered: then `unknown` says why."""

    configuration: ConfigurationFacts | None = None
    settings: SettingFacts | None = None
    machine: MachineFacts | None = None
    database: DatabaseFacts | None = None
    schema: SchemaFacts | None = None
    objects: ObjectFacts | None = None
    sqlite: SqliteFacts | None = None
    postgres: PostgresFacts | None = None
    mongo: MongoFacts | None = None
    redis: RedisFacts | None = None
    live: LiveFacts | None = None
    jobs: JobsFacts | None = None
    declarations: DeclarationFacts | None = None
    unknown: Mapping[Group, str] = {}
