"""The SQL of this store, read from files: one statement per file under sql/, tables and views under schema/.

`$live`, `$history`, `$job` and so on stand for the text of the files part_live.sql, part_history.sql, part_job.sql.
The text between `/*rows*/` and `/*end*/` is repeated when several rows go into one statement.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

VERSIONS = {1: ("tables.sql", "views.sql"), 2: ("0002_logger.sql",), 3: ("0003_labels.sql",)}
"""Each step of the schema and the files under schema/ that lead to it from the step before. A later step has a file of
its own, named `0003_...sql`, and only adds: the release before works on. See `model.store.schema`."""

_ROWS = re.compile(r"/\*rows\*/(.*?)/\*end\*/", re.DOTALL)
_PART = re.compile(r"\$(\w+)")


@cache
def sql(name: str) -> str:
    """The statement of that name, ready to run.

    >>> sql("unique_holder")
    'SELECT id FROM mainspring_live WHERE unique_key = ?1'
    """
    return _PART.sub(lambda part: sql(f"part_{part[1]}"), _read(name))


@cache
def read_statements() -> None:
    """Read all statements when a store is opened. Read at their first use, they would fail in a process that has no
    file left to open."""
    for name in statement_names():
        sql(name)


@cache
def sql_for_rows(name: str, count: int) -> str:
    """The statement with its row of parameters repeated."""
    return _ROWS.sub(lambda row: ", ".join([row[1]] * count), sql(name))


def statement_names() -> list[str]:
    files = resources.files(__package__).joinpath("sql").iterdir()
    names = sorted(file.name.removesuffix(".sql") for file in files if file.name.endswith(".sql"))
    return [name for name in names if not name.startswith("part_")]


@cache
def versions() -> list[tuple[int, str]]:
    """Number and text of every step of the schema, in order."""
    folder = resources.files(__package__).joinpath("schema")
    return [
        (number, "\n".join(folder.joinpath(file).read_text("utf-8") for file in files))
        for number, files in VERSIONS.items()
    ]


def _read(name: str) -> str:
    text = resources.files(__package__).joinpath("sql", f"{name}.sql").read_text("utf-8")
    return "\n".join(line for line in text.splitlines() if not line.startswith("--")).strip()
