"""Data that other schedulers stored as pickles.

Unpickling runs whatever code the data names, so it is never done unasked. Pickles that hold plain data alone name no
code and are read without that risk.
"""

from __future__ import annotations

import io
import json
import pickle
from typing import Any

from ...model.errors import ConfigurationError


class PickleRefused(ConfigurationError):
    """The data names code, and nobody allowed to run it."""


class _PlainData(pickle.Unpickler):
    """Reads numbers, text and containers; refuses everything that names a class or a function."""

    def find_class(self, module: str, name: str) -> Any:
        raise PickleRefused(
            f"the stored data names {module}.{name}, and reading it runs code: "
            "add --trust-pickles if you trust everyone who can write there"
        )


def stored_data(data: bytes, trust: bool) -> Any:
    """The data of a pickle, or of JSON; without `trust` only plain data."""
    try:
        if data[:1] in (b"{", b"["):
            return json.loads(data)
        return pickle.loads(data) if trust else _PlainData(io.BytesIO(data)).load()  # noqa: S301 - only if asked for
    except PickleRefused:
        raise
    except Exception as error:  # whatever the data or the code it names may raise
        what = f"{type(error).__name__}: {error}"
        raise ConfigurationError(
            f"the stored data cannot be read ({what}): make the modules that it names importable here"
        ) from error
