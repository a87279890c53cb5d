"""Mainspring: jobs that run on time, once, on as many machines as you have.

```python
from mainspring import Mainspring, JobContext

app = Mainspring("sqlite:///mainspring.db")

@app.job("hello", cron="0 30 3 * * *", tz="Europe/Istanbul")
async def hello(ctx: JobContext) -> None:
    print("good morning")

app.run()
```
"""

from .app.handles import JobHandle
from .app.mainspring import Mainspring
from .core.commands.tenant_retries import TenantRun
from .core.declaring.context import JobContext
from .core.declaring.signature import PayloadMismatch
from .core.locks import LockTaken
from .core.tenants.context import current_tenant
from .core.views.events import Event
from .core.views.execution import Attempt, Execution
from .core.views.job import JobView
from .core.views.records import Backfill, BulkAction, LogEntry
from .model.backfill import Windows, WindowStatus
from .model.calendars.hours import Hours
from .model.errors import (
    AlreadyRunning,
    BackfillNotFound,
    BulkNotFound,
    CommandRefused,
    ConfigurationError,
    DuplicateRegistration,
    ExecutionCancelled,
    ExecutionNotFound,
    HandlerNotFound,
    InvalidValue,
    JobNotFound,
    LeaseLost,
    LockUnavailable,
    MainspringError,
    NonRetryable,
    RetryAfter,
    SchemaMismatch,
    Skip,
    StoreError,
    StoreUnavailable,
)
from .model.execution import State
from .model.job import JobState
from .model.limits import Limit
from .model.policies import CatchUp, Retention, Retry, Unique
from .model.triggers import any_of, cron, daily_at, every, hourly_at, monthly_at, once, weekly_at
from .model.values.access import Secret
from .model.windows import Window, days_ago, limited, offset
from .version import VERSION

__version__ = VERSION

__all__ = [
    "AlreadyRunning",
    "Attempt",
    "Backfill",
    "BackfillNotFound",
    "BulkAction",
    "BulkNotFound",
    "CatchUp",
    "CommandRefused",
    "ConfigurationError",
    "DuplicateRegistration",
    "Event",
    "Execution",
    "ExecutionCancelled",
    "ExecutionNotFound",
    "HandlerNotFound",
    "Hours",
    "InvalidValue",
    "JobContext",
    "JobHandle",
    "JobNotFound",
    "JobState",
    "JobView",
    "LeaseLost",
    "Limit",
    "LockTaken",
    "LockUnavailable",
    "LogEntry",
    "Mainspring",
    "MainspringError",
    "NonRetryable",
    "PayloadMismatch",
    "Retention",
    "Retry",
    "RetryAfter",
    "SchemaMismatch",
    "Secret",
    "Skip",
    "State",
    "StoreError",
    "StoreUnavailable",
    "TenantRun",
    "Unique",
    "Window",
    "WindowStatus",
    "Windows",
    "any_of",
    "cron",
    "current_tenant",
    "daily_at",
    "days_ago",
    "every",
    "hourly_at",
    "limited",
    "monthly_at",
    "offset",
    "once",
    "weekly_at",
]
