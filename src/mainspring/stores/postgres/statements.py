"""The SQL of this store, read from files: one statement per file under sql/; tables, views and functions under schema/.

The files are written for the schema "mainspring"; another schema name is put in when they are read.
"""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha256
from importlib import resources
from importlib.resources.abc import Traversable
from typing import NamedTuple

from ...model.errors import InvalidValue

DEFAULT_SCHEMA = "mainspring"
_QUALIFIED = re.compile(r"(?<![\w.])mainspring\.")
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,47}")


def checked_schema(name: str) -> str:
    """A schema name that needs no quoting anywhere.

    >>> checked_schema("jobs")
    'jobs'
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name.startswith("pg_"):
        raise InvalidValue("schema", name, "a name of small letters, digits and _, at most 48, not beginning with pg_")
    return name


@cache
def sql(name: str, schema: str = DEFAULT_SCHEMA) -> str:
    """The statement of that name, ready to run.

    >>> sql("now", "jobs")
    'SELECT jobs.now_micros()'
    """
    text = resources.files(__package__).joinpath("sql", f"{name}.sql").read_text("utf-8")
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("--")).strip()
    return in_schema(lines, schema)


@cache
def read_statements(schema: str) -> None:
    """Read all statements when a store is opened. Read at their first use, they would fail in a process that has no
    file left to open."""
    for name in statement_names():
        sql(name, schema)


def in_schema(text: str, schema: str) -> str:
    return text if schema == DEFAULT_SCHEMA else _QUALIFIED.sub(f"{schema}.", text)


def statement_names() -> list[str]:
    files = resources.files(__package__).joinpath("sql").iterdir()
    return sorted(file.name.removesuffix(".sql") for file in files if file.name.endswith(".sql"))


# --- the schema -----------------------------------------------------------------------------------------------------

VERSIONS = {1: "tables.sql", 2: "0002_logger.sql", 3: "0003_triage.sql"}
"""Each step of the tables and the file under schema/ that leads to it from the one before. A later step has a file of
its own, named `0003_...sql`, and only adds: the release before works on. See `model.store.schema`."""


class Definition(NamedTuple):
    """A function with its overloads, or the views: what is replaced when its text changes."""

    name: str
    text: str
    checksum: str


@cache
def versions(schema: str = DEFAULT_SCHEMA) -> list[tuple[int, str]]:
    """Number and text of every step, in order."""
    return [(number, in_schema(_schema_file(name).read_text("utf-8"), schema)) for number, name in VERSIONS.items()]


@cache
def definitions(schema: str = DEFAULT_SCHEMA) -> list[Definition]:
    """In the order they are applied: the views call functions."""
    areas = sorted(_schema_file("functions").iterdir(), key=lambda area: area.name)
    functions = [file for area in areas for file in sorted(area.iterdir(), key=lambda file: file.name)]
    return [_definition(file, schema) for file in (*functions, _schema_file("views.sql"))]


def _definition(file: Traversable, schema: str) -> Definition:
    """The checksum is that of the file, whatever the schema is called."""
    text = file.read_text("utf-8")
    return Definition(file.name.removesuffix(".sql"), in_schema(text, schema), sha256(text.encode()).hexdigest()[:16])


def _schema_file(name: str) -> Traversable:
    return resources.files(__package__).joinpath("schema", name)
