"""Jobs that read and write by the ORM: in a thread, as a coroutine, in a process of their own."""

import threading

from django.db import connection, transaction
from django.db.models import F

from mainspring.contrib.django import app

from .models import Entry


def add(name: str) -> int:
    with transaction.atomic():
        entry = Entry.objects.select_for_update().get(name=name)
        Entry.objects.filter(pk=entry.pk).update(count=F("count") + 1)
        with connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                cursor.execute("SELECT pg_sleep(0.02)")
    return Entry.objects.get(name=name).count


@app.job("in-thread", retry="100ms")
def in_thread(name: str) -> int:
    return add(name)


@app.job("awaited", retry="100ms")
async def awaited(name: str) -> int:
    await Entry.objects.filter(name=name).aupdate(count=F("count") + 1)
    return (await Entry.objects.aget(name=name)).count


@app.job("in-process", retry="100ms", isolation="process")
def in_process(name: str) -> int:
    return add(name)


@app.job("thread-of")
def thread_of() -> int:
    return threading.get_ident()


@app.job("enqueues")
def enqueues(name: str, fail: bool = False) -> None:
    with transaction.atomic():
        Entry.objects.create(name=name)
        in_thread.sync.enqueue(name=name)
        if fail:
            raise ValueError("rolled back")
