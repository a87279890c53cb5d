"""The SQL of this store: one named file per statement under sql/, numbered migrations under migrations/, read once.

Files are written for the schema "mainspring"; another name takes its place when they are read.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

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


def in_schema(text: str, schema: str) -> str:
    return text if schema == DEFAULT_SCHEMA else _QUALIFIED.sub(f"{schema}.", text)


def statement_names() -> list[str]:
    files = resources.files(__package__).joinpath("sql").iterdir()
    return sorted(file.name.removesuffix(".sql") for file in files if file.name.endswith(".sql"))


def migrations(schema: str = DEFAULT_SCHEMA) -> list[tuple[int, str]]:
    """Number and text of every migration, in order."""
    files = resources.files(__package__).joinpath("migrations").iterdir()
    found = [(int(file.name[:4]), file.read_text("utf-8")) for file in files if file.name.endswith(".sql")]
    return [(number, in_schema(text, schema)) for number, text in sorted(found)]
