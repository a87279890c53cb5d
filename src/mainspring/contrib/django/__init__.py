"""Mainspring in a Django project: docs/django.md is the guide.

    INSTALLED_APPS = [..., "mainspring.contrib.django"]

Every `jobs.py` of an installed app is imported at start, and declares its jobs on the one application of the project:

    from mainspring.contrib.django import app

    @app.job("send-receipt")
    def send_receipt(order_id: int) -> None: ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .application import DjangoMainspring
from .configuration import load_configuration
from .connections import keep_connections_fresh

if TYPE_CHECKING:
    from .tasks_backend import TasksBackend as TasksBackend

__all__ = ["TasksBackend", "app", "load"]

app: DjangoMainspring = DjangoMainspring(load_configuration())
"""The application of this Django project, with the settings of `MAINSPRING`. Nothing connects before it is needed."""

keep_connections_fresh(app)


def load() -> DjangoMainspring:
    """The application with every job of the project: for processes that are not started by Django, such as
    `mainspring worker mainspring.contrib.django:load`. They need DJANGO_SETTINGS_MODULE."""
    import django

    django.setup()
    return app


def __getattr__(name: str) -> Any:
    """The backend for Django Tasks is imported when it is named: it needs Django 6.0 or the package django-tasks."""
    if name == "TasksBackend":
        from .tasks_backend import TasksBackend

        return TasksBackend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
