"""Ready-made texts for people: one line for a chat, subject and body of an e-mail. Pure functions of a body."""

from __future__ import annotations

from typing import Any

import msgspec

from ...model.values.payload import safe_text

LONGEST_LINE = 1_000


def slack_body(body: str) -> bytes:
    """What chats take that accept Slack's incoming webhooks: `{"text": "..."}`. `&`, `<` and `>` are escaped, so that a
    text of the application cannot become a link or a mention."""
    text = one_line(msgspec.json.decode(body))
    for plain, escaped in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(plain, escaped)
    return msgspec.json.encode({"text": text})


def one_line(event: dict[str, Any]) -> str:
    """An event in words.

    >>> one_line({"type": "execution.failed", "data": {"job": "report", "error": "ValueError: no", "attempt": 3,
    ...     "max_attempts": 3, "execution_id": "0192"}})
    'report failed: ValueError: no (attempt 3 of 3, execution 0192)'
    >>> one_line({"type": "job.paused", "data": {"job": "report", "paused_by": "ada", "note": "migration"}})
    'report was paused by ada: migration'
    """
    kind, data = event["type"], event["data"]
    subject, _, verb = kind.partition(".")
    text = _of_execution(verb, data) if subject == "execution" else _other(kind, data)
    return safe_text(" ".join(text.split()), LONGEST_LINE)


def _of_execution(verb: str, data: dict[str, Any]) -> str:
    words = {"partial": "completed in part", "missed": "missed its time", "retrying": "failed and will be retried"}
    cause = data.get("error") or data.get("reason")
    text = f"{data['job']} {words.get(verb, verb)}"
    if verb == "missed" and (count := data.get("metadata", {}).get("count", 1)) != 1:
        text = f"{data['job']} missed {count} runs"
    if cause and verb != "completed":
        text += f": {cause}"
    facts = [f"tenant {data['tenant']}"] if data.get("tenant") else []
    if verb in ("failed", "retrying"):
        facts.append(f"attempt {data['attempt']} of {data['max_attempts']}")
    if verb == "completed" and data.get("duration_ms") is not None:
        facts.append(f"{data['duration_ms'] / 1000:.1f} s")
    facts.append(f"execution {data['execution_id']}")
    return f"{text} ({', '.join(facts)})"


def _other(kind: str, data: dict[str, Any]) -> str:
    match kind:
        case "job.paused":
            note = f": {data['note']}" if data.get("note") else ""
            return f"{data['job']} was paused by {data.get('paused_by') or 'system'}{note}"
        case "job.resumed":
            return f"{data['job']} was resumed"
        case "error_group.new" | "error_group.changed":
            text = f"{data['type']}: {data['message']}" if data.get("message") else data["type"]
            what = "new error" if kind == "error_group.new" else "a muted error has changed"
            where = f" in {data['frame']}" if data.get("frame") else ""
            return f"{what}: {text}{where} (jobs {', '.join(data['jobs'])}, group {data['error_group']})"
        case "webhook.disabled":
            return f"webhook {data['webhook']} ({data['url']}) was disabled: {data['reason']}"
        case _:
            return f"test message of webhook {data.get('webhook', '')}"


def email_parts(body: str) -> tuple[str, str]:
    """The subject and the text of an e-mail."""
    event = msgspec.json.decode(body)
    line = one_line(event)
    facts = [(name, value) for name, value in event["data"].items() if value not in (None, {}, [], "")]
    listed = "\n".join(f"{name}: {_shown(value)}" for name, value in facts)
    return f"[mainspring] {line}"[:200], f"{line}\n\n{event['type']} at {event['timestamp']}\n\n{listed}\n"


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return safe_text(text, LONGEST_LINE)
