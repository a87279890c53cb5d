"""Options that users write in code, such as `Limit(...)`: a field that is misspelt, or missing, is refused by name."""

from __future__ import annotations

from typing import Any

import msgspec

from ..errors import InvalidValue, nearest


class OptionFields(msgspec.StructMeta):
    """The metaclass of such options. What is decoded from JSON does not come by here."""

    def __call__(cls, *values: Any, **named: Any) -> Any:
        fields = cls.__struct_fields__
        for name in named:
            if name not in fields:
                guess = nearest(name, fields)
                remedy = f"Did you mean {guess!r}?" if guess else ""
                raise InvalidValue(cls.__name__, name, f"the fields {', '.join(fields)}", remedy)
        given = {*fields[: len(values)], *named}
        for name in fields[: len(fields) - len(cls.__struct_defaults__)]:
            if name not in given:
                raise InvalidValue(cls.__name__, f"{cls.__name__} without {name}", f"one that names its {name}")
        return super().__call__(*values, **named)
