"""Which event loop a process that Mainspring runs gets: uvloop where it is installed, unless the settings differ.

Applications that run their own loop choose it themselves; nothing else here asks which one it is.
"""

from __future__ import annotations

import asyncio
from importlib.util import find_spec

from ..model.errors import ConfigurationError


def uses_uvloop(wanted: bool | str) -> bool:
    """Whether the setting `uvloop` (true, false or "auto") leads to uvloop here."""
    installed = find_spec("uvloop") is not None
    if wanted is True and not installed:
        raise ConfigurationError(
            'uvloop is set to true but is not installed; run: pip install "mainspring[uvloop]", or set it to auto'
        )
    return installed and wanted is not False


def new_event_loop(uvloop: bool | str) -> asyncio.AbstractEventLoop:
    if not uses_uvloop(uvloop):
        return asyncio.new_event_loop()
    from uvloop import new_event_loop as new_uvloop  # costs memory and time where it is not wanted

    return new_uvloop()
