"""Labels: short texts by which executions and jobs are found along an index.

The label of a search key is `order_id=4711`, the label of an error group is `!5f0c...`. The two never collide, because
the name of a search key is an identifier with dots. A job has labels for its owner, tags and metadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .values.payload import storable

MOST_KEYS = 10
"""How many search keys an execution can have."""
LONGEST_VALUE = 200
"""How many characters of a value are kept."""


def search_label(name: str, value: str) -> str:
    """The label of a search key. Long values are cut, both when they are stored and when they are searched for.

    >>> search_label("order_id", "4711")
    'order_id=4711'
    """
    return f"{name}={storable(value[:LONGEST_VALUE])}"


def error_label(group: str) -> str:
    return f"!{group}"


def search_keys(labels: Iterable[str]) -> list[tuple[str, str]]:
    """The search keys among labels, as name and value, sorted.

    >>> search_keys(["order_id=4711", "!5f0c8a3b9d21"])
    [('order_id', '4711')]
    """
    found = (label.partition("=") for label in labels if not label.startswith("!"))
    return sorted((name, value) for name, _, value in found)


MOST_TAGS = 20
LONGEST_TAG = 100
MOST_METADATA = 50
"""How many fields of its metadata become labels of a job."""


def owner_label(owner: str) -> str:
    return f"owner={owner}"


def tag_label(tag: str) -> str:
    return f"tag={tag}"


def metadata_label(name: str, value: object) -> str | None:
    """The label of a field of the metadata; None for values that cannot be filtered by: lists, objects and long texts.

    >>> metadata_label("site", "news"), metadata_label("retries", 3), metadata_label("live", True)
    ('meta.site=news', 'meta.retries=3', 'meta.live=true')
    """
    if not isinstance(value, str | int | float):
        return None
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"meta.{name}={text}" if len(name) + len(text) <= LONGEST_VALUE else None


def job_labels(owner: str | None, tags: Iterable[str], metadata: Mapping[str, object]) -> tuple[str, ...]:
    found = [] if owner is None else [owner_label(owner)]
    found += [tag_label(tag) for tag in tags]
    fields = [label for name in sorted(metadata) if (label := metadata_label(name, metadata[name])) is not None]
    return (*found, *fields[:MOST_METADATA])
