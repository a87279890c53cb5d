"""The namespaces of the application object: `app.calendars`, `app.templates`, `app.backfills` and the like."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypedDict, Unpack

from ..core.access.api_tokens import NewToken, TokenView
from ..core.commands.hooks import HookView, HookWithSecret
from ..core.commands.templates import Template
from ..core.commands.tenant_retries import TenantRun
from ..core.declaring.options import JobOptions
from ..core.declaring.places import declaring
from ..core.jobs.calendars import CalendarView
from ..core.locks import suggested_ttl
from ..core.monitoring.busy_tenants import TenantOrder, TenantView
from ..core.queries.queries import id_of
from ..core.views.execution import Execution
from ..core.views.job import JobView
from ..core.views.records import Backfill, LockPage, LockView, backfill_view, lock_view
from ..model.backfill import Only, Order
from ..model.calendars.calendar import CalendarEntries, calendar
from ..model.execution import Status
from ..model.values.access import RoleName
from ..model.values.given import Duration, Instant
from ..model.values.reading import duration, identifier, whole
from ..model.values.webhook_signatures import Style
from .runtime import Runtime


class BackfillOptions(TypedDict, total=False):
    """The options of a backfill. All of them are optional."""

    params: Mapping[str, Any] | None
    """Parameters of every run, which add to or override those of the job."""
    order: Order
    """Whether the oldest or the newest window runs first."""
    concurrency: int
    """How many windows run at once."""
    pace: Duration | None
    """The time between the starts of two windows."""
    only: Only
    """Whether to run only the missing windows, only the failed ones, or both (`"holes"`, the default)."""
    force: bool
    """Whether to run the windows that are done too."""
    dry_run: bool
    """Whether to list the windows and change nothing."""
    note: str | None
    """A note that lists and the audit record show."""
    by: str
    """Who asks for it."""


class AppCalendars:
    """Named calendars, which jobs use in their `hours`."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def declare(self, name: str, entries: CalendarEntries) -> None:
        """Declare a calendar in code: `app.calendars.declare("holidays", ["12-25", "2026-04-03"])`.

        `entries` are dates, days of the year, weekdays and ranges, or the text of an .ics file. The calendar is stored
        when the application starts. If an operator has set it, the operator's version stays in force until it is
        reverted.
        """
        registry = self._runtime.registry
        with declaring(""):
            registry.calendars[identifier("calendar", name)] = calendar(name, entries)
        registry.revision += 1

    async def all(self) -> list[CalendarView]:
        """Every stored calendar, by name."""
        return await (await self._runtime.engine()).calendars.all()

    async def get(self, name: str) -> CalendarView:
        """One calendar; `CalendarNotFound` if there is none of this name."""
        return await (await self._runtime.engine()).calendars.get(name)

    async def jobs(self, name: str) -> list[str]:
        """The names of the jobs that use this calendar."""
        return await (await self._runtime.engine()).calendars.jobs_naming(name)

    async def set(self, name: str, entries: CalendarEntries, *, by: str = "system") -> CalendarView:
        """Store a calendar under this name, in place of the current one, until it is set again or reverted."""
        return await (await self._runtime.engine()).calendars.set(name, entries, by=by)

    async def revert(self, name: str, *, by: str = "system") -> CalendarView:
        """Go back to the calendar that code declares."""
        return await (await self._runtime.engine()).calendars.revert(name, by=by)

    async def remove(self, name: str, *, by: str = "system") -> None:
        """Delete a calendar. The command is refused while a job uses it."""
        await (await self._runtime.engine()).calendars.remove(name, by=by)


