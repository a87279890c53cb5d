"""`mainspring doctor`: gathers the facts about an installation, each once, and examines them. It changes nothing.

The store is opened without migrating and without declaring jobs; the schema is compared by the stores' `inspect`
modules, which only read. Whatever cannot be gathered is recorded with its reason, and the rest goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ..app.adapters import SystemClock
from ..app.mainspring import Mainspring
from ..config.doctor_facts import setting_facts
from ..config.settings import Settings
from ..core.doctor.checks import CHECKS
from ..core.doctor.examination import Report, examine
from ..core.doctor.facts import (
    ConfigurationFacts,
    DatabaseFacts,
    DeclarationFacts,
    Facts,
    Group,
    ObjectFacts,
    SchemaFacts,
)
from ..core.doctor.live_facts import Declared, declared_jobs, live_facts, stored_jobs
from ..core.doctor.schema_diff import differences, repair_script
from ..model.errors import ConfigurationError, InvalidValue, MainspringError, StoreError, StoreUnavailable
from ..model.store.inspection import SchemaObjects, ServerFacts
from ..model.values.database_url import parse_url, without_password
from . import machine, schema

PATIENCE = 30.0
"""Seconds that each group of facts may take."""
_FROM_DATABASE: tuple[Group, ...] = ("schema", "objects", "sqlite", "postgres", "mongo", "live", "jobs")
_OF_KIND: dict[str, Group] = {"sqlite": "sqlite", "postgresql": "postgres", "mongodb": "mongo"}


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    """What is examined. `settings` are None if they are refused, and `url` if the database is not known: then
    `no_database` says why."""

    settings: Settings | None = None
    url: str | None = None
    no_database: str = ""
    app: Mainspring | None = None
    configuration: ConfigurationFacts = ConfigurationFacts()
    declarations: DeclarationFacts | None = None


async def examine_installation(installation: Installation) -> Report:
    gathering = _Gathering(installation)
    await gathering.run()
    facts = Facts(
        configuration=installation.configuration,
        declarations=installation.declarations,
        **gathering.found,
        unknown=gathering.unknown,
    )
    return examine(CHECKS, facts)


class _Gathering:
    """Collects the facts, group by group."""

    def __init__(self, installation: Installation) -> None:
        self._settings, self._url, self._app = installation.settings, installation.url, installation.app
        self._no_database = installation.no_database
        self.found: dict[str, Any] = {}
        self.unknown: dict[Group, str] = {}

    async def run(self) -> None:
        settings = self._settings
        if settings is None:
            self.unknown["settings"] = "the settings are not valid"
        else:
            self.found["settings"] = setting_facts(settings, own_store=self._url is None)
        arguments = {} if self._app is None else self._app._runtime.arguments
        self.found["machine"] = machine.facts(settings or Settings(), self._url, arguments)
        await self._redis()
        declared = self._declared()
        if await self._reached():
            await self._schema()
            await self._live(declared)
        if "jobs" not in self.found and declared is not None:
            self.found["jobs"] = declared_jobs(declared, SystemClock().now())

    def _declared(self) -> Declared | None:
        """The jobs of the application; None without one, or if it could not be loaded."""
        if self._app is None:
            return None
        runtime = self._app._runtime
        try:
            runtime.import_modules()
            return runtime.registry.declared_jobs(
                runtime.settings.lookup, runtime.settings.timezone, runtime.settings.job_defaults
            )
        except MainspringError:  # reported as a fact about the application
            return None

    # --- the database -----------------------------------------------------------------------------------------
    async def _reached(self) -> bool:
        """Whether the database answers; gathers the facts about its server."""
        if self._url is None:
            self._unknown(self._no_database, "database", *_FROM_DATABASE)
            return False
        kind, name = parse_url(self._url).scheme, without_password(self._url)
        if kind == "memory":
            self.found["database"] = DatabaseFacts(name=name, kind=kind, problem="process_only")
            return False
        lacking = next((each for each in self.found["machine"].missing if each[0] == "database_url"), None)
        if lacking is not None:
            self._unknown(f"the package {lacking[1]} is not installed", "database", *_FROM_DATABASE)
            return False
        database, server = await _server(kind, name, self._url)
        self.found["database"] = database
        if server is None:
            self._unknown("the database cannot be used", "schema", "objects", _OF_KIND[kind], "live", "jobs")
            return False
        self.found[_OF_KIND[kind]] = server
        return True

    async def _schema(self) -> None:
        url = self._url or ""
        status = await self._try(lambda: schema.status(url), "schema", "objects")
        if status is None:
            return
        self.found["schema"] = SchemaFacts(
            required=status.required, newest=status.newest, pending=status.pending, outdated=status.outdated
        )
        if not status.required or status.required > status.newest or status.pending:
            self.unknown["objects"] = "the schema is not that of this release"
            return
        objects = await self._try(lambda: _objects(url), "objects")
        if objects is not None:
            found = differences(objects)
            self.found["objects"] = ObjectFacts(differences=found, script=repair_script(objects, found))

    async def _live(self, declared: Declared | None) -> None:
        reason = self._not_to_open()
        if reason:
            self._unknown(reason, "live", "jobs")
            return
        app = Mainspring(self._url, auto_migrate=False, prune=False, wakeups=False, redis_wakeups=False, locks="store")
        try:
            parts = await self._try(lambda: app._runtime.ready(declare=False), "live", "jobs")
            if parts is None:
                return
            live = await self._try(
                lambda: live_facts(parts),
                "live",
            )
            jobs = await self._try(lambda: stored_jobs(parts.store, parts.calendars, declared), "jobs")
            self.found |= {name: facts for name, facts in (("live", live), ("jobs", jobs)) if facts is not None}
        finally:
            await app.close()

    def _not_to_open(self) -> str:
        """Why the store must not be opened: that would fail, or change the database."""
        status: SchemaFacts | None = self.found.get("schema")
        if self._settings is None:
            return "the settings are not valid"
        if status is None or not status.required or status.pending or status.outdated:
            return "the schema is not up to date"
        file = self.found.get("sqlite")
        return "" if file is None or file.journal_mode == "wal" else "opening the file would change its journal mode"

    async def _redis(self) -> None:
        settings = self._settings
        if settings is None or settings.redis_url is None:
            return
        if any(each[0] == "redis_url" for each in self.found["machine"].missing):
            self.unknown["redis"] = "the package redis is not installed"
            return
        from ..redis.inspect import facts

        found = await self._try(lambda: facts(settings.redis_url), "redis")
        if found is not None:
            self.found["redis"] = found

    # --- what fails -------------------------------------------------------------------------------------------
    async def _try(self, read: Callable[[], Awaitable[Any]], *groups: Group) -> Any:
        """What was read; None if it failed, which is then the reason why these groups are unknown."""
        try:
            async with asyncio.timeout(PATIENCE):
                return await read()
        except TimeoutError:
            self._unknown(f"reading took more than {PATIENCE:.0f} s", *groups)
        except MainspringError as error:
            self._unknown(str(error), *groups)
        except Exception as error:  # whatever it is, the other groups are gathered
            self._unknown(f"{type(error).__name__}: {error}", *groups)
        return None

    def _unknown(self, reason: str, *groups: Group) -> None:
        self.unknown |= dict.fromkeys(groups, reason)


async def _server(kind: str, name: str, url: str) -> tuple[DatabaseFacts, ServerFacts | None]:
    """Whether the database answers, and the facts about it if it does."""
    if kind == "sqlite" and (missing := _absent_file(url)):
        return DatabaseFacts(name=name, kind=kind, problem="absent", error=missing), None
    try:
        async with asyncio.timeout(PATIENCE):
            return DatabaseFacts(name=name, kind=kind), await _FACTS[kind](url)
    except (StoreUnavailable, TimeoutError, OSError) as error:
        words = str(error) or f"{name} does not answer within {PATIENCE:.0f} s"
        return DatabaseFacts(name=name, kind=kind, problem="unreachable", error=words), None
    except (StoreError, ConfigurationError, InvalidValue) as error:
        return DatabaseFacts(name=name, kind=kind, problem="refused", error=str(error)), None


def _absent_file(url: str) -> str:
    path = Path(parse_url(url).path)
    return "" if path.exists() else f"there is no file {str(path)!r}"


async def _objects(url: str) -> SchemaObjects:
    return await _OBJECTS[parse_url(url).scheme](url)


# --- each kind of database: drivers are imported only when they are needed --------------------------------------------


async def _sqlite_facts(url: str) -> ServerFacts:
    from ..stores.sqlite.inspect import facts

    return await asyncio.to_thread(facts, parse_url(url).path)


async def _postgres_facts(url: str) -> ServerFacts:
    from ..stores.postgres.inspect import facts

    return await facts(url)


async def _mongo_facts(url: str) -> ServerFacts:
    from ..stores.mongo.inspect import facts

    return await facts(url)


async def _sqlite_objects(url: str) -> SchemaObjects:
    from ..stores.sqlite.inspect import schema_objects

    return await asyncio.to_thread(schema_objects, parse_url(url).path)


async def _postgres_objects(url: str) -> SchemaObjects:
    from ..stores.postgres.inspect import schema_objects

    return await schema_objects(url)


async def _mongo_objects(url: str) -> SchemaObjects:
    from ..stores.mongo.inspect import schema_objects

    return await schema_objects(url)


_FACTS: Mapping[str, Callable[[str], Awaitable[ServerFacts]]] = {
    "sqlite": _sqlite_facts,
    "postgresql": _postgres_facts,
    "mongodb": _mongo_facts,
}
_OBJECTS: Mapping[str, Callable[[str], Awaitable[SchemaObjects]]] = {
    "sqlite": _sqlite_objects,
    "postgresql": _postgres_objects,
    "mongodb": _mongo_objects,
}
