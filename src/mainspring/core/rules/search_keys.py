"""Search keys: values by which executions are found, such as `order_id=4711`.

A job names paths into its parameters with `search=("order_id", "user.id")`; a handler adds keys with `ctx.tag`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ...model.errors import InvalidValue
from ...model.execution import ExecutionRow
from ...model.labels import LONGEST_VALUE, MOST_KEYS, search_label
from ...model.values.payload import presentable

PATH = r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*"
"""The name of a search key: identifiers with dots between them."""
LONGEST_PATH = 100
MOST_OF_A_LIST = 10
"""How many values of a list become search keys."""

_PATH = re.compile(PATH)
_ALLOWED = f'a path of names with dots, such as "order_id" or "user.id", of at most {LONGEST_PATH} characters'


def check_path(field: str, value: Any) -> str:
    """The name of a search key, or `InvalidValue`."""
    if isinstance(value, str) and len(value) <= LONGEST_PATH and _PATH.fullmatch(value):
        return value
    raise InvalidValue(field, presentable(value), _ALLOWED)


def check_search(field: str, value: Any) -> tuple[str, ...]:
    """The option `search`: up to 10 paths into the parameters; one may be given as text."""
    given = (value,) if isinstance(value, str) else value
    if not isinstance(given, Iterable) or isinstance(given, Mapping):
        raise InvalidValue(field, presentable(value), 'paths into the parameters, such as ("order_id", "user.id")')
    paths = tuple(dict.fromkeys(check_path(field, path) for path in given))
    if len(paths) > MOST_KEYS:
        raise InvalidValue(field, presentable(list(paths)), f"at most {MOST_KEYS} search keys")
    return paths


def search_labels(paths: Sequence[str], params: str) -> tuple[str, ...]:
    """The labels of an execution with these encoded parameters. The SQL function `search_labels` of PostgreSQL does the
    same.

    >>> search_labels(("order_id", "user.id"), '{"order_id":4711,"user":{"id":"u1"}}')
    ('order_id=4711', 'user.id=u1')
    """
    if not paths:
        return ()
    arguments = msgspec.json.decode(params)
    labels = (search_label(path, text) for path in paths for text in _texts(_at(arguments, path)))
    return tuple(dict.fromkeys(labels))[:MOST_KEYS]


def value_text(value: Any) -> str | None:
    """The text of a scalar, with numbers as JSON writes them. None if the value cannot be a search key.

    >>> value_text("4711"), value_text(4711), value_text(True), value_text(None)
    ('4711', '4711', 'true', None)
    """
    if isinstance(value, str):
        return value[:LONGEST_VALUE]
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return msgspec.json.encode(value).decode()
    return None


def _at(arguments: Any, path: str) -> Any:
    for name in path.split("."):
        arguments = arguments.get(name) if isinstance(arguments, dict) else None
    return arguments


def _texts(value: Any) -> Iterator[str]:
    """One for a scalar, one for each scalar of a list."""
    for each in value[:MOST_OF_A_LIST] if isinstance(value, list) else (value,):
        if (text := value_text(each)) is not None:
            yield text


def keys_before(execution: ExecutionRow) -> frozenset[str]:
    """The search keys that an execution has when an attempt begins: those of its parameters and those that earlier
    attempts added. They are derived here because claimed rows carry no labels."""
    of_job = search_labels(execution.rules.search, execution.params)
    added = (label for attempt in execution.attempts for label in attempt.tags) if execution.attempted else ()
    return frozenset(label for label in (*execution.labels, *of_job, *added) if not label.startswith("!"))


class Tags:
    """The search keys that a handler has added to its execution. `own` are those that the execution had before."""

    __slots__ = ("_own", "_sent", "labels")

    def __init__(self, own: frozenset[str] = frozenset()) -> None:
        self._own = own
        self._sent = 0
        self.labels: tuple[str, ...] = ()

    def add(self, keys: Mapping[str, Any]) -> list[str]:
        """Returns the names of the keys for which there is no room. These do not raise, because earlier attempts may
        have used up the room."""
        labels = dict.fromkeys(self.labels)
        left_out = []
        for name, value in keys.items():
            check_path("tag", name)
            if (text := value_text(value)) is None:
                raise InvalidValue(f"tag.{name}", presentable(value), "text, a number, true or false")
            label = search_label(name, text)
            if label in self._own or label in labels:
                continue
            if len(self._own) + len(labels) < MOST_KEYS:
                labels[label] = None
            else:
                left_out.append(name)
        self.labels = tuple(labels)
        return left_out

    def drain(self) -> tuple[str, ...]:
        """The keys that were added since the last call."""
        new, self._sent = self.labels[self._sent :], len(self.labels)
        return new

    def receive(self, labels: Iterable[str]) -> None:
        """Take over what the handler added in another process, whose context has checked it."""
        self.labels = tuple(dict.fromkeys((*self.labels, *labels)))

    def undrain(self) -> None:
        """Send all keys again, because those that were drained could not be stored."""
        self._sent = 0
