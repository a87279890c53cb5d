"""Writes the table of settings in docs/configuration.md from the code: `python scripts/settings_table.py`."""

from __future__ import annotations

import re
from pathlib import Path

from mainspring.config.settings import PREFIX, RULES, Settings

PAGE = Path(__file__).parent.parent / "docs" / "configuration.md"
BEGIN, END = "<!-- settings -->\n", "<!-- end of settings -->"

MEANING = {
    "database_url": "where everything is kept: `sqlite:///file.db` or `memory://`",
    "enabled": "false: nothing starts in this process",
    "roles": "what this process does: `scheduler`, `worker`, `api`",
    "timezone": "the zone of jobs that name none",
    "release": "recorded with the jobs this process declares",
    "queues": "the queues this worker takes from; none given: all",
    "exclude": "handlers this worker leaves alone",
    "concurrency": "executions at once in one worker",
    "poll_interval": "how often to look when no wake-up came, in seconds",
    "lease": "how long an execution belongs to a worker that is not heard of, in seconds",
    "heartbeat": "how often leases are renewed, in seconds; at most half the lease",
    "rescue_interval": "how often to look for leases that ran out, in seconds",
    "fold_interval": "how often to finish what was left half done and to fold statistics, in seconds",
    "retention_interval": "how often history is pruned, in seconds",
    "wakeups": "false: polling only",
    "uvloop": "the event loop of `mainspring run` and `app.run`: `auto` takes uvloop where it is installed",
    "stop_timeout": "how long a stop may take in all, in seconds",
    "stop_reserve": "the last part of it, kept for cancelling and handing back; at most half of a shorter stop",
    "payload_limit": "the largest parameters, in bytes of JSON",
    "username": "`ctx.username`",
    "channel": "`ctx.channel`",
    "log_format": "`console` or `json` (`mainspring run`)",
    "log_level": "the lowest level logged (`mainspring run`)",
    "tracing": "OpenTelemetry spans: `auto` makes them where the application has set a tracer provider before",
    "prune": "true: at start, remove jobs of code that no running process declares",
    "locks": "where locks are kept: in the `store`, or on `redis`",
    "redis_url": "the Redis or Valkey server, if one is used: `redis://host:6379/0?prefix=shop`",
    "redis_wakeups": "true: processes also wake each other through `redis_url`",
    "host": "where a process with the role `api` listens",
    "port": "its port; 0 for a free one",
    "api_handler": "the handler of jobs created over HTTP that name none; unknown fields are its parameters then",
    "sys_allow": "networks that may use `/_sys/*`; none given: this machine only",
    "api_allow": "networks that may use the HTTP interface at all; none given: every one",
    "trusted_proxies": "networks of proxies whose word on addresses counts, `unix` for a Unix socket",
    "proxy_header": "the header those proxies write: `x-forwarded-for` or `forwarded`",
    "api_hosts": "further names of this host, for use without authentication",
    "allow_loopback": "true: this machine needs no credentials, though others do",
    "api_tokens": "true: API tokens are taken (`mainspring token create`)",
    "jwt_algorithms": "what JWTs may be signed with, such as `RS256`; with `jwt_secret`: `HS256`",
    "jwt_secret": "the shared secret of JWTs, 32 bytes at least; never shown",
    "jwt_key_file": "the public key of JWTs, a PEM file",
    "jwt_jwks_file": "the public keys of JWTs, a JWKS file; read again when it changes",
    "jwt_audience": "the audience that JWTs must be for",
    "jwt_issuer": "the issuer that JWTs must be from",
    "jwt_leeway": "how far clocks may differ, in seconds; at most 60",
    "jwt_role_claim": "the claim that names the role",
    "failed_logins_per_minute": "wrong credentials from one address, before it has to wait",
    "audit_retention": 'how long audit records are kept, in seconds; text such as `"400d"`, or `"forever"`',
    "metrics_port": "a port of `host` for `/metrics`, for processes without the role `api`; 0 for a free one",
    "metrics_jobs": "how many jobs have metrics of their own",
    "private_urls": "true: addresses that jobs ping may lead to this machine or a private network",
    "retry_max_attempts": "tries of jobs that do not say; none given: 3 of scheduled ones, 10 of enqueued ones",
    "retry_policy": "waits between tries of jobs that do not say: `queue`, `tenant` or `patient`, or a table",
    "window_max_span": "the longest window that a caller may ask for, of jobs that set no `max_span`; none given: any",
    "tenant_concurrency": "tenants of one execution at once, of jobs that do not say; none given: any number",
    "tenant_max_attempts": "tries of a tenant, of jobs that do not say; none given: 3",
    "tenant_retry": "waits between tries of a tenant, of jobs that do not say; none given: `tenant`",
    "tenant_continue_on_failure": "false: a tenant that fails stops those not started yet, of jobs that do not say",
}


def table() -> str:
    defaults = Settings()
    rows = ["| setting | default | environment | meaning |", "|---|---|---|---|"]
    settings = [(name, shown(getattr(defaults, name)), f"{PREFIX}{name.upper()}", MEANING[name]) for name in RULES]
    rows += [f"| `{name}` | `{default}` | `{variable}` | {meaning} |" for name, default, variable, meaning in settings]
    return "\n".join(rows) + "\n"


def shown(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(value) or "none"
    if isinstance(value, float):
        return f"{value:g}"
    return {None: "none", True: "true", False: "false"}.get(value, str(value)) or "none"  # type: ignore[call-overload]


def rendered(page: str) -> str:
    return re.sub(f"(?s){BEGIN}.*{END}", lambda _: BEGIN + table() + END, page)


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text()))
