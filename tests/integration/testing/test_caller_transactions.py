"""Code under test that enqueues in its own transaction, with `connection=`."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import StaticPool

from mainspring import InvalidValue, Mainspring
from mainspring.testing import BlockingKit, harness
from tests.servers import postgres

app = Mainspring("memory://")


@app.job("mail")
def mail(to: str) -> str:
    return f"sent to {to}"


def send(connection: Any, to: str) -> None:
    mail.options(connection=connection).sync.enqueue(to)


def sent(kit: BlockingKit) -> list[Any]:
    return [each.params["to"] for each in kit.enqueued()]


@pytest.mark.req("OPS-6", "ENQ-2")
def test_a_session(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/shop.db")
    with harness(app) as kit, Session(engine) as session:
        send(session, "ada")
        assert mail.options(connection=session, unique="key").sync.enqueue("grace") is not None
        assert mail.options(connection=session, unique="key").sync.enqueue("grace") is None
        kit.run_until_idle()
        assert sent(kit) == []
        session.commit()
        send(session, "nobody")
        session.rollback()
        with session.begin_nested() as savepoint:
            send(session, "nobody")
            savepoint.rollback()
        send(session, "edsger")
        session.commit()
        assert sent(kit) == ["ada", "grace", "edsger"]
        kit.run_until_idle()
        kit.assert_ran(mail, result="sent to edsger")
    engine.dispose()


@pytest.mark.req("OPS-6", "ENQ-2")
def test_a_connection_of_sqlalchemy() -> None:
    engine = create_engine("sqlite://", poolclass=StaticPool)
    with harness(app) as kit, engine.connect() as connection:
        connection.execute(text("CREATE TABLE orders (id INTEGER)"))
        send(connection, "ada")
        with connection.begin_nested() as savepoint:
            send(connection, "nobody")
            savepoint.rollback()
        with connection.begin_nested():
            send(connection, "grace")
        assert sent(kit) == []
        connection.commit()
        send(connection, "nobody")
        connection.rollback()
        assert sent(kit) == ["ada", "grace"]
    engine.dispose()


def through_a_closed_connection(file: Path, work: Callable[[sqlite3.Connection], None]) -> None:
    with closing(sqlite3.connect(file)) as connection:
        work(connection)


@pytest.mark.req("OPS-6", "ENQ-2")
def test_a_connection_of_sqlite3(tmp_path: Path) -> None:
    file = tmp_path / "shop.db"

    def committed(connection: sqlite3.Connection) -> None:
        with connection:
            send(connection, "ada")

    with harness(app) as kit, closing(sqlite3.connect(":memory:")) as memory:
        through_a_closed_connection(file, committed)
        through_a_closed_connection(file, lambda connection: send(connection, "nobody"))
        send(memory, "grace")
        assert sent(kit) == ["ada"]
        memory.commit()
        send(memory, "nobody")
        memory.rollback()
        kit.run_until_idle()
        kit.assert_ran(mail, count=2)
        assert sent(kit) == ["ada", "grace"]


@pytest.mark.req("OPS-6", "ENQ-2")
async def test_an_async_session() -> None:
    address = postgres().new_database()
    engine = create_async_engine(address.replace("postgresql://", "postgresql+psycopg://"))
    async with harness(app) as kit:
        async with AsyncSession(engine) as session:
            await mail.options(connection=session).enqueue("ada")
            kit.assert_not_enqueued(mail)
            await session.commit()
            await mail.options(connection=session).enqueue("nobody")
        async with engine.begin() as connection:
            await mail.options(connection=connection).enqueue("grace")
        assert [each.params["to"] for each in kit.enqueued()] == ["ada", "grace"]
    await engine.dispose()


@pytest.mark.req("OPS-6")
def test_other_drivers_are_refused() -> None:
    """They do not say what has become of a transaction."""
    with harness(app) as kit, psycopg.connect(postgres().new_database()) as connection:
        with pytest.raises(InvalidValue, match="a session or connection of SQLAlchemy"):
            send(connection, "nobody")
        assert sent(kit) == []
