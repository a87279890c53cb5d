"""The settings of the Django project as settings of Mainspring.

`MAINSPRING` in the project's settings sets every setting by its name, like arguments of `Mainspring(...)`: above the
environment, which is above mainspring.toml. What none of them sets follows from Django: the database from DATABASES,
the zone from TIME_ZONE, the name of the application from the settings module.
"""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from django.conf import ENVIRONMENT_VARIABLE, settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from ...config.load import load
from ...config.settings import SETTINGS
from ...model.errors import MainspringError, nearest

IMPORT_PATH = "mainspring.contrib.django:load"
IN_MEMORY = "memory://"
OWN_KEYS = ("database", "dashboard_url")
"""Keys of MAINSPRING beside the settings: which of DATABASES to use, and where the dashboard is."""


class Configuration(NamedTuple):
    """What the project's settings say about Mainspring."""

    arguments: dict[str, Any]
    database: str
    """The name in DATABASES whose transactions an enqueue joins."""
    store_is_django: bool
    """Whether the store is in that database."""
    dashboard_url: str | None


def load_configuration() -> Configuration:
    given = _checked(getattr(settings, "MAINSPRING", {}))
    own = {name: given.pop(name, None) for name in OWN_KEYS}
    alias = _alias(own["database"] or "default")
    try:
        chosen = load(given).sources
    except MainspringError as error:
        raise ImproperlyConfigured(re.sub(r"from argument (\w+)", r"from MAINSPRING['\1']", str(error))) from error
    given.setdefault("import_path", IMPORT_PATH)
    if "application" not in chosen:
        given["application"] = _project_name()
    if "timezone" not in chosen:
        given["timezone"] = settings.TIME_ZONE or "UTC"
    store_is_django = "database_url" not in chosen
    if store_is_django:
        given["database_url"] = database_url(alias)
        store_is_django = given["database_url"] != IN_MEMORY
    return Configuration(given, alias, store_is_django, _dashboard(own["dashboard_url"]))


def _checked(given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise ImproperlyConfigured(f"MAINSPRING is {given!r}; allowed: a dictionary of settings by their names")
    known = [*SETTINGS, *OWN_KEYS]
    for name in given:
        if name not in known:
            near = nearest(str(name).lower(), known)
            hint = f"did you mean {near!r}?" if near else f"known are {', '.join(sorted(known))}"
            raise ImproperlyConfigured(f"MAINSPRING has no setting {name!r}; {hint}")
    return dict(given)


def _alias(given: Any) -> str:
    if given not in list(connections):
        known = ", ".join(connections)
        raise ImproperlyConfigured(f"MAINSPRING['database'] is {given!r}; allowed: a name in DATABASES ({known})")
    return str(given)


def _project_name() -> str:
    """`shop` of the settings module `shop.settings`: applications on one database are told apart by it."""
    return os.environ.get(ENVIRONMENT_VARIABLE, "django").partition(".")[0]


def _dashboard(url: Any) -> str | None:
    if url is None or (isinstance(url, str) and (url.startswith(("http://", "https://", "/")))):
        return None if url is None else url.rstrip("/")
    allowed = "an address such as https://jobs.example.com, or a path such as /jobs"
    raise ImproperlyConfigured(f"MAINSPRING['dashboard_url'] is {url!r}; allowed: {allowed}")


# --- the address of a database of Django ----------------------------------------------------------------------


def database_url(alias: str) -> str:
    """The address of a database of DATABASES, for Mainspring's own connections to it."""
    connection = connections[alias]
    if connection.vendor == "sqlite":
        return _sqlite_url(alias, str(connection.settings_dict["NAME"]))
    if connection.vendor == "postgresql":
        return _postgres_url(connection.settings_dict)
    raise ImproperlyConfigured(
        f"DATABASES[{alias!r}] is {connection.display_name}, where Mainspring cannot keep its jobs; "
        "set MAINSPRING['database_url'] to an address of SQLite, PostgreSQL or MongoDB"
    )


def _sqlite_url(alias: str, name: str) -> str:
    if name == ":memory:" or "mode=memory" in name:
        return IN_MEMORY
    if name.startswith("file:"):
        raise ImproperlyConfigured(
            f"DATABASES[{alias!r}]['NAME'] is {name!r}; give the path of a file, or set MAINSPRING['database_url']"
        )
    return f"sqlite:///{quote(name)}"


def _postgres_url(given: dict[str, Any]) -> str:
    """With the options that libpq knows; others are for Django's own connections."""
    from psycopg.pq import Conninfo

    known = {each.keyword.decode() for each in Conninfo.get_defaults()}
    options = {name: value for name, value in given["OPTIONS"].items() if name in known}
    host, port = str(given["HOST"] or ""), str(given["PORT"] or "")
    if host.startswith("/") or "," in host:  # the folder of a socket, or several servers
        options["host"], host = host, ""
        if port:
            options["port"], port = port, ""
    user = quote(str(given["USER"] or ""), safe="")
    password = quote(str(given["PASSWORD"] or ""), safe="")
    login = f"{user}:{password}@" if password else f"{user}@" if user else ""
    place = f"[{host}]" if ":" in host else host
    query = urlencode({name: str(value) for name, value in options.items()}, quote_via=quote)
    name = quote(str(given["NAME"] or ("" if options.get("service") else "postgres")), safe="")
    return f"postgresql://{login}{place}{':' + port if port else ''}/{name}{'?' + query if query else ''}"
