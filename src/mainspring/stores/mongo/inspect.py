"""What `mainspring doctor` reads of a MongoDB server: our collections and indexes beside those of this release, and
facts about the server. It only reads; repairs are commands for the shell `mongosh`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

from ...model.store.inspection import MongoFacts, ObjectKey, SchemaObject, SchemaObjects
from .connection.collection import Document
from .connection.database import COLLECTIONS, Database, ServerTime, collection_name
from .connection.errors import answered
from .connection.source import MongoSource
from .schema import INDEXES

_COMPARED = ("key", "unique", "partialFilterExpression", "expireAfterSeconds", "sparse", "collation", "hidden")


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Database]:
    source = MongoSource(url, None, None, ServerTime())
    db = source.connect()
    try:
        yield db
    finally:
        await source.close(db)


async def schema_objects(url: str) -> SchemaObjects:
    async with _connected(url) as db:
        return SchemaObjects(found=tuple(await _found(db)), expected=tuple(_expected(db.prefix)), comment="//")


async def _found(db: Database) -> list[SchemaObject]:
    async def read() -> list[MutableMapping[str, Any]]:
        return await (await db.plain.list_collections(filter={"name": {"$regex": f"^{db.prefix}\\."}})).to_list()

    objects: list[SchemaObject] = []
    for each in await answered(db.name, read()):
        name = each["name"]
        objects.append(_collection(name, each.get("options", {}), each["type"]))
        if each["type"] == "collection":
            indexes = await db.collection(name.removeprefix(f"{db.prefix}.")).indexes()
            objects += [_index(name, index) for index in indexes.values() if index["name"] != "_id_"]
    return objects


def _expected(prefix: str) -> Iterator[SchemaObject]:
    for name in COLLECTIONS:
        yield _collection(collection_name(prefix, name), {}, "collection")
    for index in INDEXES:
        yield _index(collection_name(prefix, index.collection), {"name": index.name, **index.options})


def _collection(name: str, options: Document, kind: str) -> SchemaObject:
    return SchemaObject(
        kind="collection",
        name=name,
        definition=_text({"type": kind, **_set_options(options)}),
        create=_command({"create": name}),
        drop=_command({"drop": name}),
        replace=_command({"collMod": name, "validator": {}}),
    )


def _set_options(options: Document) -> Document:
    """Without what the server keeps of a validator that was removed."""
    return {name: value for name, value in options.items() if value and not name.startswith("validation")}


def _index(collection: str, index: Document) -> SchemaObject:
    options = {name: index[name] for name in _COMPARED if name in index}
    parent: ObjectKey = ("collection", collection)
    return SchemaObject(
        kind="index",
        name=f"{collection} {index['name']}",
        definition=_text(options),
        create=_command({"createIndexes": collection, "indexes": [{"name": index["name"], **options}]}),
        drop=_command({"dropIndexes": collection, "index": index["name"]}),
        parent=parent,
    )


def _command(command: Document) -> str:
    return f"db.runCommand({_text(command)})"


def _text(value: Any) -> str:
    return json.dumps(value, default=str)


# --- the server -------------------------------------------------------------------------------------------------------


async def facts(url: str) -> MongoFacts:
    async with _connected(url) as db:
        hello = await db.hello()
        build = await answered(db.name, db.plain.command({"buildInfo": 1}))
        return MongoFacts(
            version=tuple(build["versionArray"][:3]),
            members=len([*hello.get("hosts", ()), *hello.get("passives", ())]) if hello.get("msg") != "isdbgrid" else 3,
            arbiters=len(hello.get("arbiters", ())),
        )
