"""Run by a test, on the real store: an enqueue belongs to the transaction that is open where it is called."""

import asyncio

import django
import pytest
from django.db import connection, connections, transaction

if __name__ == "__main__":
    django.setup()

from asgiref.sync import async_to_sync, sync_to_async
from ledger.jobs import in_thread, thread_of
from ledger.models import Entry

from mainspring import InvalidValue, Unique
from mainspring.contrib.django import app


def stored() -> int:
    return len(app.sync.executions("in-thread"))


def rolled_back(enqueue) -> None:
    before = stored()
    with transaction.atomic():
        assert enqueue() is not None
        transaction.set_rollback(True)
    assert stored() == before, "a rollback leaves nothing"
    with transaction.atomic():
        execution = enqueue()
        assert stored() == before, "nothing is seen before the commit"
    assert stored() == before + 1
    assert app.sync.get(execution.id).params == {"name": "tea"}
    with transaction.atomic():
        try:
            with transaction.atomic():  # a savepoint
                enqueue()
                raise LookupError
        except LookupError:
            pass
    assert stored() == before + 1, "a savepoint takes it back, too"


def main() -> None:
    app.sync.open()
    Entry.objects.create(name="tea")
    rolled_back(lambda: in_thread.sync.enqueue(name="tea"))
    rolled_back(lambda: app.sync.enqueue_many([in_thread.bind(name="tea")])[0])
    rolled_back(lambda: async_to_sync(in_thread.enqueue)(name="tea"))
    rolled_back(lambda: async_to_sync(app.enqueue_many)([("in-thread", {"name": "tea"})])[0])
    before = stored()
    with transaction.atomic():
        transaction.on_commit(lambda: in_thread.sync.enqueue(name="tea"))
        assert stored() == before
    assert stored() == before + 1
    with transaction.atomic(), pytest.raises(InvalidValue, match=r"Enqueue after the commit: transaction.on_commit"):
        thread_of.options(unique=Unique("k", for_="1h")).sync.enqueue()
    asyncio.run(in_async_code())
    assert Entry.objects.count() == 1
    own = app.configuration.store_is_django
    print("joined" if own and app.joins(connection) else "deferred")


async def in_async_code() -> None:
    """As in an async view: there is no transaction unless plain code opens one."""
    before = await sync_to_async(stored)()
    await in_thread.enqueue(name="tea")
    assert await sync_to_async(stored)() == before + 1

    @sync_to_async
    def plain() -> None:
        with transaction.atomic():
            in_thread.sync.enqueue(name="tea")
            transaction.set_rollback(True)

    await plain()
    assert await sync_to_async(stored)() == before + 1
    await sync_to_async(connections.close_all)()


if __name__ == "__main__":
    main()
    app.sync.close()
    connections.close_all()
