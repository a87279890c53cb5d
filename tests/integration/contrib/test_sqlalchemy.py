"""`enqueue_on_commit`: after the commit of a session, in the thread that commits, and never after a rollback."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from mainspring import InvalidValue, Mainspring, Unique
from mainspring.contrib.sqlalchemy import enqueue_on_commit
from tests.servers import postgres
from tests.support import Nodes

app = Mainspring("memory://")


@app.job("receipt")
def receipt(order: int) -> None: ...


def enqueued() -> list[int]:
    return [each.params["order"] for each in reversed(app.sync.executions("receipt"))]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    engine = create_engine(f"sqlite:///{tmp_path}/orders.db")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE orders (id INTEGER PRIMARY KEY)"))
    with Session(engine) as session:
        yield session
    engine.dispose()
    app.sync.close()


def order(session: Session, number: int) -> None:
    session.execute(text("INSERT INTO orders VALUES (:id)"), {"id": number})
    enqueue_on_commit(session, receipt, number)


@pytest.mark.req("DEV-3", "ENQ-2")
def test_nothing_before_the_commit_and_nothing_after_a_rollback(session: Session) -> None:
    order(session, 1)
    session.flush()
    assert enqueued() == []
    session.commit()
    assert enqueued() == [1]
    order(session, 2)
    session.rollback()
    order(session, 3)
    session.close()
    enqueue_on_commit(session, receipt.options(priority=5), order=4)
    enqueue_on_commit(session, receipt.options(unique=Unique("four", for_="1d")), order=5)
    enqueue_on_commit(session, ("receipt", {"order": 6}), app=app)
    session.commit()
    session.commit()
    assert enqueued() == [1, 4, 5, 6]


@pytest.mark.req("DEV-3", "ENQ-2")
def test_savepoints(session: Session) -> None:
    order(session, 1)
    with session.begin_nested():
        order(session, 2)
        assert enqueued() == []
        outer = session.begin_nested()
        with session.begin_nested():
            order(session, 3)
        order(session, 4)
        outer.rollback()
        order(session, 5)
    assert enqueued() == []
    session.begin_nested()
    order(session, 6)
    session.commit()  # of the savepoint and of the transaction around it
    assert enqueued() == [1, 2, 5, 6]


@pytest.mark.req("DEV-3")
def test_an_enqueue_that_fails_is_raised_after_the_commit(
    session: Session, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transaction stands, later calls are made all the same, and the session can be used again."""
    order(session, 1)
    enqueue_on_commit(session, ("nobody", {}), app=app)
    enqueue_on_commit(session, receipt, 2)
    with caplog.at_level(logging.ERROR), pytest.raises(Exception, match="nobody") as raised:
        session.commit()
    assert raised.value.__notes__ == ["the transaction is committed, but job 'nobody' was not enqueued"]
    assert "job 'nobody' was not enqueued" in caplog.text
    assert enqueued() == [1, 2]
    order(session, 3)
    session.commit()
    assert session.execute(text("SELECT count(*) FROM orders")).scalar() == 2
    assert enqueued() == [1, 2, 3]


@pytest.mark.req("DEV-3")
def test_mistakes_are_refused_before_the_commit(session: Session) -> None:
    wrong: list[tuple[Callable[[], None], str]] = [
        (lambda: enqueue_on_commit(session, receipt, "one"), "order"),  # type: ignore[arg-type]
        (lambda: enqueue_on_commit(session, ("receipt", {"number": 1}), app=app), "number"),
        (lambda: enqueue_on_commit(session, ("receipt", {"order": 1})), "app"),  # type: ignore[call-overload]
        (lambda: enqueue_on_commit(app, receipt, 1), "session"),  # type: ignore[arg-type]
        (lambda: enqueue_on_commit(session, receipt.options(connection=session), 1), "connection"),
    ]
    for call, field in wrong:
        with pytest.raises(InvalidValue, match=field):
            call()
    session.commit()
    assert enqueued() == []


@pytest.mark.req("DEV-3")
def test_a_scoped_session(session: Session) -> None:
    """As of Flask-SQLAlchemy."""
    scoped = scoped_session(sessionmaker(session.get_bind()))
    enqueue_on_commit(scoped, receipt, 1)
    scoped.remove()
    enqueue_on_commit(scoped, receipt, 2)
    scoped.commit()
    scoped.remove()
    assert enqueued() == [2]


@pytest.mark.req("DEV-3", "ENQ-2")
async def test_an_async_session(memory_nodes: Nodes) -> None:
    from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

    app = memory_nodes.app()

    @app.job("mail")
    async def mail(to: str) -> None: ...

    engine = create_async_engine(postgres().new_database().replace("postgresql://", "postgresql+psycopg://"))
    try:
        async with AsyncSession(engine) as session:
            await session.execute(text("SELECT 1"))
            enqueue_on_commit(session, mail, "ada")
            assert await app.executions() == []
            await session.commit()
            enqueue_on_commit(session, mail, "grace")
            await session.rollback()
            async with session.begin():
                await session.run_sync(lambda plain: enqueue_on_commit(plain, mail, "edsger"))
            assert sorted(each.params["to"] for each in await app.executions()) == ["ada", "edsger"]
        with Session() as blocking, pytest.raises(InvalidValue, match="AsyncSession"):
            enqueue_on_commit(blocking, mail, "nobody")
    finally:
        await engine.dispose()
        await app.close()


@pytest.mark.req("ENQ-2", "DEV-3")
def test_a_session_on_the_sqlite_file_of_the_store(sqlite_nodes: Nodes) -> None:
    """With `connection=session` the execution is part of the session's transaction."""
    own = sqlite_nodes.app()
    send = own.job("send")(receipt.__wrapped__)
    own.sync.open()
    engine = create_engine(sqlite_nodes.url)
    with Session(engine) as session:
        send.options(connection=session).sync.enqueue(1)
        assert own.sync.executions() == []
        session.commit()
        send.options(connection=session).sync.enqueue(2)
        session.rollback()
        send.options(connection=session.connection()).sync.enqueue(3)
        session.commit()
    assert sorted(each.params["order"] for each in own.sync.executions()) == [1, 3]
    engine.dispose()
    own.sync.close()
