"""Executions that were made together and differ in little: whoever looks at one of them knows the others."""

from __future__ import annotations

from .execution import Execution


class Alike(list[Execution]):
    """Two of them differ in nothing but id, parameters and trace id. Ids are in order, none comes twice, and each trace
    id is that of the execution itself. Only `core.series` makes these; a copy, or a part of one, is just a list.
    """
