"""Turns doctests in docstrings into fenced code blocks, so that the site and the Markdown twins highlight them."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

DOCTEST = re.compile(r"(?:^>>> .*\n?(?:^(?!>>> |\n).+\n?)*)+", re.MULTILINE)


class Doctests(Extension):
    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(docstring: str) -> str:
    return DOCTEST.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", docstring).rstrip("\n")
