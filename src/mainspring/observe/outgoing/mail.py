"""E-mails through the standard library's SMTP client. It blocks, so each mail is sent in a daemon thread that can be
given up: a server that hangs holds nothing else up."""

from __future__ import annotations

import asyncio
import smtplib
import socket
import ssl
from email.message import EmailMessage
from functools import partial
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from .lookups import Lookups

MAILS = Lookups("mails")
"""Of its own: mails that hang must not use up the threads of name lookups."""
PORTS = {"smtp": 587, "smtps": 465}


class SmtpMailer:
    """`url` is the setting `smtp_url`: `smtp://user:password@host:587?from=jobs@example.com`, or smtps:// for TLS from
    the first byte on. With smtp:// the connection changes to TLS if the server offers it; a password is never sent
    without TLS."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def send(self, to: str, subject: str, text: str, deadline: float) -> None:
        """Raises `OSError` if the server did not accept the mail within `deadline` seconds."""
        parts = urlsplit(self._url)
        message = _message(_sender(parts), to, subject, text)
        try:
            async with asyncio.timeout(deadline):
                await MAILS.call(object(), partial(_send, parts, message, deadline))
        except TimeoutError:
            raise TimeoutError(f"{parts.hostname} did not take the mail within {deadline:g} s") from None


def _sender(parts: SplitResult) -> str:
    named = parse_qs(parts.query).get("from")
    return named[0] if named else f"mainspring@{socket.gethostname()}"


def _message(sender: str, to: str, subject: str, text: str) -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = sender, to, " ".join(subject.split())
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(text)
    return message


def _send(parts: SplitResult, message: EmailMessage, timeout: float) -> None:
    host, port = parts.hostname or "localhost", parts.port or PORTS[parts.scheme]
    if parts.scheme == "smtps":
        client: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=timeout, context=ssl.create_default_context())
    else:
        client = smtplib.SMTP(host, port, timeout=timeout)
    with client:
        client.ehlo()
        secure = parts.scheme == "smtps"
        if not secure and client.has_extn("starttls"):
            client.starttls(context=ssl.create_default_context())
            client.ehlo()
            secure = True
        if parts.username and not secure:
            raise OSError(f"{host} offers no TLS, and the password is not sent without it")
        if parts.username:
            client.login(unquote(parts.username), unquote(parts.password or ""))
        client.send_message(message)
