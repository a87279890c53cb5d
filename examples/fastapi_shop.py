"""A FastAPI application with background jobs, SQLAlchemy and the dashboard, in one process.

    uvicorn examples.fastapi_shop:site

Its own lifespan creates the tables, and has that of the jobs inside it. The order and its receipt are written in one
transaction: both exist, or neither.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException
from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from mainspring import Mainspring

DATABASE = os.environ.get("SHOP_DATABASE", "sqlite:///shop.db")
jobs = Mainspring(DATABASE)  # the file that the orders are in, too
engine = create_engine(DATABASE)


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    item: Mapped[str]
    receipt: Mapped[str | None]


@jobs.job("send-receipt", max_attempts=5)
def send_receipt(order_id: int) -> None:
    with Session(engine) as session, session.begin():
        order = session.get_one(Order, order_id)
        order.receipt = f"one {order.item}"


@asynccontextmanager
async def lifespan(site: FastAPI) -> AsyncIterator[None]:
    Base.metadata.create_all(engine)
    async with jobs.lifespan(site):
        yield
    engine.dispose()


def transaction() -> Iterator[Session]:
    """Committed before the answer is sent."""
    with Session(engine) as session, session.begin():
        yield session


Transaction = Annotated[Session, Depends(transaction, scope="function")]
site = FastAPI(lifespan=lifespan)
site.mount("/jobs", jobs.asgi())  # dashboard and API


@site.post("/orders", status_code=202)
def place_order(item: str, session: Transaction) -> int:
    order = Order(item=item)
    session.add(order)
    session.flush()
    send_receipt.options(connection=session).sync.enqueue(order_id=order.id)
    if item == "unicorn":
        raise HTTPException(409, "sold out")  # neither order nor receipt
    return order.id


@site.get("/orders/{id}")
def get_order(id: int, session: Transaction) -> str | None:
    return session.get_one(Order, id).receipt
