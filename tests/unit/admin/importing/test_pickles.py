"""Reading pickles never runs code unasked."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest

from mainspring import ConfigurationError
from mainspring.admin.importing.pickles import PickleRefused, stored_data

PLAIN = ("shop.refresh", None, ("eu", 1.5, True), {"full": [None, {"x": 2**70}]})


class Harmful:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.folder),)


@pytest.mark.req("MIG-1")
def test_plain_data_are_read_and_code_is_refused(tmp_path: Path) -> None:
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert stored_data(pickle.dumps(PLAIN, protocol), trust=False) == PLAIN
    assert stored_data(json.dumps({"interval": 60}).encode(), trust=False) == {"interval": 60}
    harmful = pickle.dumps({"args": Harmful(tmp_path / "made")})
    with pytest.raises(PickleRefused, match=r"mkdir.*--trust-pickles"):
        stored_data(harmful, trust=False)
    assert not (tmp_path / "made").exists()
    stored_data(harmful, trust=True)
    assert (tmp_path / "made").exists()
    for broken in (b"\x80\x04nonsense", b"[1,", b""):
        with pytest.raises(ConfigurationError, match="cannot be read"):
            stored_data(broken, trust=False)
