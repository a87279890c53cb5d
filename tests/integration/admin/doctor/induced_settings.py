"""Misconfigurations of settings, of the machine, of access and of Redis."""

from __future__ import annotations

import resource
import sys
import zoneinfo
from typing import Any

from mainspring import Mainspring
from tests.integration.admin.doctor.clinic import Clinic, Induction, Result, induces
from tests.servers import free_port
from tests.valkey_server import valkey

PUBLIC: dict[str, Any] = {"roles": "api", "host": "0.0.0.0"}


def _with(**settings: Any) -> Induction:
    return lambda clinic: clinic.examine(**settings)


induces("lease_short")(_with(lease="5s"))
induces("lease_long")(_with(lease="1h"))
induces("heartbeat_rare")(_with(lease="30s", heartbeat="15s"))
induces("stop_timeout_long")(_with(stop_timeout="5m"))
induces("polling_slow")(_with(wakeups=False, poll_interval="1m"))
induces("log_level_debug")(_with(log_level="debug"))
induces("audit_forever")(_with(audit_retention="forever"))
induces("access_refused")(_with(jwt_secret="too short"))
induces("access_no_login")(_with(**PUBLIC))
induces("access_no_tls")(_with(**PUBLIC, api_tokens=True))
induces("proxies_everyone")(_with(trusted_proxies="0.0.0.0/0"))
induces("system_open")(_with(sys_allow="::/0"))
induces("metrics_open")(_with(metrics_port=9000, host="0.0.0.0", sys_allow="10.0.0.0/8"))
induces("loopback_admitted")(_with(roles="api", allow_loopback=True, api_tokens=True))
induces("jwt_any_audience")(_with(jwt_secret="x" * 32))
induces("private_urls")(_with(private_urls=True))
induces("redis_unused")(_with(redis_url="redis://127.0.0.1:1/0"))


@induces("settings_refused")
async def _unknown_variable(clinic: Clinic) -> Result:
    clinic.patch.setenv("MAINSPRING_LEAS", "10s")
    return await clinic.command("--database-url", clinic.url)


@induces("declarations_refused")
async def _bad_schedule(clinic: Clinic) -> Result:
    clinic.module("bad_schedule", 'app.job("tidy", cron="61 * * * *")(tidy)')
    return await clinic.command("bad_schedule:app")


@induces("isolation_not_importable")
async def _no_module(clinic: Clinic) -> Result:
    clinic.module("isolated", 'app.job("tidy", isolation="process")(tidy)', import_path="nowhere.jobs:app")
    return await clinic.command("isolated:app")


@induces("database_path_relative")
async def _relative(clinic: Clinic) -> Result:
    clinic.patch.chdir(clinic.folder)
    return await clinic.examine("sqlite:///jobs.db")


@induces("package_missing")
async def _no_driver(clinic: Clinic) -> Result:
    clinic.patch.setitem(sys.modules, "pymongo", None)
    return await clinic.examine("mongodb://127.0.0.1:1/app")


@induces("zones_missing")
async def _no_zones(clinic: Clinic) -> Result:
    for name in ["tzdata", *(each for each in sys.modules if each.startswith("tzdata."))]:  # some may be loaded already
        clinic.patch.setitem(sys.modules, name, None)
    zoneinfo.reset_tzpath(to=())
    try:
        return await clinic.examine()
    finally:
        zoneinfo.reset_tzpath()


@induces("zones_old")
async def _old_zones(clinic: Clinic) -> Result:
    (clinic.folder / "Europe").mkdir()
    (clinic.folder / "Europe" / "Berlin").touch()
    (clinic.folder / "tzdata.zi").write_text("# version 2019c\n")
    clinic.patch.setattr(zoneinfo, "TZPATH", (str(clinic.folder),))
    return await clinic.examine()


@induces("descriptors_few")
async def _few_descriptors(clinic: Clinic) -> Result:
    clinic.patch.setattr(resource, "getrlimit", lambda kind: (256, 256))
    return await clinic.examine(concurrency=500)


@induces("variable_shadowed")
async def _shadowed(clinic: Clinic) -> Result:
    clinic.patch.setenv("MAINSPRING_CONCURRENCY", "50")
    return await clinic.examine(app=Mainspring(clinic.url, concurrency=4))


@induces("config_not_used")
async def _config_above(clinic: Clinic) -> Result:
    inner = clinic.folder / "src"
    inner.mkdir()
    (clinic.folder / "mainspring.toml").write_text("concurrency = 3\n")
    clinic.patch.chdir(inner)
    return await clinic.examine()


# --- Redis ------------------------------------------------------------------------------------------------------------


def _on_redis(clinic: Clinic) -> dict[str, Any]:
    return {"redis_url": valkey().url(), "locks": "redis"}


@induces("redis_unreachable")
async def _no_redis(clinic: Clinic) -> Result:
    return await clinic.examine(redis_url=f"redis://127.0.0.1:{free_port()}/0", locks="redis")


@induces("redis_evicts")
async def _evicts(clinic: Clinic) -> Result:
    client = valkey().client()
    client.config_set("maxmemory", "100mb")
    client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        return await clinic.examine(**_on_redis(clinic))
    finally:
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", "0")


@induces("redis_forgets")
async def _forgets(clinic: Clinic) -> Result:
    return await clinic.examine(**_on_redis(clinic))


@induces("redis_replica")
async def _replica(clinic: Clinic) -> Result:
    client = valkey().client()
    client.replicaof("127.0.0.1", str(free_port()))
    try:
        return await clinic.examine(**_on_redis(clinic))
    finally:
        client.replicaof("NO", "ONE")