class AppTemplates:
    """Templates: named sets of a handler and job options, from which you create jobs."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def all(self) -> list[Template]:
        """Every template, by name."""
        return await (await self._runtime.engine()).templates.all()

    async def get(self, name: str) -> Template:
        """One template; `TemplateNotFound` if there is none of this name."""
        return await (await self._runtime.engine()).templates.get(name)

    async def create(self, name: str, handler: str, *, by: str = "system", **options: Unpack[JobOptions]) -> Template:
        """Create a template from the name of a handler and job options."""
        given: Mapping[str, Any] = options
        return await (await self._runtime.engine()).templates.create(name, handler, given, by=by)

    async def update(
        self, name: str, *, handler: str | None = None, by: str = "system", **changes: Unpack[JobOptions]
    ) -> Template:
        """Change the given options and keep the others; None removes an option. Jobs that were created from the
        template stay as they are."""
        given: Mapping[str, Any] = changes
        return await (await self._runtime.engine()).templates.update(name, given, handler=handler, by=by)

    async def remove(self, name: str, *, by: str = "system") -> None:
        """Delete a template. Jobs that were created from it stay as they are."""
        await (await self._runtime.engine()).templates.remove(name, by=by)

    async def apply(
        self, template: str, name: str | None = None, *, by: str = "system", **overrides: Unpack[JobOptions]
    ) -> JobView:
        """Create a job from a template; `overrides` replace its options. A job with neither a trigger nor parents
        (`after`) runs once, immediately."""
        given: Mapping[str, Any] = overrides
        return (await (await self._runtime.engine()).templates.apply(template, name, given, by=by))[0]


class AppBackfills:
    """Backfills: runs of a job for many data windows of the past."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def start(
        self, name: str, begin: Instant | None = None, end: Instant | None = None, **options: Unpack[BackfillOptions]
    ) -> Backfill:
        """Run the data windows of a job in the range [begin, end) that are missing or have failed. Without a range, run
        all of these. With `dry_run=True`, only list them."""
        return backfill_view(await (await self._runtime.engine()).backfills.start(name, begin, end, **options))

    async def recent(self, job: str | None = None, limit: int = 20) -> list[Backfill]:
        """The backfills that have not ended, and the last `limit` that have, newest first."""
        rows = await (await self._runtime.engine()).backfills.list(job, limit)
        return [backfill_view(row) for row in rows]

    async def get(self, id: str) -> Backfill:
        """One backfill with its progress; `BackfillNotFound` if there is none of this id."""
        return backfill_view(await (await self._runtime.engine()).backfills.get(id))

    async def wait(self, id: str, timeout: float | None = None) -> Backfill:
        """Wait until the backfill has ended; `TimeoutError` after `timeout` seconds."""
        return backfill_view(await (await self._runtime.engine()).backfills.wait(id, timeout))

    async def pause(self, id: str, *, by: str = "system") -> Backfill:
        """Start no more windows. Windows that are running complete."""
        return backfill_view(await (await self._runtime.engine()).backfills.pause(id, by=by))

    async def resume(self, id: str, *, by: str = "system") -> Backfill:
        """Continue a paused backfill."""
        return backfill_view(await (await self._runtime.engine()).backfills.resume(id, by=by))

    async def cancel(self, id: str, *, by: str = "system", reason: str | None = None) -> Backfill:
        """Start no more windows, and cancel those that are waiting or running."""
        return backfill_view(await (await self._runtime.engine()).backfills.cancel(id, by=by, reason=reason))


