"""Memory that the process no longer needs goes back to the system.

The C library keeps what was freed for its own later use, in one heap for each thread: after many large payloads that
may be hundreds of megabytes. Where the library can be asked for it (glibc), it is, once the process has grown by much
and has stopped growing; and less and less often if that does not help.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
from collections.abc import Callable
from contextlib import suppress

LOOK, LONGEST = 2.0, 10.0  # seconds
MUCH = 16 * 1024 * 1024


async def give_back_memory() -> None:
    """Runs until it is cancelled; ends at once where there is nothing to ask."""
    trim, lowest, last, pause = _trim(), resident(), 0, LOOK
    while trim is not None and lowest:
        await asyncio.sleep(pause)
        now = resident()
        lowest = min(lowest, now)
        if now - lowest > MUCH and now <= last + MUCH // 16:
            await asyncio.to_thread(trim, 0)
            last = resident()
            pause = LOOK if now - last > MUCH // 4 else min(pause + LOOK, LONGEST)
        else:
            last, pause = now, LOOK


def resident() -> int:
    """Bytes of memory in use; 0 if the system does not say."""
    with suppress(OSError, ValueError, IndexError), open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _trim() -> Callable[[int], int] | None:
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):  # another C library
        return None
    return trim
