"""A process that only asks: python -m tests.crash.client FOLDER COMMAND [ARGUMENT]"""

from __future__ import annotations

import asyncio
import random
import sqlite3
import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
from pymongo import AsyncMongoClient

from mainspring import CommandRefused, Execution
from tests.crash.handlers import FOR_EVER, Witnessed, build, go
from tests.crash.processes import end_with_parent, until
from tests.crash.tables import address_in, is_mongo_address

AT_ONCE = 20
IN_ONE_TRANSACTION = 100
KEYS = 100
RIVALS = 4
TRIGGERS = 4
TOMORROW = datetime.now(UTC) + timedelta(days=1)


async def enqueue(app: Witnessed) -> None:
    """Several enqueue at the same time, without end; the ledger has what was acknowledged."""

    async def one_after_another() -> None:
        while True:
            acknowledge(app, [await app.enqueue("work")])

    await together(app)
    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(one_after_another())


async def many(app: Witnessed) -> None:
    await together(app)
    while True:
        acknowledge(app, await app.enqueue_many([("work",)] * 50))


async def unique(app: Witnessed) -> None:
    """Every client wants every key, in an order of its own; half-way they wait for each other, so that none of them
    has it all to itself."""
    await together(app)
    for number, key in enumerate(random.sample(range(KEYS), KEYS)):
        if number == KEYS // 4:
            app.ledger.write("begun")
            await until(lambda: len(app.ledger.lines("begun")) == RIVALS, FOR_EVER)
        execution = await app.enqueue("work", start_at=TOMORROW, unique=f"key-{key}")
        if execution is not None:
            app.ledger.write("won", key=key, id=execution.id)
    app.ledger.write("tried")


async def trigger(app: Witnessed) -> None:
    """Run a job that may not overlap itself, until it has been let so many times."""
    await together(app)
    let = 0
    while let < TRIGGERS:
        try:
            execution = await app.trigger("exclusive")
        except CommandRefused:
            continue
        let += 1
        app.ledger.write("triggered", id=execution.id)
    app.ledger.write("tried")


async def transaction(app: Witnessed, commit: bool = False) -> None:
    """The caller's own transaction, with a table of its own; then wait to be killed."""
    if (address := address_in(app.folder)) is not None:
        await (transaction_in_mongo if is_mongo_address(address) else transaction_in_postgres)(app, address, commit)
        return
    connection = sqlite3.connect(app.folder / "crash.db", isolation_level=None, timeout=30)
    connection.execute("CREATE TABLE IF NOT EXISTS orders (id TEXT)")
    connection.execute("BEGIN IMMEDIATE")
    for _ in range(IN_ONE_TRANSACTION):
        execution = await app.enqueue("work", connection=connection)
        assert execution is not None
        connection.execute("INSERT INTO orders VALUES (?)", (execution.id,))
    if commit:
        connection.execute("COMMIT")
    app.ledger.write("waiting")
    await until(lambda: False, FOR_EVER)


async def transaction_in_postgres(app: Witnessed, address: str, commit: bool) -> None:
    connection = await psycopg.AsyncConnection.connect(address)
    await connection.execute("CREATE TABLE IF NOT EXISTS orders (id TEXT)")
    await connection.commit()
    for _ in range(IN_ONE_TRANSACTION):
        execution = await app.enqueue("work", connection=connection)
        assert execution is not None
        await connection.execute("INSERT INTO orders VALUES (%s)", (execution.id,))
    if commit:
        await connection.commit()
    app.ledger.write("waiting")
    await until(lambda: False, FOR_EVER)


async def transaction_in_mongo(app: Witnessed, address: str, commit: bool) -> None:
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(address)
    orders = client.get_default_database()["orders"]
    await orders.create_index("_id")  # the collection exists before the transaction begins
    session = client.start_session()
    await session.start_transaction()
    for _ in range(IN_ONE_TRANSACTION):
        execution = await app.enqueue("work", connection=session)
        assert execution is not None
        await orders.insert_one({"_id": execution.id}, session=session)
    if commit:
        await session.commit_transaction()
    app.ledger.write("waiting")
    await until(lambda: False, FOR_EVER)


async def committed(app: Witnessed) -> None:
    await transaction(app, commit=True)


async def cancel(app: Witnessed, id: str) -> None:
    await app.cancel(id, by="operator")
    app.ledger.write("asked", id=id)


async def together(app: Witnessed) -> None:
    """Begin when all are there."""
    await app.open()
    app.ledger.write("ready")
    await until(go(app.folder, 0).exists, FOR_EVER)


def acknowledge(app: Witnessed, executions: Iterable[Execution | None]) -> None:
    for execution in executions:
        assert execution is not None
        app.ledger.write("acknowledged", id=execution.id)


async def main(folder: str, command: str, *arguments: str) -> None:
    app = build(Path(folder))
    await globals()[command](app, *arguments)
    await app.close()


if __name__ == "__main__":
    end_with_parent()
    asyncio.run(main(*sys.argv[1:]))
