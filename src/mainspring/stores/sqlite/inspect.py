"""What `mainspring doctor` reads of a database file: its objects beside those of a fresh one, and facts about it.

Everything is read on a connection that cannot write. The expected objects are those of a database in memory, built by
the same steps as every other.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

from ...model.errors import StoreError
from ...model.store.inspection import ObjectKind, SchemaObject, SchemaObjects, SqliteFacts
from .migrate import split
from .statements import versions
from .threads.connect import checked_path, explained

BEGIN = "PRAGMA legacy_alter_table = ON;\nBEGIN IMMEDIATE;"
END = "COMMIT;\nPRAGMA legacy_alter_table = OFF;"
_OURS = "mainspring_"
_COMMENT = re.compile(r"--[^\n]*")
_QUOTED_NAME = re.compile(r'"(\w+)"')
_PUNCTUATION = re.compile(r"\s*([(),;])\s*")
_MOST_COMPLAINTS = 3


def read_only(path: str) -> sqlite3.Connection:
    """It never creates the file. Errors are translated when it is used."""
    return sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)


def schema_objects(path: str) -> SchemaObjects:
    path = checked_path(path)
    try:
        with closing(read_only(path)) as live, closing(_fresh()) as fresh:
            there, wanted = _tables(live), _tables(fresh)
            rebuilds = {name: _rebuild(name, fresh, there[name]) for name in wanted if name in there}
            return SchemaObjects(
                found=tuple(_objects(live, rebuilds)),
                expected=tuple(_objects(fresh, rebuilds)),
                begin=BEGIN,
                end=END,
            )
    except sqlite3.Error as error:
        raise explained(error, path) from error


def _fresh() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.create_function("mainspring_lower", 1, str.lower, deterministic=True)
    for _, text in versions():
        for statement in split(text):
            connection.execute(statement)
    return connection


# --- objects ----------------------------------------------------------------------------------------------------------


def _tables(connection: sqlite3.Connection) -> dict[str, list[str]]:
    """Our tables, each with the names of its columns."""
    rows = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    names = [name for (name,) in rows if name.startswith(_OURS)]
    return {name: [row[1] for row in connection.execute(f'PRAGMA table_xinfo("{name}")')] for name in names}


def _objects(connection: sqlite3.Connection, rebuilds: Mapping[str, str]) -> Iterator[SchemaObject]:
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL").fetchall()
    for kind, name, table, text in rows:
        if not table.startswith(_OURS):
            continue
        if kind == "table":
            yield _table(name, text, rebuilds.get(name, ""))
            yield from _columns(connection, name, rebuilds.get(name, ""))
        else:
            yield _attached(kind, name, table, text)


def _table(name: str, text: str, rebuild: str) -> SchemaObject:
    return SchemaObject(
        kind="table",
        name=name,
        definition=plain(text),
        create=f"{text};",
        drop=f"DROP TABLE IF EXISTS {name};",
        replace=rebuild,
    )


def _columns(connection: sqlite3.Connection, table: str, rebuild: str) -> Iterator[SchemaObject]:
    """SQLite cannot change a column: its table is made anew and its rows are copied."""
    for _, name, kind, required, default, key, hidden in connection.execute(f'PRAGMA table_xinfo("{table}")'):
        words = [kind, "NOT NULL" * required, f"DEFAULT {default}" * (default is not None), f"KEY {key}" * bool(key)]
        yield SchemaObject(
            kind="column",
            name=f"{table}.{name}",
            definition=" ".join(filter(None, [*words, "GENERATED" * bool(hidden)])),
            create=rebuild,
            drop=rebuild,
            replace=rebuild,
            parent=("table", table),
            inline=True,
        )


def _attached(kind: ObjectKind, name: str, table: str, text: str) -> SchemaObject:
    return SchemaObject(
        kind=kind,
        name=name,
        definition=plain(text),
        create=_if_missing(text),
        drop=f"DROP {kind.upper()} IF EXISTS {name};",
        parent=None if kind == "view" else ("table", table),
    )


def _if_missing(text: str) -> str:
    return re.sub(r"^(CREATE (?:UNIQUE )?(?:INDEX|TRIGGER|VIEW)) ", r"\1 IF NOT EXISTS ", text) + ";"


def plain(text: str) -> str:
    """A statement without comments, needless white space and quotes around names: SQLite adds those when it renames.

    >>> plain('CREATE TABLE "jobs" ( name TEXT, -- of the job\\n  id TEXT )')
    'CREATE TABLE jobs(name TEXT,id TEXT)'
    """
    return _PUNCTUATION.sub(r"\1", " ".join(_QUOTED_NAME.sub(r"\1", _COMMENT.sub("", text)).split()))


def _rebuild(table: str, fresh: sqlite3.Connection, there: list[str]) -> str:
    """A new table with the expected columns, in the place of the old one. A column that was missing and must have a
    value gets 0 or an empty text."""
    attached = fresh.execute(
        "SELECT sql FROM sqlite_schema WHERE tbl_name = ? AND type <> 'table' AND type <> 'view' AND sql IS NOT NULL",
        (table,),
    ).fetchall()
    [text] = fresh.execute("SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?", (table,)).fetchone()
    columns, values = [], []
    for _, name, kind, required, default, key, _ in fresh.execute(f'PRAGMA table_xinfo("{table}")'):
        if name in there or ((required or key) and default is None):
            columns.append(name)
            values.append(name if name in there else "0" if kind in ("INTEGER", "REAL") else "''")
    named, chosen = ", ".join(columns), ", ".join(values)
    return "\n".join(
        [
            re.sub(rf'^CREATE TABLE "?{table}"?', f"CREATE TABLE {table}_new", text) + ";",
            f"INSERT INTO {table}_new ({named}) SELECT {chosen} FROM {table};",
            f"DROP TABLE {table};",
            f"ALTER TABLE {table}_new RENAME TO {table};",
            *(_if_missing(each) for (each,) in attached),
        ]
    )


# --- the file ---------------------------------------------------------------------------------------------------------


def facts(path: str) -> SqliteFacts:
    path = checked_path(path)
    if os.path.isdir(path):
        raise StoreError(f"{path}: this is a directory; give the path of a file in it")
    try:
        with closing(read_only(path)) as connection:
            [mode], [unused], [pages], [size] = (
                connection.execute(f"PRAGMA {name}").fetchone()
                for name in ("journal_mode", "freelist_count", "page_count", "page_size")
            )
            damage = _damage(connection)
    except sqlite3.Error as error:
        raise explained(error, path) from error
    folder = os.path.dirname(path)
    return SqliteFacts(
        path=path,
        version=sqlite3.sqlite_version_info,
        journal_mode=str(mode),
        file_writable=os.access(path, os.W_OK),
        folder_writable=os.access(folder, os.W_OK),
        filesystem=filesystem_of(folder),
        damage=damage,
        size=pages * size,
        unused=unused * size,
        mode=os.stat(path).st_mode & 0o777,
    )


def _damage(connection: sqlite3.Connection) -> str:
    """What SQLite complains about; some damage ends its check early."""
    try:
        rows = connection.execute(f"PRAGMA quick_check({_MOST_COMPLAINTS})").fetchall()
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CORRUPT:
            raise
        return str(error)
    return "; ".join(str(each) for (each,) in rows if each != "ok")


def filesystem_of(path: str, mounts: str = "/proc/mounts") -> str:
    """The kind of file system that a folder is on, such as `ext4` or `nfs4`; empty where the system does not say."""
    try:
        lines = Path(mounts).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    fields = (line.split() for line in lines)
    real = os.path.realpath(path)
    found = {each[1].replace("\\040", " "): each[2] for each in fields if len(each) > 2}
    above = [place for place in found if real == place or real.startswith(place.rstrip("/") + "/")]
    return found[max(above, key=len)] if above else ""
