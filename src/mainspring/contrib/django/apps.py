"""The Django app: finds the jobs of the project when Django starts."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import Any

from django.apps import AppConfig, apps
from django.conf import settings
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import request_started
from django.db import connections
from django.utils.module_loading import module_has_submodule

from ...model.errors import MainspringError

logger = logging.getLogger("mainspring")

BACKENDS = ("mainspring.contrib.django.TasksBackend", "mainspring.contrib.django.tasks_backend.TasksBackend")


class MainspringConfig(AppConfig):  # type: ignore[misc]  # Django ships no types
    name = "mainspring.contrib.django"
    label = "mainspring"
    verbose_name = "Mainspring"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        discover("jobs")
        if any(each.get("BACKEND") in BACKENDS for each in getattr(settings, "TASKS", {}).values()):
            discover("tasks")
        checks.register(check_sqlite)
        if shares_sqlite():
            request_started.connect(open_store, dispatch_uid="mainspring")


def discover(name: str) -> None:
    """Import this module of every installed app that has one. What goes wrong names the module."""
    for config in apps.get_app_configs():
        module = f"{config.name}.{name}"
        if not module_has_submodule(config.module, name):
            continue
        try:
            import_module(module)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".removesuffix(": ")
            raise ImproperlyConfigured(f"mainspring: module {module!r} could not be imported: {reason}") from error


def shares_sqlite() -> bool:
    """Whether the store is a SQLite file that Django writes to as well."""
    from . import app

    return app.configuration.store_is_django and app.settings.database_url.startswith("sqlite:")


def open_store(**_: Any) -> None:
    """Before the first request: inside a transaction of Django, which locks the file, the store could not be opened.
    Nothing starts to work here."""
    from . import app

    request_started.disconnect(dispatch_uid="mainspring")
    try:
        app.sync.open()
    except MainspringError as error:
        logger.warning("mainspring: the store could not be opened before the first request: %s", error)


def check_sqlite(**_: Any) -> list[checks.CheckMessage]:
    """A transaction that reads first and writes later fails at once if another process has written in between. A worker
    writes all the time."""
    from . import app

    if not shares_sqlite():
        return []
    alias = app.configuration.database
    mode = str(connections[alias].settings_dict["OPTIONS"].get("transaction_mode") or "").upper()
    if mode in ("IMMEDIATE", "EXCLUSIVE"):
        return []
    return [
        checks.Warning(
            f"DATABASES[{alias!r}] is a SQLite file that Mainspring shares: a view that reads and "
            "then writes in one transaction may fail with 'database is locked'.",
            hint="Set OPTIONS to {'transaction_mode': 'IMMEDIATE'}, so that transactions wait for each other.",
            id="mainspring.W001",
        )
    ]
