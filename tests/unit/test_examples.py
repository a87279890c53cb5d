"""The examples in the docstrings of triggers, windows and values do what they say."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest

MODULES = ["calendar_triggers", "cron_words", "interval_triggers", "trigger", "triggers", "values", "windows", "zones"]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    outcome = doctest.testmod(import_module(f"mainspring.model.{name}"))
    assert (outcome.failed, outcome.attempted > 0) == (0, True)
