"""Parts of programs (`py`): each is executed between what its page leaves out and a check of what it did."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Callable
from typing import NamedTuple

import pytest

from tests.docs.blocks import ALL, Block
from tests.docs.table import covered_elsewhere
from tests.mongo_server import mongo
from tests.servers import postgres


class Program(NamedTuple):
    before: str
    after: str
    database: Callable[[], str] = lambda: "memory://"
    """Its address is `url` in the program."""


FRAGMENTS = {
    ("docs/frameworks.md", "with app.sync"): Program(
        """
app = Mainspring(url)

@app.job("send-report")
def send_report(day: str) -> str:
    return day
""",
        "assert execution.job == 'send-report'",
    ),
    ("docs/stores.md", "from mainspring.stores.postgres"): Program(
        """
from psycopg_pool import AsyncConnectionPool
pool = AsyncConnectionPool(url, open=False)
await pool.open()
""",
        """
await app.open()
assert await app.jobs() == []
await app.close()
await pool.close()
""",
        lambda: postgres().migrated_database(),
    ),
    ("docs/stores.md", "async with client.start_session"): Program(
        """
from pymongo import AsyncMongoClient
client, app = AsyncMongoClient(url), Mainspring(url)
orders, order = client.get_default_database()["orders"], {"_id": 42}

@app.job("send-invoice")
async def send_invoice(ctx, order: int) -> None: ...

await app.open()
""",
        """
assert [(await orders.count_documents({})), len(await app.executions(job="send-invoice"))] == [1, 1]
await app.close()
await client.close()
""",
        lambda: mongo("replica_set").new_database(),
    ),
    ("docs/stores.md", "from mainspring.stores.mongo"): Program(
        """
from pymongo import AsyncMongoClient
client = AsyncMongoClient(url)
""",
        """
await app.open()
assert await app.jobs() == []
await app.close()
await client.close()
""",
        lambda: mongo("replica_set").new_database(),
    ),
    ("docs/webhooks.md", '@receiver.post("/hook")'): Program(
        """
from flask import Flask, abort, request
from mainspring import webhooks
receiver, SECRET = Flask("receiver"), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
""",
        """
body = '{"type": "webhook.test", "data": {}}'
send, headers = receiver.test_client().post, webhooks.sign(body, SECRET, id="msg_1")
assert send("/hook", data=body, headers=headers).status_code == 204
assert send("/hook", data=body + " ", headers=headers).status_code == 400
""",
    ),
}


@pytest.mark.req("DEV-4")
@pytest.mark.parametrize(
    "block", [block for block in ALL if block.language == "py" and not covered_elsewhere(block)], ids=str
)
def test_a_fragment_runs(block: Block) -> None:
    [program] = [
        found for (page, first), found in FRAGMENTS.items() if page == block.page and block.first.startswith(first)
    ]
    text = f"from mainspring import *\n{program.before}\n{block.text}\n{program.after}"
    code = compile(text, str(block), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    awaited = eval(code, {"url": program.database(), "__name__": "page"})
    if awaited is not None:
        asyncio.run(awaited)


@pytest.mark.req("DEV-4")
def test_every_program_belongs_to_a_block() -> None:
    for page, first in FRAGMENTS:
        assert any(block.page == page and block.first.startswith(first) for block in ALL), (page, first)
