"""The refusal of a trigger whose job runs already."""

from __future__ import annotations

from ..model.errors import CommandRefused
from ..model.execution import Execution


class AlreadyRunning(CommandRefused):
    """A trigger that was skipped because the job's overlap policy admits no second execution now."""

    def __init__(self, job: str, execution: Execution, holder: str | None) -> None:
        super().__init__("trigger", "running", ["no execution of it is alive"], f"job {job!r}")
        self.execution, self.holder = execution, holder

    def __str__(self) -> str:
        return (
            f"job {self.execution.job!r} is already running as execution {self.holder}; "
            f"this one was recorded as skipped ({self.execution.id})"
        )
