"""`mainspring exec`: one job, here and now, in this process."""

from __future__ import annotations

import asyncio
import pdb
import time
import traceback
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from typing import Any, NamedTuple

import click
import msgspec

from ...app.mainspring import Mainspring
from ...core.engine.foreground import Foreground, ForegroundRun
from ...core.engine.inline import TrackedWork
from ...core.render.entities import execution_json
from ...core.views.execution import Execution
from ...model.errors import InvalidValue, StoreError
from ...model.execution import State
from ...model.job import Job
from ...observe.logs.setup import already_configured, log_at_once
from ..completion import applications, names_of
from ..load import load_app
from ..parameters import as_options, params_options, read_params, textual_parameters, window_option
from ..root import EXIT_CODES, INTERRUPTED, REFUSED, example, output_option
from ..screens.output import note, print_json, progress_text
from ..session import operator
from .run import checked_settings

BETWEEN_PROGRESS = 1.0
"""Seconds between two lines of progress."""


@example("exec crawl --app shop.jobs:app --param pages=3", "exec report --app shop.jobs:app --tenant acme --pdb")
@click.command("exec", epilog=EXIT_CODES)
@click.argument("name", metavar="JOB", shell_complete=names_of("job"))
@params_options
@window_option
@click.option(
    "--tenant", "tenants", multiple=True, help="Only for this tenant; may be repeated. By default, for all of them."
)
@click.option("--pdb", "post_mortem", is_flag=True, help="Open the debugger where the handler failed.")
@click.option(
    "--app",
    "target",
    metavar="MODULE:APP",
    envvar="MAINSPRING_APP",
    shell_complete=applications,
    help="The application.",
)
@click.option("--log-level", metavar="LEVEL", default="info", help="debug, info, warning, error or critical.")
@output_option
def exec_(
    name: str,
    params: str | None,
    pairs: Sequence[str],
    window: Any,
    tenants: Sequence[str],
    post_mortem: bool,
    target: str | None,
    log_level: str,
    output: str,
) -> int:
    """Run one job here and now, in this process, for a debugger.

    Plain functions run in the main thread, so breakpoint() works. There is one attempt, without timeout, limits,
    overlap rule or child process, and no dependent job runs. The run is recorded once it has ended. Its result goes to
    standard output, its log to standard error.
    """
    if not target:
        raise click.UsageError("exec runs the code of an application: give --app MODULE:APP, or set MAINSPRING_APP")
    app = load_app(target)
    level = checked_settings({"log_level": log_level})["log_level"]
    if not already_configured():
        log_at_once(level.upper())
    here = Here(app, name, params, pairs, window or None, post_mortem)
    try:
        here.run(tenants)
    except InvalidValue as error:
        raise as_options(error, pairs) from None
    _print(here.ended, output)
    if here.interrupted:
        return INTERRUPTED
    return 0 if all(each.completed for each in here.ended) else REFUSED


class Ended(NamedTuple):
    """A run that has ended, and its record; None if the store could not be reached."""

    work: TrackedWork
    execution: Execution | None

    @property
    def completed(self) -> bool:
        return self.work.change.to in (State.COMPLETED, State.SKIPPED)


