"""One world: several nodes and clients around one store, a while of chaos, and the peace after it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any

from mainspring.core.engine.node import Node
from mainspring.core.views.job import job_of
from mainspring.model.errors import CommandRefused, StoreError
from mainspring.model.execution import State
from mainspring.model.job import Job
from mainspring.model.time.instants import SECOND, Micros
from mainspring.stores.memory import MemoryStore
from tests.simulator.clients import SimulatedClient
from tests.simulator.faults import Faults
from tests.simulator.journal import Journal
from tests.simulator.judge import Judge, short
from tests.simulator.ledger import Ledger
from tests.simulator.parts import Parts
from tests.simulator.process import NodeClock, Process, StoreClock, own_tasks
from tests.simulator.proxy import Network
from tests.simulator.settings import SETTINGS
from tests.simulator.verdict import judge_the_end
from tests.simulator.workload import draw

CHAOS = 75.0
SETTLING = 12.0
LONGEST_PEACE = 3_000.0
LONG_CUT = 24.0
"""Longer than a lease, a beat and the time a stubborn handler takes to stop."""

SLACK = 3 * SECOND
"""How far behind the clock a scheduler may be when its job is paused."""


class World:
    def __init__(self, seed: int, judge: Judge, store: type[MemoryStore] = MemoryStore) -> None:
        self.seed, self.judge = seed, judge
        self.chance = Random(f"{seed} world")
        self.workload = draw(Random(f"{seed} workload"))
        self.clock = StoreClock(self.workload.start)
        self.journal = Journal(judge, SETTINGS.concurrency)
        self.ledger = Ledger(judge, self.journal, self.clock)
        self.store = store(self.clock)
        self.faults = Faults(Random(f"{seed} faults"))
        self.network = Network(self.store, self.ledger, self.faults, judge, SETTINGS.lease)
        self.nodes: dict[str, tuple[Process, Node]] = {}
        self._old: set[str] = set()
        self._names = 0
        self._loop = asyncio.get_running_loop()
        self._store_jumps = self.chance.random() < 0.5

    async def run(self) -> None:
        self._loop.set_task_factory(own_tasks)
        for _ in range(self.chance.randint(2, 3)):
            self._start_node()
        clients = [self._start_client() for _ in range(2)]
        await self._rage(clients)
        until = await self._calm_down(clients)
        if self.judge.violation is None:
            await judge_the_end(self.store, self.ledger, until)
        if self.judge.violation is None:
            await self._leave()

    # --- processes ----------------------------------------------------------------------------------------
    def _process(self, kind: str) -> Process:
        self._names += 1
        name = f"{kind}-{self._names}"
        chance = Random(f"{self.seed} {name}")
        return Process(name, self.journal, NodeClock(self.workload.start, chance), chance)

    def _start_node(self, old: bool = False) -> None:
        process = self._process("node")
        process.start(self._node(process, old))

    async def _node(self, process: Process, old: bool) -> None:
        """Start as a deployed application does: declare its jobs, then take part. Try again if the store is away."""
        node = await self._started(process, old)
        while node is None:
            await asyncio.sleep(1.0)
            node = await self._started(process, old)
        self.judge.note(process.name, f"started as {short(node.id)}{' with the old release' if old else ''}")
        self.nodes[process.name] = (process, node)
        if old:
            self._old.add(process.name)

    async def _started(self, process: Process, old: bool) -> Node | None:
        declared = self.workload.releases[0 if old else 1]
        parts = Parts(self.network, process, old)
        try:
            await parts.open(declared)
            node = parts.node(SETTINGS, declared)
            await node.start()
        except StoreError:
            return None
        return node

    def _start_client(self) -> Process:
        process = self._process("client")
        client = SimulatedClient(Parts(self.network, process), self.workload, process.chance)
        process.start(client.run())
        return process

    # --- chaos --------------------------------------------------------------------------------------------
    async def _rage(self, clients: list[Process]) -> None:
        end = self._loop.time() + CHAOS
        while self._loop.time() < end and self.judge.violation is None:
            await self._sleep(self.chance.uniform(0.5, 6.0))
            self._bury(clients)
            self._strike()

    def _bury(self, clients: list[Process]) -> None:
        """What was killed is replaced, by the same release or another."""
        standing = self._standing()
        if standing < 2 or (standing < 4 and self.chance.random() < 0.3):
            self._start_node(old=self.chance.random() < 0.4)
        for number, process in enumerate(clients):
            if not process.alive:
                self.judge.count("client crashes")
                clients[number] = self._start_client()

    def _standing(self) -> int:
        for name, (process, _) in list(self.nodes.items()):
            if not process.alive:
                del self.nodes[name]
        return len(self.nodes)

    def _strike(self) -> None:
        """Something happens to somebody, most likely to a node that is at work."""
        alive = [(process, node) for process, node in self.nodes.values() if process.alive and not process.paused]
        if not alive:
            return
        busy = [(process, node) for process, node in alive if node.worker.running] or alive
        process, node = self.chance.choice(busy)
        match self.chance.randrange(11):
            case 0 | 1:
                self._tell(process, "crash")
                process.kill()
            case 2 | 3:
                self._tell(process, "pause")
                process.pause(self.chance.choice([self.chance.uniform(0.9, 1.4), 2.0]) * SETTINGS.lease)
            case 8:
                self._tell(process, "partition")
                self._cut(process, self.chance.choice([3.0, SETTINGS.lease, LONG_CUT]))
            case 4 | 5:
                self._tell(process, "clock jump")
                process.clock.jump(self.chance.choice([-3_600, -30, -3, 3, 30, 3_600]))
            case 6 if self._store_jumps:
                self._tell(process, "store clock jump")
                self.clock.jump(self.chance.choice([-20, -3, 1, 5, 20, 20, 700, 700, 93_600]))
            case 7:
                self._stop(process, node)
            case _:
                pass

    def _cut(self, process: Process, seconds: float) -> None:
        process.cut(seconds)
        if seconds >= LONG_CUT:
            began = self._loop.time()
            self._loop.call_later(seconds, self._check_stopped, process, began)

    def _check_stopped(self, process: Process, began: float) -> None:
        """WRK-8: whose beats have failed for a whole lease stops its own handlers."""
        left = self.journal.running(process.name, began)
        paused = process.paused or process.resumed_at >= began
        at_work = self.faults.on and process.alive and not paused and bool(left)
        self.judge.check(not at_work, "who is cut off stops", f"{process.name} goes on with {left}")

    def _tell(self, process: Process, what: str) -> None:
        self.judge.count(f"{what}s" if what != "crash" else "crashes")
        self.judge.note(process.name, what)

    def _stop(self, process: Process, node: Node) -> None:
        self._tell(process, "graceful stop")
        del self.nodes[process.name]
        process.leaving = True
        process.start(node.stop())

    # --- peace --------------------------------------------------------------------------------------------
    async def _calm_down(self, clients: list[Process]) -> Micros:
        """No more faults; enough nodes of the present release; operators bring every schedule to rest."""
        self.faults.on = False
        self.judge.note("world", "peace")
        for process in clients:
            process.kill()
        for process, node in list(self.nodes.values()):
            process.resume()
            process.cut(0)
            if process.name in self._old:
                self._stop(process, node)
        operator = self._process("operator")
        parts = Parts(self.network, operator)
        supervisor = self._loop.create_task(self._supervise())
        await self._guarded(operator, self._pause_all(parts, resume=True))
        await self._sleep(SETTLING)
        until = self.clock.now() - SLACK
        while self.judge.violation is None and (not self._quiet() or self._scheduled()):
            await self._guarded(operator, self._pause_all(parts, resume=False))
            await self._until_quiet()
        supervisor.cancel()
        return until

    async def _supervise(self) -> None:
        """There are still handlers that kill their process: who falls is replaced."""
        self._start_node()
        while True:
            await asyncio.sleep(1.0)
            if self._standing() - sum(1 for name in self.nodes if name in self._old) < 2:
                self._start_node()
                await asyncio.sleep(1.0)

    async def _guarded(self, process: Process, work: Coroutine[Any, Any, None]) -> None:
        task = process.start(work)
        stopped = asyncio.ensure_future(self.judge.stopped.wait())
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED, timeout=LONGEST_PEACE)
        self.judge.check(task.done(), "operators are heard", "a pause or a resume does not come to an end")
        for each in (task, stopped):
            each.cancel()

    async def _pause_all(self, parts: Parts, resume: bool) -> None:
        """Resume every paused job, or pause every ticking one; a refusal is waited out."""
        await parts.open([])
        left = True
        while left:
            left = False
            for view in await parts.queries.jobs():
                if not (view.is_paused if resume else _scheduled(job_of(view))):
                    continue
                try:
                    await (parts.steering.resume if resume else parts.steering.pause)(view.name, by=parts.process.name)
                except CommandRefused:
                    left = True
            await asyncio.sleep(0.5)

    async def _until_quiet(self) -> None:
        deadline = self._loop.time() + LONGEST_PEACE
        while self.judge.violation is None and not self._quiet():
            if self._loop.time() > deadline:
                live = [f"{short(row.id)} {row.state} {row.given.job}" for row in self.ledger.live()]
                self.judge.fail("everything comes to an end", f"still alive: {', '.join(live[:5]) or 'marks'}")
                return
            await self._sleep(1.0)
            self._check_orphans()
        await self._sleep(2 * SETTINGS.sweep_interval)

    def _scheduled(self) -> bool:
        """A process that started late may have declared a job anew, which now ticks."""
        return any(_scheduled(job) for job in self.ledger.jobs.values())

    def _quiet(self) -> bool:
        waiting = any(row.todo for row in self.ledger.rows.values())
        return not waiting and not any(self.ledger.live()) and not any(job.sweep for job in self.ledger.jobs.values())

    def _check_orphans(self) -> None:
        """WRK-4: with janitors at work, no lease stays run out for long, and who was asked to stop does not wait on."""
        patience = SETTINGS.heartbeat + 2 * SETTINGS.rescue_interval + 4.0
        since = self._loop.time() - patience
        if not any(process.sound_since(since) for process, _ in self.nodes.values()):
            return
        oldest = self.clock.now() - int(patience * SECOND)
        for row in self.ledger.live():
            late = row.lease is not None and row.lease < oldest
            self.judge.check(not late, "orphans are rescued in time", f"{short(row.id)} of {row.given.job}")
            stray = row.asked and row.state is State.PENDING and row.settled_at < since
            self.judge.check(not stray, "who was asked to stop does", f"{short(row.id)} of {row.given.job} waits on")

    async def _leave(self) -> None:
        """Everybody goes home; nothing of them may stay behind."""
        for process, node in self.nodes.values():
            await self._guarded(process, node.stop())
            await self._sleep(0.01)
            left = process.tasks()
            self.judge.check(not left, "nothing runs after stop", f"{process.name}: {left}")

    async def _sleep(self, seconds: float) -> None:
        """Time passes, unless the run is over."""
        try:
            async with asyncio.timeout(seconds):
                await self.judge.stopped.wait()
        except TimeoutError:
            pass


def _scheduled(job: Job) -> bool:
    """Whether it will tick again unless it is paused."""
    return job.ticking and (job.next_run is not None or (job.trigger is not None and job.trigger.fixed_delay))
