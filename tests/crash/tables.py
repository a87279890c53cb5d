"""The database as it is, past all of our own code: the same questions to each kind of store.

Drivers are imported when they are needed: hundreds of short-lived processes import this module, for one store each.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pymongo import MongoClient
    from pymongo.database import Database

_IN_POSTGRES = {
    "mainspring_live": "mainspring.live",
    "mainspring_history": "mainspring.history",
    "mainspring_jobs": "mainspring.job",
}
_EXECUTIONS, _JOBS = "mainspring.executions", "mainspring.jobs"


def address_file(folder: Path) -> Path:
    return folder / "database"


def address_in(folder: Path) -> str | None:
    """The address of the test's database, unless it is the file in its folder."""
    file = address_file(folder)
    return file.read_text() if file.exists() else None


# --- questions ----------------------------------------------------------------------------------------------------


def known(folder: Path) -> list[str]:
    """The ids of all executions, live and finished."""
    if _is_mongo(folder):
        with mongo_database(folder) as database:
            return [row["_id"] for row in database[_EXECUTIONS].find({"live": {"$exists": True}}, {"_id": 1})]
    rows = _rows(folder, "SELECT id FROM mainspring_live UNION ALL SELECT id FROM mainspring_history")
    return [str(id) for (id,) in rows]


def live(folder: Path) -> int:
    """How many executions have not ended."""
    if _is_mongo(folder):
        with mongo_database(folder) as database:
            return database[_EXECUTIONS].count_documents({"live": True})
    return int(_rows(folder, "SELECT count(*) FROM mainspring_live")[0][0])


def ended(folder: Path) -> dict[str, int]:
    """How many finished executions there are in each state."""
    if _is_mongo(folder):
        by_state: list[dict[str, Any]] = [
            {"$match": {"live": False}},
            {"$group": {"_id": "$state", "count": {"$sum": 1}}},
        ]
        with mongo_database(folder) as database:
            return {row["_id"]: row["count"] for row in database[_EXECUTIONS].aggregate(by_state)}
    return dict(_rows(folder, "SELECT state, count(*) FROM mainspring_history GROUP BY state"))


def due_jobs(folder: Path) -> int:
    """How many jobs have a time at which they run next, or have won a tick whose executions are not there yet."""
    if _is_mongo(folder):
        with mongo_database(folder) as database:
            return database[_JOBS].count_documents({"$or": [{"due": {"$gt": 0}}, {"outbox": {"$exists": True}}]})
    return int(_rows(folder, "SELECT count(*) FROM mainspring_jobs WHERE due > 0")[0][0])


def orders(folder: Path) -> list[str]:
    """The caller's own table."""
    if _is_mongo(folder):
        with mongo_database(folder) as database:
            return [str(row["_id"]) for row in database["orders"].find()]
    return [id for (id,) in _rows(folder, "SELECT id FROM orders")]


def is_intact(folder: Path) -> bool:
    """What the database says of itself, where a killed client could have damaged it."""
    return address_in(folder) is not None or _rows(folder, "PRAGMA integrity_check") == [("ok",)]


def is_locked(folder: Path) -> bool:
    """Whether somebody is in the middle of a transaction that writes, and stays there for a while. A server ends what
    it was sent, whatever becomes of the client."""
    return address_in(folder) is None and is_locked_file(folder / "crash.db")


def is_locked_file(file: Path) -> bool:
    with closing(sqlite3.connect(file, isolation_level=None, timeout=0.5)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        connection.execute("ROLLBACK")
        return False


def expire_leases(folder: Path) -> None:
    """As if all leases had run out: they are long, so that no busy machine costs a worker one that it should keep."""
    if _is_mongo(folder):
        with mongo_database(folder) as database:
            database[_EXECUTIONS].update_many({"state": "running"}, {"$set": {"lease": 1}})
    elif (address := address_in(folder)) is not None:
        import psycopg

        with psycopg.connect(address.partition("?")[0]) as postgres:
            postgres.execute("UPDATE mainspring.live SET lease = 1 WHERE lease IS NOT NULL")
    else:
        with closing(sqlite3.connect(folder / "crash.db", timeout=30)) as connection, connection:
            connection.execute("UPDATE mainspring_live SET lease = 1 WHERE lease IS NOT NULL")


# --- how they are asked -------------------------------------------------------------------------------------------


def _rows(folder: Path, query: str) -> list[tuple[Any, ...]]:
    """Written for SQLite, with no more than the names of tables that differ."""
    address = address_in(folder)
    if address is None:
        with closing(sqlite3.connect(folder / "crash.db")) as connection:
            return connection.execute(query).fetchall()
    for name, theirs in _IN_POSTGRES.items():
        query = query.replace(name, theirs)
    import psycopg

    with psycopg.connect(address.partition("?")[0]) as postgres:
        return postgres.execute(query.encode()).fetchall()


def is_mongo_address(address: str | None) -> bool:
    return (address or "").startswith("mongodb://")


def _is_mongo(folder: Path) -> bool:
    return is_mongo_address(address_in(folder))


@contextmanager
def mongo_database(folder: Path) -> Iterator[Database[dict[str, Any]]]:
    import pymongo

    client: MongoClient[dict[str, Any]]
    with pymongo.MongoClient(address_in(folder)) as client:
        yield client.get_default_database()