class Here:
    """Runs a job for each tenant it has, or once. A coroutine runs on an event loop of the main thread, with everything
    that setup hooks make; around a plain function, that loop is in another thread."""

    def __init__(
        self, app: Mainspring, name: str, params: str | None, pairs: Sequence[str], window: Any, post_mortem: bool
    ) -> None:
        self._app, self._runtime, self._name = app, app._runtime, name
        self._params, self._pairs, self._window, self._post_mortem = params, pairs, window, post_mortem
        self._progress = ProgressLines()
        self.ended: list[Ended] = []
        self.interrupted = False

    def run(self, tenants: Sequence[str]) -> None:
        if self._runtime.registry.get(self._handler_name()).is_async:
            asyncio.run(self._run_async(tenants))
        else:
            self._run_plain(tenants)

    def _handler_name(self) -> str:
        """As code declares the job; a job that operators created names its handler in the store."""
        if (spec := self._runtime.declared_spec(self._name)) is not None:
            return spec.handler
        with closing(self._app.sync) as sync:
            return sync.job_view(self._name).handler

    def _run_plain(self, tenants: Sequence[str]) -> None:
        with closing(self._app.sync) as sync:
            call = sync._caller.call
            with sync._caller.entered(self._runtime.handler_resources()):
                foreground = call(self._runtime.foreground())
                job = call(self._job())
                for tenant in call(self._tenants(foreground, job, tenants)):
                    run = self._begun(foreground, job, tenant)
                    run.run()
                    self._look_at(run)
                    call(self._record(foreground, run))
                    if self.interrupted:
                        break

    async def _run_async(self, tenants: Sequence[str]) -> None:
        async with _closed(self._app), self._runtime.handler_resources():
            foreground, job = await self._runtime.foreground(), await self._job()
            for tenant in await self._tenants(foreground, job, tenants):
                run = self._begun(foreground, job, tenant)
                await run.run_async()
                self._look_at(run)
                await self._record(foreground, run)
                if self.interrupted:
                    break

    async def _job(self) -> Job:
        """As the code of this process declares it, whatever an earlier start or an operator has stored."""
        parts, spec = await self._runtime.engine(), self._runtime.declared_spec(self._name)
        if spec is None:
            return await parts.job_cache.read(self._name)
        return parts.job_cache.new_job(self._name, spec, "code", parts.time.now())

    async def _tenants(self, foreground: Foreground, job: Job, chosen: Sequence[str]) -> Sequence[str | None]:
        """For whom it runs: one after the other."""
        if chosen:
            return chosen
        if not job.spec.tenants:
            return [None]
        return await foreground.tenants_of(job, self._prepared(foreground, job, None))

    def _begun(self, foreground: Foreground, job: Job, tenant: str | None) -> ForegroundRun:
        run = self._prepared(foreground, job, tenant)
        foreground.begin(run)
        return run

    def _prepared(self, foreground: Foreground, job: Job, tenant: str | None) -> ForegroundRun:
        params = read_params(self._params, self._pairs, textual_parameters(self._app, job.spec.handler))
        return foreground.prepare(
            job, params, window=self._window, tenant=tenant, by=operator(), on_progress=self._progress.show
        )

    def _look_at(self, run: ForegroundRun) -> None:
        self.interrupted = run.interrupted
        if self._post_mortem and run.error is not None and not run.interrupted:
            note("".join(traceback.format_exception_only(run.error)).rstrip())
            pdb.post_mortem(run.error.__traceback__)

    async def _record(self, foreground: Foreground, run: ForegroundRun) -> None:
        work, execution = foreground.end(run), None
        try:
            await foreground.record(work)
            execution = await self._app.get(work.execution.id)
        except StoreError as error:
            note(f"warning: this run is not recorded: {error}")
        self.ended.append(Ended(work, execution))


@asynccontextmanager
async def _closed(app: Mainspring) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await app.close()


class ProgressLines:
    """Shows what the handler reports, at most once a second."""

    def __init__(self) -> None:
        self._shown_at = -BETWEEN_PROGRESS

    def show(self, done: float, total: float | None, message: str) -> None:
        now = time.monotonic()
        if now - self._shown_at >= BETWEEN_PROGRESS or done == total:
            self._shown_at = now
            note(f"progress {progress_text({'done': done, 'total': total, 'message': message})}")


def _print(ended: Sequence[Ended], output: str) -> None:
    if output == "json":
        found = [execution_json(each.execution) for each in ended if each.execution is not None]
        print_json(found[0] if len(found) == 1 else found)
        return
    for each in ended:
        if each.work.outcome.result_json is not None:
            print_json(msgspec.json.decode(each.work.outcome.result_json))
