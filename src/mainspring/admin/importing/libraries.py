"""Libraries of other schedulers, which are untyped and not always installed."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def library(name: str) -> Any:
    """The module of this name, or None if it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        return None
