"""What it costs to be watched: one drain with observability off, with logs, with metrics, with traces, and with all.

    python -m benchmarks.observability [--executions 2000] [--rounds 20] [--store sqlite|memory|postgresql://...]

Each round drains the same number of no-op executions in every mode, one after another in one process, so that a noisy
machine is noisy for all of them. What counts is CPU time of the process per execution, all threads and the start of the
worker included, the least of all rounds, since noise only ever adds to it: many short rounds tell more than a few long
ones. Beside it stands the median of all rounds, each compared with the first mode in the same round: no lucky moment
decides that one. Garbage that was there before is collected before each drain. The exporter of spans does nothing.

In `traces`, executions come from a few batches. Two modes compare with it: `callers`, where each execution has a trace
of its own, as if a request each had created them, and `sampled`, the same with one trace in ten recorded. The cost of
such a span without Mainspring is printed too.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    TraceFlags,
    set_span_in_context,
)

from mainspring import Mainspring
from mainspring.observe.dispatch import Dispatcher
from mainspring.observe.logs.background import BackgroundHandler
from mainspring.observe.logs.formats import JsonFormatter
from mainspring.observe.metrics.process_counters import ProcessCounts

MODES = ("bare", "off", "logs", "metrics", "traces", "all", "callers", "sampled")
TRACED = ("traces", "all", "callers", "sampled")
BARS = {"off": 1.02, "metrics": 1.05}
"""Times the CPU of a drain in which nothing even asks whether anybody listens. `off` is to cost nothing measurable."""


class NoExporter(SpanExporter):
    def export(self, spans: Any) -> SpanExportResult:
        return SpanExportResult.SUCCESS


class Silence(Dispatcher):
    def add(self, observer: Callable[[Any], None]) -> None:
        """Nobody ever listens."""


class Mode:
    """What is switched on. `bare` is without observers at all, which an application cannot have."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.logs, self.metrics = name in ("logs", "all"), name in ("metrics", "all")
        self.logger = logging.getLogger(f"benchmark.{name}")
        self.logger.propagate, self.logger.handlers = False, []
        self.logger.setLevel(logging.INFO if self.logs else logging.WARNING)
        self._file = open(folder / f"{name}.log", "w")  # noqa: SIM115 - closed with the mode
        if self.logs:
            handler = BackgroundHandler(self._file, capacity=1_000_000)
            handler.setFormatter(JsonFormatter())
            self.logger.addHandler(handler)
        self.provider = self._provider() if name in TRACED else None

    def _provider(self) -> TracerProvider:
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(NoExporter()))
        return provider

    def work(self, executions: int) -> list[Any]:
        """What is enqueued: a few batches, or each from a caller of its own."""
        if self.name not in ("callers", "sampled"):
            return [("noop", {"number": number}) for number in range(executions)]
        every = 10 if self.name == "sampled" else 1
        callers = (f"00-{number + 1:032x}-{number + 1:016x}-0{int(number % every == 0)}" for number in count())
        return [("noop", {"number": number}, {"traceparent": next(callers)}) for number in range(executions)]

    def application(self, url: str, concurrency: int) -> Mainspring:
        app = Mainspring(url, logger=self.logger, tracer_provider=self.provider, concurrency=concurrency)
        if self.metrics:
            app.observe(ProcessCounts(1_000))
        if self.name == "bare":
            app._runtime.emit = Silence()
        return app

    def close(self) -> None:
        for handler in self.logger.handlers:
            handler.close()
        self._file.close()
        if self.provider is not None:
            self.provider.shutdown()


async def drain(app: Mainspring, work: list[Any]) -> tuple[float, float]:
    """Microseconds of CPU for each execution, and how many a second."""
    total, done = len(work), asyncio.Event()
    left = total

    @app.job("noop")
    async def noop(number: int) -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set()

    await app.enqueue_many(work)
    work.clear()
    gc.collect()  # what was made so far is not what the drain costs
    cpu, wall = time.process_time(), time.perf_counter()
    async with app:
        await done.wait()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return cpu / total * 1e6, total / wall


def one_span(executions: int) -> float:
    """Microseconds for such a span made by the SDK alone: as many attributes, a parent, a link."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(NoExporter()))
    tracer = provider.get_tracer("benchmark")
    origin = SpanContext(1, 2, True, TraceFlags(1))
    parent, links = set_span_in_context(NonRecordingSpan(origin)), (Link(origin),)
    attributes = {f"messaging.attribute.{number}": "a value" for number in range(9)}
    began = time.process_time()
    for _ in range(executions):
        span = tracer.start_span("process default", parent, SpanKind.CONSUMER, attributes, links)
        span.set_attribute("mainspring.outcome", "completed")
        span.end()
    spent = time.process_time() - began
    provider.shutdown()
    return spent / executions * 1e6


def measure(arguments: argparse.Namespace, folder: Path, show: Callable[[str], None]) -> dict[str, Any]:
    cpu: dict[str, list[float]] = {name: [] for name in arguments.modes}
    rate: dict[str, list[float]] = {name: [] for name in arguments.modes}
    spans: list[float] = []
    for number in range(arguments.rounds):
        names = arguments.modes if number % 2 else arguments.modes[::-1]
        for name in names:
            mode = Mode(name, folder)
            app = mode.application(address(arguments.store, folder, f"{name}{number}"), arguments.concurrency)
            spent, per_second = asyncio.run(drain(app, mode.work(arguments.executions)))
            mode.close()
            cpu[name].append(spent)
            rate[name].append(per_second)
        spans.append(one_span(arguments.executions))
        show(f"round {number + 1} of {arguments.rounds}")
    return {
        "cpu_us": {name: min(values) for name, values in cpu.items()},
        "median_ratio": {name: median_ratio(values, cpu[arguments.modes[0]]) for name, values in cpu.items()},
        "per_second": {name: max(values) for name, values in rate.items()},
        "sdk_span_us": min(spans),
    }


def median_ratio(values: list[float], base: list[float]) -> float:
    """Round by round: what happens to the machine between two rounds does not matter."""
    return median(value / first for value, first in zip(values, base, strict=True))


def address(store: str, folder: Path, name: str) -> str:
    return f"sqlite:///{folder / name}.db" if store == "sqlite" else "memory://" if store == "memory" else store


def table(figures: dict[str, Any]) -> list[str]:
    lines = [f"{'mode':10} {'us of CPU':>10} {'ratio':>7} {'median':>7} {'a second':>10}  bar"]
    base = next(iter(figures["cpu_us"].values()))
    for name, spent in figures["cpu_us"].items():
        bar, usual, rate = BARS.get(name), figures["median_ratio"][name], figures["per_second"][name]
        verdict = "" if bar is None else f"at most {bar:.2f}: {'met' if spent / base <= bar else 'MISSED'}"
        lines.append(f"{name:10} {spent:10.1f} {spent / base:7.2f} {usual:7.2f} {rate:10,.0f}  {verdict}")
    span = figures["sdk_span_us"]
    return [*lines, f"the span of an attempt, made by the SDK alone: {span:.1f} us, {span / base:.0%} of a drain"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--executions", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--concurrency", type=int, default=100)
    parser.add_argument("--store", default="sqlite")
    parser.add_argument("--modes", nargs="+", default=MODES, choices=MODES)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, suppress(KeyboardInterrupt):
        figures = measure(arguments, Path(folder), lambda line: None if arguments.json else print(line, flush=True))
        print(json.dumps(figures) if arguments.json else "\n".join(table(figures)))


if __name__ == "__main__":
    main()
