"""What a store reports about its database for `mainspring doctor`: the objects of the schema and facts of the server.

Stores describe, and decide nothing: `core/doctor` compares the objects and judges the facts.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

ObjectKind: TypeAlias = Literal[
    "type",
    "sequence",
    "collection",
    "table",
    "partition",
    "column",
    "default",
    "not null",
    "setting",
    "constraint",
    "index",
    "function",
    "view",
    "trigger",
]
"""In the order in which they are created; they are dropped in the opposite order."""
ObjectKey: TypeAlias = tuple[ObjectKind, str]


class SchemaObject(msgspec.Struct, frozen=True, kw_only=True):
    """One object of a schema. Two objects are the same if their definitions are equal.

    `create` and `drop` are the statements that do so; `replace` changes the one that is there into this one, if the
    database can do that in place. An object that is `inline` is created by the statement of its parent.
    """

    kind: ObjectKind
    name: str
    definition: str = ""
    create: str = ""
    drop: str = ""
    replace: str = ""
    parent: ObjectKey | None = None
    inline: bool = False

    @property
    def key(self) -> ObjectKey:
        return self.kind, self.name


class SchemaObjects(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of a database, and those that this release expects. `begin` and `end` go around all repairs, and
    `comment` begins a line that is not run."""

    found: tuple[SchemaObject, ...]
    expected: tuple[SchemaObject, ...]
    begin: str = ""
    end: str = ""
    comment: str = "--"


class SqliteFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A database file. `damage` is what SQLite's own check complains about, `filesystem` the kind the file is on."""

    path: str
    version: tuple[int, ...]
    journal_mode: str = "wal"
    file_writable: bool = True
    folder_writable: bool = True
    filesystem: str = ""
    damage: str = ""
    size: int = 0
    unused: int = 0
    mode: int = 0o600


class PostgresFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A PostgreSQL server as the role of the address sees it. Durations are seconds, 0 stands for none. `timeouts` are
    the server's settings for this role, `pool_size` is that of the address. `hears`: a notification that was sent on
    the connection for LISTEN came back. `missing_months` are months without a partition of the history, and
    `stray_rows` says that its default partition holds rows."""

    version: int
    max_connections: int
    used_connections: int
    pool_size: int
    timeouts: dict[str, float] = {}
    settings: dict[str, str] = {}
    encoding: str = "UTF8"
    read_only: bool = False
    hears: bool = True
    missing_months: tuple[str, ...] = ()
    stray_rows: bool = False
    oldest_transaction: float = 0.0


class MongoFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A MongoDB server. `members` are the members of its replica set that hold data; none for a single server."""

    version: tuple[int, ...]
    members: int = 0
    arbiters: int = 0


class RedisFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A Redis or Valkey server. `error` says why it could not be asked; `refused`: it answered, and refused us. What a
    server does not reveal is None."""

    error: str = ""
    refused: bool = False
    policy: str | None = None
    max_memory: int | None = None
    persistent: bool | None = None
    replica: bool = False


ServerFacts: TypeAlias = SqliteFacts | PostgresFacts | MongoFacts