class AppTenants:
    """The busiest tenants, and the tenants of one execution."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def busiest(self, sort: TenantOrder = "waiting", limit: int = 20) -> list[TenantView]:
        """The tenants with the most waiting or running executions, or the most failed attempts of the last 24 hours.
        Considers the 1,000 tenants with the most live executions, and all that had a failure."""
        return await (await self._runtime.engine()).busy_tenants.find(sort, limit)

    async def runs(
        self,
        execution: Execution | str,
        *,
        status: Status | Iterable[Status] | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[TenantRun]:
        """The status, attempts, timing and error of each tenant of an execution. Tenants that failed come first."""
        parts = await self._runtime.engine()
        return (await parts.tenants.page(id_of(execution), status, limit, offset)).items

    async def retry_failed(self, execution: Execution | str, *, by: str = "system") -> Execution:
        """Run an execution again, but only for its tenants that did not complete. Returns the new execution."""
        return Execution(await (await self._runtime.engine()).tenants.retry_failed(id_of(execution), by=by))


class AppTokens:
    """API tokens of the HTTP interface."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def all(self) -> list[TokenView]:
        """Every API token, oldest first, including expired and revoked ones. Their secrets are not included."""
        return await (await self._runtime.engine()).tokens.all()

    async def create(
        self, name: str, role: RoleName, *, expires: Duration | None = None, by: str = "system"
    ) -> NewToken:
        """Create an API token. Only the return value has its text: the store keeps a hash. `expires` is a duration."""
        return await (await self._runtime.engine()).tokens.create(name, role, expires=expires, by=by)

    async def revoke(self, ref: str, *, by: str = "system") -> TokenView:
        """Revoke a token by its id or its name. Running servers refuse it within seconds."""
        return await (await self._runtime.engine()).tokens.revoke(ref, by=by)


class AppHooks:
    """Incoming hooks: signed requests from other systems to `/hooks/NAME` that trigger a job."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def all(self) -> list[HookView]:
        """Every hook, by name, without its secrets."""
        return await (await self._runtime.engine()).hooks.all()

    async def get(self, name: str) -> HookView:
        """One hook; `HookNotFound` if there is none of this name."""
        return await (await self._runtime.engine()).hooks.get(name)

    async def set(
        self,
        name: str,
        job: str,
        *,
        style: Style = "standard",
        secret: str | None = None,
        enabled: bool = True,
        by: str = "system",
    ) -> HookWithSecret:
        """Let signed requests to `/hooks/NAME` trigger this job. Its handler gets the body as `payload` and, if it has
        parameters of these names, the type of the event as `event` and the id of the delivery as `delivery`.

        `style` is "standard" (Standard Webhooks), "github" or "stripe". If you give no `secret`, Mainspring generates
        one for a new hook, and only the return value shows it. An existing hook keeps its secrets.
        """
        hooks = (await self._runtime.engine()).hooks
        return await hooks.set(name, job, style=style, secret=secret, enabled=enabled, by=by)

    async def rotate_secret(
        self, name: str, secret: str | None = None, *, overlap: Duration = "24h", by: str = "system"
    ) -> HookWithSecret:
        """Add a secret; if you give none, Mainspring generates one. Older secrets remain valid for `overlap`."""
        return await (await self._runtime.engine()).hooks.rotate_secret(name, secret, overlap=overlap, by=by)

    async def remove(self, name: str, *, by: str = "system") -> None:
        """Delete a hook. Its address returns 404 from then on."""
        await (await self._runtime.engine()).hooks.remove(name, by=by)


class AppLocks:
    """Locks, for administrators. To take a lock, use `app.lock` or `app.try_lock`."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def all(self) -> list[LockView]:
        """All named locks, then all keys of live executions, each with its holder."""
        found = await self.page()
        items = found.items
        while found.next_cursor is not None:
            found = await self.page(cursor=found.next_cursor)
            items += found.items
        return items

    async def page(self, limit: int = 1_000, cursor: str | None = None) -> LockPage:
        """One page of these, with at most `limit` items. Pass `next_cursor` of a page as `cursor` to get the next
        one."""
        whole("limit", limit, 1, 1_000)
        found = await (await self._runtime.engine()).locks.page(limit, cursor)
        return LockPage([lock_view(row) for row in found.rows], found.next_cursor)

    async def release(self, name: str, *, by: str = "system") -> bool:
        """Take a named lock away from its holder. Returns False if nobody held it. You cannot release the key of an
        execution; cancel the execution instead."""
        return await (await self._runtime.engine()).locks.release(name, by)

    @staticmethod
    def suggested_ttl(expected: Duration) -> float:
        """A suitable `ttl` of `try_lock`, in seconds, for work that takes about as long as `expected`."""
        return suggested_ttl(duration("expected", expected, allow_zero=True))
