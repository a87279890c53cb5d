"""Counts how often a store takes the short ways it has for usual endings and ticks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, NamedTuple

import pytest

Judge = Callable[..., bool]
"""Called with the result of the function and its arguments: whether the short way was taken."""


class Way(NamedTuple):
    module: Any
    function: str
    taken: Mapping[str, Judge]


@contextmanager
def counted(*ways: Way) -> Iterator[Counter[str]]:
    counts = Counter({name: 0 for way in ways for name in way.taken})
    with pytest.MonkeyPatch.context() as patch:
        for way in ways:
            patch.setattr(way.module, way.function, _counting(getattr(way.module, way.function), way.taken, counts))
        yield counts


def _counting(function: Callable[..., Any], taken: Mapping[str, Judge], counts: Counter[str]) -> Callable[..., Any]:
    def count(result: Any, arguments: tuple[Any, ...]) -> Any:
        counts.update(name for name, judge in taken.items() if judge(result, *arguments))
        return result

    if iscoroutinefunction(function):

        @wraps(function)
        async def waits(*arguments: Any) -> Any:
            return count(await function(*arguments), arguments)

        return waits

    @wraps(function)
    def calls(*arguments: Any) -> Any:
        return count(function(*arguments), arguments)

    return calls
