"""The numbers that apply where neither a setting nor a job says otherwise. Each default stands here once.

Settings (`config`), the engine and the documentation take them from here. Durations are seconds.
"""

from __future__ import annotations

from typing import Final

# --- a process ------------------------------------------------------------------------------------------------
CONCURRENCY: Final = 10
POLL_INTERVAL: Final = 10.0
LEASE: Final = 30.0
HEARTBEAT: Final = 10.0
RESCUE_INTERVAL: Final = 5.0
FOLD_INTERVAL: Final = 2.0
RETENTION_INTERVAL: Final = 60.0
START_TIMEOUT: Final = 60.0
STOP_TIMEOUT: Final = 30.0
STOP_RESERVE: Final = 5.0
USERNAME: Final = "scheduled"
"""`ctx.username` of an execution that no user asked for."""

# --- the child processes of a worker --------------------------------------------------------------------------
ISOLATION_CANCEL_GRACE: Final = 2.0
ISOLATION_TERM_GRACE: Final = 2.0
ISOLATION_RECYCLE_EXECUTIONS: Final = 1_000
ISOLATION_RECYCLE_AGE: Final = 3_600.0
ISOLATION_RECYCLE_GROWTH: Final = 512 * 1024 * 1024
"""Bytes."""

# --- payloads -------------------------------------------------------------------------------------------------
PAYLOAD_LIMIT: Final = 262_144
"""Bytes of JSON: the largest parameters of an execution, and its largest result."""

# --- attempts -------------------------------------------------------------------------------------------------
ENQUEUED_ATTEMPTS: Final = 10
SCHEDULED_ATTEMPTS: Final = 3
"""Of a job that runs by itself: on a schedule, or after other jobs."""
TENANT_ATTEMPTS: Final = 3

# --- jobs that are created over HTTP --------------------------------------------------------------------------
API_RETRIES: Final = 3
API_BACKOFF: Final = 60.0
API_BACKOFF_LIMIT: Final = 3600.0
"""The wait before a retry doubles up to this limit."""
