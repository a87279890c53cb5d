"""The FastAPI application: every route, one form of errors, one frame around all requests."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import FastAPI

from ..version import VERSION
from . import errors
from .access import Guard, GuardedRoute
from .dashboard.routes import dashboard_routes, prepare_dashboard
from .engine import Application
from .limits import process_limits
from .middleware import Frame, StrangersBytes
from .openapi import Described, document
from .room import Room
from .routes import (
    audit,
    backfills,
    bulk,
    calendars,
    cluster,
    commands,
    description,
    error_groups,
    executions,
    health,
    hooks,
    jobs,
    monitoring,
    occurrences,
    queues,
    run_handler,
    simulate,
    sys_job,
    templates,
    tenants,
    tokens,
    webhooks,
)
from .stream import Streams

DESCRIPTION = """Jobs, their executions, and the processes that run them.

Every error has the form `{"error": {"code", "message", "details", "request_id"}}`. Times are ISO 8601 in UTC,
those of data windows in the zone of their job.
`X-Request-Id` is taken from the request if it is sane, and is in every answer and in the audit.
"""


def create_api(app: Application) -> FastAPI:
    """The HTTP interface of this application, with the settings it has now."""
    api = FastAPI(
        title="Mainspring",
        version=VERSION,
        description=DESCRIPTION,
        openapi_url=None,  # guarded like every other route: see routes/description.py
        docs_url=None,  # they load their scripts from other people's servers
        redoc_url=None,
        redirect_slashes=False,
    )
    api.state.application = app
    app.settings.check_http()
    api.state.guard = Guard(app.settings.security, app)
    limits = process_limits()
    api.state.limits, api.state.streams = limits, Streams(limits.streams, limits.streams_of_one)
    api.state.strangers_bytes = StrangersBytes(limits.strangers_bytes)
    api.state.waits = Room("waits", limits.waits, limits.waits_of_one)
    api.state.large_bodies = asyncio.Lock()
    if app.settings.dashboard:
        prepare_dashboard(api)
    errors.install(api)
    api.router.route_class = GuardedRoute
    api.add_middleware(Frame)
    jobs.add_writing_routes(api.router, open_to_parameters=app.settings.api_handler is not None)
    for module in (
        jobs,
        commands,
        executions,
        bulk,
        backfills,
        templates,
        cluster,
        queues,
        tenants,
        calendars,
        tokens,
        error_groups,
        hooks,
        webhooks,
        occurrences,
        audit,
        sys_job,
        run_handler,
        health,
        monitoring,
        simulate,
        description,
    ):
        # The routes themselves, not the router: what they declare can then be read from the application.
        api.router.routes.extend(module.router.routes)

    if app.settings.dashboard:
        api.router.routes.extend(dashboard_routes())

    api.state.described = Described(api, app.registry)

    def openapi() -> dict[str, Any]:
        return document(api, app.registry)

    api.openapi = openapi  # type: ignore[method-assign]
    return api
