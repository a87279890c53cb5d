"""The command line. `main` is the console script; `python -m mainspring` is the same."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 refused or failed, 2 bad input."""
    from .root import run_command  # so that importing this package costs nothing

    return run_command(arguments)
