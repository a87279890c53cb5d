"""Simulation: the real scheduler, worker, janitor and client in a world where everything goes wrong, on virtual time.

Several nodes share one memory store. The seed decides who is slow, who is killed between two instructions, who is
stopped past its lease and goes on as if nothing had happened, whose clock jumps, which replies are lost. A ledger
watches every call and checks what must hold at every instant; when the faults end and everything has come to rest,
the whole history is checked. The same seed gives the same run, down to the last event:

    python -m tests.simulator --seed 42 -v

process.py faults.py proxy.py     what can happen to a process, and to its calls
handlers.py workload.py clients.py parts.py      who lives in the world and what they want
rows.py books.py ledger.py        what must hold at every instant
schedule.py journal.py verdict.py what must have happened in the end
world.py                          one run from beginning to end
"""

from __future__ import annotations

from tests.simulator.judge import Violation
from tests.simulator.report import Report, simulate

__all__ = ["Report", "Violation", "simulate"]
