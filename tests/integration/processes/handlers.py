"""The application of these tests, as the worker and its child processes import it: what a handler does, wherever it
runs. Handlers that go on for ever write their process id into a file first, so that a test knows that they have begun.
"""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import logging
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from mainspring import JobContext, Mainspring
from mainspring.processes.resources import resident

GROWTH = 50_000_000
"""Bytes a second."""
FOREVER = 10**13

SETTINGS: dict[str, Any] = {
    "import_path": "tests.integration.processes.handlers:build",
    "isolation_cancel_grace": 0.1,
    "isolation_term_grace": 0.3,
    "poll_interval": 600,
    "stop_timeout": 5,
    "username": "robot",
}

schema: ContextVar[str] = ContextVar("schema", default="none")
log = logging.getLogger("shop.orders")


@contextmanager
def tenant_schema(tenant: str) -> Iterator[None]:
    token = schema.set(f"schema_of_{tenant}")
    try:
        yield
    finally:
        schema.reset(token)


def begin(file: str) -> None:
    """Say that the handler has begun, and where."""
    Path(file).write_text(str(os.getpid()))


def returns(ctx: JobContext, file: str) -> dict[str, int]:
    return {"pid": os.getpid()}


def raises(ctx: JobContext, file: str) -> None:
    raise ValueError("no such order")


def checks(ctx: JobContext, file: str) -> None:
    """Stops when it is asked to."""
    ctx.progress(1, 2)
    begin(file)
    while True:
        ctx.check()
        time.sleep(0.005)


def ignores(ctx: JobContext, file: str) -> None:
    """Only a signal stops it."""
    begin(file)
    while True:
        time.sleep(0.005)


def blocks(ctx: JobContext, file: str) -> None:
    """Holds the interpreter's lock: only SIGKILL stops it."""
    begin(file)
    sum(itertools.repeat(0, FOREVER))


def blocks_for_a_moment(ctx: JobContext, file: str) -> None:
    sum(itertools.repeat(0, 10_000_000))


def sleeps_with_the_lock(ctx: JobContext, file: str) -> None:
    """A call into C that holds the interpreter's lock, and that a signal ends: no other thread sees the request."""
    begin(file)
    ctypes.PyDLL(None).sleep(60)
    time.sleep(60)


def leaves(ctx: JobContext, file: str) -> None:
    sys.exit(3)


def exits(ctx: JobContext, file: str) -> None:
    os._exit(3)


def crashes(ctx: JobContext, file: str) -> None:
    ctx.logger.warning("it will not end well")
    print("one last word")
    ctypes.string_at(0)


def asks_for_too_much(ctx: JobContext, file: str) -> None:
    bytearray(1 << 46)


