"""What routes say about themselves to `mainspring mcp`, which makes tools for assistants from the OpenAPI document.

A route passes these marks as `openapi_extra`. Everything else about a tool follows from the document: its name,
arguments, role, and whether it reads (GET) or changes something.
"""

from __future__ import annotations

DEFAULT_TOOL = {"x-assistant-tool": "default"}
"""The operation is offered unless the user chooses other tools. Too many tools confuse assistants: mark those that
answer an operator's everyday questions, and the commands that follow from the answers."""

REVERSIBLE = {"x-reversible": True}
"""The command sets a state that another command takes back, and repeating it changes nothing. Assistants are told that
commands without this mark are destructive."""
