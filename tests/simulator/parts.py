"""What hangs together in one simulated process: the real core, around its own view of the store."""

from __future__ import annotations

from mainspring.core.commands.enqueue import Enqueuer
from mainspring.core.commands.steering import Steering
from mainspring.core.commands.trigger import ManualRuns
from mainspring.core.engine.node import Node, NodeSettings
from mainspring.core.jobs.job_cache import JobCache
from mainspring.core.queries.queries import Queries
from mainspring.core.store_clock import StoreClock
from mainspring.model.errors import StoreError
from mainspring.model.events import AttemptEnded, ClockJumped, SkewNoticed, Trouble
from mainspring.model.job import JobSpec
from tests.simulator.handlers import registry
from tests.simulator.heartbeat import HeartbeatTask
from tests.simulator.judge import short
from tests.simulator.process import Process
from tests.simulator.proxy import FaultyStore, Network

PAYLOAD_LIMIT = 262_144


class Parts:
    def __init__(self, network: Network, process: Process, old: bool = False) -> None:
        self.process, self._network = process, network
        self.faulty = FaultyStore(network, process)
        self.store = self.faulty.as_store
        self.registry = registry(old)
        self.time = StoreClock(process.clock, self.emit)
        self.job_cache = JobCache(self.store, self.time, process.chance, "old" if old else "new")
        self.queries = Queries(self.store, self.job_cache, self.time, network.lease)
        self.enqueuer = Enqueuer(
            self.store, self.registry, self.job_cache, self.time, process.chance, self.emit, PAYLOAD_LIMIT
        )
        self.manual_runs = ManualRuns(self.store, self.enqueuer, self.job_cache, self.time, process.chance, self.emit)
        self.steering = Steering(self.store, self.manual_runs, self.job_cache, self.queries, process.chance, self.emit)

    async def open(self, declared: list[tuple[str, JobSpec]]) -> None:
        await self.time.ask(self.store)
        await self.job_cache.declare(declared)

    def node(self, settings: NodeSettings, declared: list[tuple[str, JobSpec]]) -> Node:
        node = Node(
            self.store,
            self.registry,
            settings,
            self.time,
            self.process.chance,
            self.emit,
            declares=tuple(name for name, _ in declared),
            heartbeat=HeartbeatTask,
            send=self.faulty.send,
        )
        self._network.ledger.processes[node.id] = self.process
        return node

    def emit(self, event: object) -> None:
        """What core says of itself: an ending it calls accepted is, and its only troubles are the injected ones."""
        if not self.process.alive:
            return
        judge = self.process.judge
        match event:
            case AttemptEnded():
                row = self._network.ledger.rows[event.execution.id]
                told = f"{short(row.id)}#{event.execution.token} ended, says {self.process.name}"
                judge.check(len(row.ends) + row.given_back >= event.execution.claims, "what is told is true", told)
                if event.state.final:
                    judge.check(row.state is event.state, "what is told is true", f"{told}, {event.state}")
            case Trouble():
                judge.count("troubles")
                judge.check(
                    event.error.startswith(StoreError.__name__), "core survives", f"{event.error}: {event.where}"
                )
            case SkewNoticed():
                judge.count("skews noticed")
            case ClockJumped():
                judge.count("jumps noticed")
            case _:
                pass