def grows(ctx: JobContext, file: str) -> None:
    """By 50 MB a second. The file says when it held how much."""
    held, began = [], time.monotonic()
    with open(file, "w", buffering=1) as lines:
        while True:
            held.append(b"x" * (GROWTH // 50))
            lines.write(f"{time.monotonic()} {resident()}\n")
            time.sleep(max(0.0, began + len(held) / 50 - time.monotonic()))


def starts_children(ctx: JobContext, file: str) -> dict[str, Any]:
    """And does not wait for them."""
    children = [os.posix_spawnp("sleep", ["sleep", "60"], os.environ) for _ in range(2)]
    return {"pid": os.getpid(), "children": children}


def forks_and_grows(ctx: JobContext, file: str) -> None:
    """What its children hold counts as well."""
    if os.fork() == 0:
        held = b"x" * 120_000_000
        time.sleep(600 + len(held) % 2)
    os.wait()


def signals_others(ctx: JobContext, file: str) -> dict[str, int]:
    """Signals end what it has forked and started as they end any process, and not itself."""
    forked = os.fork()
    if forked == 0:
        time.sleep(600)
    os.kill(forked, signal.SIGTERM)
    with subprocess.Popen(["sleep", "600"]) as started:
        started.send_signal(signal.SIGINT)
    os.kill(os.getpid(), signal.SIGTERM)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    return {"forked": os.waitpid(forked, 0)[1], "started": started.returncode, "pid": os.getpid()}


def meddles(ctx: JobContext, file: str) -> dict[str, int]:
    """With what belongs to the whole process."""
    if ctx.job.endswith("meddles"):
        os.chdir("/")
    else:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    return {"pid": os.getpid()}


def computes(ctx: JobContext, file: str) -> None:
    while True:
        pass


def writes_to_the_channel(ctx: JobContext, file: str) -> None:
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, b"\xff" * 64)
        except OSError:
            continue
    time.sleep(600)


def closes_everything(ctx: JobContext, file: str) -> None:
    os.closerange(3, 64)
    time.sleep(600)


def reports(ctx: JobContext, file: str) -> dict[str, Any]:
    """Uses all that a context offers."""
    print("printed")
    print("to stderr", file=sys.stderr)
    log.warning("logged %s", 1, extra={"order": 7})
    log.debug("too quiet")
    warnings.warn(f"warned {ctx.tenant}", stacklevel=1)
    ctx.logger.info("through the context")
    ctx.progress(3, 4, "nearly")
    ctx.count(orders=2)
    ctx.metadata["seen"] = True
    ctx.tag(order_id="4711")
    return {
        "pid": os.getpid(),
        "tenant": ctx.tenant,
        "schema": schema.get(),
        "resource": ctx.resources["greeting"],
        "made_in": ctx.resources["made_in"],
        "user": ctx.username,
        "attempt": ctx.attempt,
        "span": _current_span(),
    }


def _current_span() -> str:
    from opentelemetry import trace

    here = trace.get_current_span().get_span_context()
    return f"{here.trace_id:032x}-{here.span_id:016x}"


def uses_memory(ctx: JobContext, file: str) -> dict[str, float]:
    """Returns its own milliseconds of processor time, and those of its process before it."""
    before = time.process_time()
    held = b"x" * 60_000_000
    began = time.process_time()
    while time.process_time() - began < 0.1:
        pass
    del held
    return {"own": (time.process_time() - before) * 1000, "before": before * 1000}


async def awaits(ctx: JobContext, file: str) -> None:
    begin(file)
    await asyncio.sleep(600)


async def never_yields(ctx: JobContext, file: str) -> None:
    begin(file)
    while True:
        time.sleep(0.005)


PLAIN = (
    returns, raises, checks, ignores, blocks, sleeps_with_the_lock, blocks_for_a_moment, leaves, exits, crashes,
    asks_for_too_much, grows,
    starts_children, forks_and_grows, computes, writes_to_the_channel, closes_everything, reports, uses_memory,
)  # fmt: skip
COROUTINES = (awaits, never_yields)


def build(store: Any = "memory://", **settings: Any) -> Mainspring:
    """A job for each handler and each place where it can run, such as `process_returns`."""
    app = Mainspring(
        store,
        resources={"greeting": "hello"},
        tenant_context=tenant_schema,
        **{**SETTINGS, **settings},
    )
    app.setup(lambda: {"made_in": os.getpid()})
    once: dict[str, Any] = {"max_attempts": 1}
    for each in PLAIN:
        app.job(f"process_{each.__name__}", isolation="process", **once, **LIMITS.get(each.__name__, {}))(each)
        app.job(f"thread_{each.__name__}", isolation="thread", **once)(each)
        app.job(f"async_{each.__name__}", **once)(_as_coroutine(each))
    for coroutine in COROUTINES:
        app.job(f"process_{coroutine.__name__}", isolation="process", **once)(coroutine)
        app.job(f"async_{coroutine.__name__}", **once)(coroutine)
    for each in (checks, ignores, blocks, sleeps_with_the_lock, awaits, never_yields):
        app.job(f"timed_{each.__name__}", isolation="process", timeout=0.3, **once)(each)
    app.job("timed_thread", isolation="thread", timeout=0.2, **once)(checks)
    app.job("timed_async", timeout=0.2, **once)(awaits)
    app.job("tenants", isolation="process", tenants=["acme", "umbra"], tenant_max_attempts=1)(reports)
    app.job("signals_others", isolation="process", **once)(signals_others)
    for name in ("meddles", "ignores_its_children"):
        app.job(name, isolation="process", **once)(meddles)
    app.job("hard_limit", isolation="process", max_address_space="4GiB", **once)(asks_for_too_much)
    return app


def build_unprepared() -> Mainspring:
    app = build()

    @app.setup
    def prepare() -> None:
        raise LookupError("no licence")

    return app


LIMITS: dict[str, dict[str, Any]] = {
    "grows": {"max_memory": "70MB"},
    "forks_and_grows": {"max_memory": "100MB"},
    "computes": {"max_cpu": 0.3},
}


def _as_coroutine(function: Any) -> Any:
    async def handler(ctx: JobContext, file: str) -> Any:
        return function(ctx, file)

    return handler
