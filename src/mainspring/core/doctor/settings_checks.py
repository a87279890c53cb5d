"""Checks of settings, of this machine, of who may use the HTTP interface, and of Redis. They need no database."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence

from ...model.defaults import STOP_TIMEOUT
from ...model.store.inspection import RedisFacts
from ...model.values.reading import duration_text
from .examination import Check, Found
from .facts import ConfigurationFacts, DeclarationFacts, MachineFacts, SettingFacts

SHORTEST_LEASE, LONGEST_LEASE = 10.0, 600.0
BEATS = 3
"""Heartbeats that should fit into a lease: then a single lost one costs nothing."""
SLOW_POLL = 5.0
DESCRIPTORS, DESCRIPTORS_EACH = 64, 4
"""File descriptors that a process needs by itself, and for each execution at once: pipes of a child, connections."""
OLD_ZONES = 2
"""Years after which the time zone data is old."""


# --- the application and its settings ---------------------------------------------------------------------------------


def refused_settings(configuration: ConfigurationFacts) -> Iterator[Found]:
    if configuration.error:
        yield Found(configuration.error)


def refused_declarations(declarations: DeclarationFacts) -> Iterator[Found]:
    if declarations.error:
        yield Found(declarations.error)


def not_importable(declarations: DeclarationFacts) -> Iterator[Found]:
    if declarations.isolation_error:
        yield Found(declarations.isolation_error)


def short_lease(settings: SettingFacts) -> Iterator[Found]:
    if settings.lease < SHORTEST_LEASE:
        yield Found(
            f"lease is {duration_text(settings.lease)}: a busy machine or a slow garbage collection may run work twice"
        )


def long_lease(settings: SettingFacts) -> Iterator[Found]:
    if settings.lease > LONGEST_LEASE:
        yield Found(f"lease is {duration_text(settings.lease)}: the work of a killed process waits that long")


def rare_heartbeat(settings: SettingFacts) -> Iterator[Found]:
    if settings.lease < BEATS * settings.heartbeat:
        beat, lease = duration_text(settings.heartbeat), duration_text(settings.lease)
        yield Found(
            f"heartbeat is {beat} and lease {lease}: after one lost heartbeat, another worker may take the work"
        )


def long_stop(settings: SettingFacts) -> Iterator[Found]:
    if settings.stop_timeout > STOP_TIMEOUT:
        yield Found(
            f"stop_timeout is {duration_text(settings.stop_timeout)}; Kubernetes kills after 30 s, Docker after 10 s",
            f"Set terminationGracePeriodSeconds or stop_grace_period above {duration_text(settings.stop_timeout)}",
        )


def slow_polls(settings: SettingFacts) -> Iterator[Found]:
    if not settings.wakeups and settings.poll_interval > SLOW_POLL:
        yield Found(
            f"wakeups is off and poll_interval is {duration_text(settings.poll_interval)}: new work may wait that long"
        )


def debug_logs(settings: SettingFacts) -> Iterator[Found]:
    if settings.log_level == "DEBUG":
        yield Found(f"log_level is DEBUG (from {settings.sources.get('log_level', 'default')})")


def relative_path(settings: SettingFacts) -> Iterator[Found]:
    path = settings.database_url.partition("sqlite:///")[2]
    if path and not path.startswith("/") and not re.match(r"[A-Za-z]:", path):
        yield Found(f"database_url is the relative path {path!r}: another working folder means another database")


def audit_forever(settings: SettingFacts) -> Iterator[Found]:
    if settings.audit_retention is None:
        yield Found("audit_retention is forever: audit records are never removed")


# --- this machine -----------------------------------------------------------------------------------------------------


def missing_package(machine: MachineFacts) -> Iterator[Found]:
    for setting, package, extra in machine.missing:
        yield Found(
            f"{setting} needs the package {package}, which is not installed", f"pip install 'mainspring[{extra}]'"
        )


def no_zones(machine: MachineFacts) -> Iterator[Found]:
    if not machine.zones_known:
        yield Found("this machine has no time zone data: jobs with a zone such as Europe/Berlin cannot run")


def old_zones(machine: MachineFacts) -> Iterator[Found]:
    found = re.match(r"(\d{4})", machine.zones)
    if found and int(found[1]) <= machine.year - OLD_ZONES:
        yield Found(f"the time zone data is of {machine.zones}: it lacks later clock changes")


def few_descriptors(machine: MachineFacts, settings: SettingFacts) -> Iterator[Found]:
    needed = DESCRIPTORS + DESCRIPTORS_EACH * settings.concurrency
    if machine.descriptors is not None and machine.descriptors < needed:
        yield Found(
            f"this process may open {machine.descriptors} files; concurrency {settings.concurrency} may need {needed}",
            f"Raise the limit (ulimit -n {needed}, LimitNOFILE={needed}), or lower concurrency",
        )


def shadowed(machine: MachineFacts) -> Iterator[Found]:
    for variable, winner in machine.shadowed:
        yield Found(f"the variable {variable} has no effect: {winner} comes first")


def config_above(machine: MachineFacts) -> Iterator[Found]:
    if machine.config_above:
        yield Found(f"{machine.config_above} is not used: only the working folder is searched")


# --- access -----------------------------------------------------------------------------------------------------------


def is_public(host: str) -> bool:
    """
    >>> is_public("127.0.0.1"), is_public("localhost"), is_public("0.0.0.0"), is_public("jobs.example.com")
    (False, False, True, True)
    """
    try:
        return not ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host != "localhost"


def everyone(networks: Sequence[str]) -> list[str]:
    """Those of the networks that contain every address."""
    return [each for each in networks if each.endswith("/0")]


def serves_public(settings: SettingFacts) -> bool:
    return "api" in settings.roles and is_public(settings.host)


def refused_access(settings: SettingFacts) -> Iterator[Found]:
    if settings.refused:
        yield Found(settings.refused)


def no_login(settings: SettingFacts) -> Iterator[Found]:
    if serves_public(settings) and not settings.authenticates:
        yield Found(
            f"the API listens on {settings.host} without any login: only this machine is served, others get 403"
        )


def no_tls(settings: SettingFacts) -> Iterator[Found]:
    if serves_public(settings) and settings.authenticates and not settings.trusted_proxies:
        yield Found(f"the API listens on {settings.host} and no proxy is trusted: tokens travel without TLS")


def trusts_everyone(settings: SettingFacts) -> Iterator[Found]:
    if found := everyone(settings.trusted_proxies):
        yield Found(f"trusted_proxies contains {found[0]}: anybody may claim any address in a header")


def system_open(settings: SettingFacts) -> Iterator[Found]:
    if found := everyone(settings.sys_allow):
        yield Found(f"sys_allow contains {found[0]}: anybody may use /_sys/* and read the metrics")


def open_metrics(settings: SettingFacts) -> Iterator[Found]:
    if settings.metrics_port is not None and is_public(settings.host) and settings.sys_allow:
        allowed = ", ".join(settings.sys_allow)
        yield Found(f"metrics_port {settings.metrics_port} of {settings.host} answers {allowed} without a login")


def loopback_is_admin(settings: SettingFacts) -> Iterator[Found]:
    if settings.allow_loopback and "api" in settings.roles and not settings.trusted_proxies:
        yield Found(
            "allow_loopback is on and no proxy is trusted: all requests of a proxy on this machine are admitted"
        )


def any_audience(settings: SettingFacts) -> Iterator[Found]:
    if settings.takes_jwt and settings.jwt_audience is None:
        yield Found("JWTs are accepted whatever their audience: those for other services are valid here")


def private_urls(settings: SettingFacts) -> Iterator[Found]:
    if settings.private_urls:
        yield Found("private_urls is on: pings and webhooks may reach this machine and its private network")


# --- Redis ------------------------------------------------------------------------------------------------------------


def redis_unreachable(redis: RedisFacts) -> Iterator[Found]:
    if redis.error:
        yield Found(redis.error)


def redis_evicts(redis: RedisFacts, settings: SettingFacts) -> Iterator[Found]:
    if settings.locks == "redis" and redis.max_memory and redis.policy not in (None, "noeviction"):
        yield Found(f"Redis keeps the locks and may evict them: maxmemory-policy is {redis.policy}")


def redis_forgets(redis: RedisFacts, settings: SettingFacts) -> Iterator[Found]:
    if settings.locks == "redis" and redis.persistent is False:
        yield Found("Redis keeps the locks and stores nothing: a restart of Redis frees all locks at once")


def redis_replica(redis: RedisFacts) -> Iterator[Found]:
    if redis.replica:
        yield Found("redis_url names a replica, which refuses every write")


def redis_unused(settings: SettingFacts) -> Iterator[Found]:
    if settings.redis_url is not None and settings.locks != "redis" and not settings.redis_wakeups:
        yield Found("redis_url is set, but nothing uses it")


CHECKS = (
    Check(
        "settings_refused",
        "settings",
        "unknown or wrong settings, in arguments, variables and mainspring.toml",
        "error",
        "Correct the setting as the message says; docs/configuration.md lists all settings",
        ("configuration",),
        refused_settings,
    ),
    Check(
        "declarations_refused",
        "jobs",
        "declarations of jobs that keep the application from starting",
        "error",
        "Correct the declaration as the message says",
        ("declarations",),
        refused_declarations,
    ),
    Check(
        "isolation_not_importable",
        "jobs",
        'jobs with isolation="process" whose application a child process cannot import',
        "error",
        "Bind the application to a name at the top level of a module, or set import_path",
        ("declarations",),
        not_importable,
    ),
    Check(
        "lease_short",
        "settings",
        f"a lease below {SHORTEST_LEASE:g} s",
        "warning",
        "Set lease to 30s, the default, or more",
        ("settings",),
        short_lease,
    ),
    Check(
        "lease_long",
        "settings",
        f"a lease above {LONGEST_LEASE / 60:g} minutes",
        "warning",
        "Set lease to a minute or less: heartbeats renew it, however long a run takes",
        ("settings",),
        long_lease,
    ),
    Check(
        "heartbeat_rare",
        "settings",
        "fewer than three heartbeats in a lease",
        "warning",
        "Set heartbeat to a third of the lease, or remove it: by default it follows the lease",
        ("settings",),
        rare_heartbeat,
    ),
    Check(
        "stop_timeout_long",
        "settings",
        "a stop_timeout above the usual grace period of containers",
        "note",
        "Raise the grace period of the container above stop_timeout",
        ("settings",),
        long_stop,
    ),
    Check(
        "polling_slow",
        "settings",
        "a long poll_interval while wake-ups are switched off",
        "warning",
        "Set wakeups to true, or poll_interval to a few seconds",
        ("settings",),
        slow_polls,
    ),
    Check(
        "log_level_debug",
        "settings",
        "the log level DEBUG",
        "note",
        "Set log_level to INFO in production",
        ("settings",),
        debug_logs,
    ),
    Check(
        "database_path_relative",
        "settings",
        "an SQLite file named by a relative path",
        "note",
        "Give the absolute path: sqlite:////srv/jobs.db",
        ("settings",),
        relative_path,
    ),
    Check(
        "audit_forever",
        "settings",
        "audit records that are kept forever",
        "note",
        'Set audit_retention, such as "400d", unless you must keep them',
        ("settings",),
        audit_forever,
    ),
    Check(
        "package_missing",
        "machine",
        "whether the drivers and packages that the settings need are installed",
        "error",
        "Install the extra of mainspring",
        ("machine",),
        missing_package,
    ),
    Check(
        "zones_missing",
        "machine",
        "whether this machine has time zone data",
        "error",
        "pip install tzdata, or install the package tzdata of the system",
        ("machine",),
        no_zones,
    ),
    Check(
        "zones_old",
        "machine",
        "time zone data that is two years old",
        "warning",
        "pip install -U tzdata, or update the package tzdata of the system",
        ("machine",),
        old_zones,
    ),
    Check(
        "descriptors_few",
        "machine",
        "whether the limit of open files is enough for the concurrency",
        "warning",
        "Raise the limit, or lower concurrency",
        ("machine", "settings"),
        few_descriptors,
    ),
    Check(
        "variable_shadowed",
        "settings",
        "MAINSPRING_* variables that an argument overrides",
        "warning",
        "Remove the variable, or the argument in code",
        ("machine",),
        shadowed,
    ),
    Check(
        "config_not_used",
        "settings",
        "a mainspring.toml above the working folder, where it is not read",
        "warning",
        "Start from that folder, or set MAINSPRING_CONFIG to the file",
        ("machine",),
        config_above,
    ),
    Check(
        "access_refused",
        "access",
        "settings of JWTs that keep the API from starting, such as a secret that is too short",
        "error",
        "Correct the setting as the message says",
        ("settings",),
        refused_access,
    ),
    Check(
        "access_no_login",
        "access",
        "the API on a public address without a login",
        "warning",
        "Set api_tokens or jwt_secret; or set host to 127.0.0.1",
        ("settings",),
        no_login,
    ),
    Check(
        "access_no_tls",
        "access",
        "the API on a public address without a proxy for TLS",
        "warning",
        "Put a proxy with TLS in front of it and name the proxy in trusted_proxies",
        ("settings",),
        no_tls,
    ),
    Check(
        "proxies_everyone",
        "access",
        "trusted_proxies that contain every address",
        "error",
        "Name the network of your proxies only, such as 10.0.0.0/8",
        ("settings",),
        trusts_everyone,
    ),
    Check(
        "system_open",
        "access",
        "sys_allow that contains every address",
        "error",
        "Name the network of your operators and monitoring only",
        ("settings",),
        system_open,
    ),
    Check(
        "metrics_open",
        "access",
        "metrics on a public address",
        "note",
        "Set host to an internal address, or let a firewall close the port",
        ("settings",),
        open_metrics,
    ),
    Check(
        "loopback_admitted",
        "access",
        "allow_loopback behind a proxy on the same machine",
        "warning",
        "Name the proxy in trusted_proxies, or set allow_loopback to false",
        ("settings",),
        loopback_is_admin,
    ),
    Check(
        "jwt_any_audience",
        "access",
        "JWTs that are accepted whatever their audience",
        "warning",
        "Set jwt_audience to the name by which your issuer knows this API",
        ("settings",),
        any_audience,
    ),
    Check(
        "private_urls",
        "access",
        "webhooks and pings that may reach private addresses",
        "warning",
        "Set private_urls to false, unless your receivers are inside your network",
        ("settings",),
        private_urls,
    ),
    Check(
        "redis_unreachable",
        "redis",
        "whether Redis answers and accepts the login",
        "error",
        "Start Redis, or correct redis_url",
        ("redis",),
        redis_unreachable,
    ),
    Check(
        "redis_evicts",
        "redis",
        "a maxmemory-policy that evicts locks",
        "error",
        "CONFIG SET maxmemory-policy noeviction, or locks = store",
        ("redis", "settings"),
        redis_evicts,
    ),
    Check(
        "redis_forgets",
        "redis",
        "locks on a Redis without persistence",
        "warning",
        "Set appendonly yes, or locks = store",
        ("redis", "settings"),
        redis_forgets,
    ),
    Check(
        "redis_replica",
        "redis",
        "a redis_url that names a replica",
        "error",
        "Name the primary in redis_url",
        ("redis",),
        redis_replica,
    ),
    Check(
        "redis_unused",
        "settings",
        "a redis_url that nothing uses",
        "note",
        "Remove redis_url, or set locks = redis or redis_wakeups = true",
        ("settings",),
        redis_unused,
    ),
)
