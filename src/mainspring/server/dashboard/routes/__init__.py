"""The pages: one file each. Forms are POST routes in the file of the page that has them."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.routing import BaseRoute

from ..live import LivePages
from ..visit import prepare_templates
from . import (
    backfills,
    bulk,
    changes,
    errors,
    frame,
    locks,
    overview,
    queues,
    system,
    tenants,
    timeline,
    webhooks,
    workers,
)
from .executions import list as executions
from .executions import one as execution
from .jobs import backfill as job_backfill
from .jobs import commands as job_commands
from .jobs import edit as job_edit
from .jobs import list as jobs
from .jobs import one as job

PAGES = (
    overview,
    jobs,
    job,
    job_backfill,
    job_commands,
    job_edit,
    executions,
    execution,
    errors,
    bulk,
    backfills,
    timeline,
    locks,
    queues,
    workers,
    tenants,
    webhooks,
    changes,
    system,
)
"""Modules with a `router`."""


def prepare_dashboard(api: FastAPI) -> None:
    api.state.live_pages = LivePages()
    prepare_templates()


def dashboard_routes() -> list[BaseRoute]:
    """All routes of the dashboard; the last one answers for pages that do not exist."""
    routers = [*(page.router for page in PAGES), frame.router]
    return [route for router in routers for route in router.routes]
