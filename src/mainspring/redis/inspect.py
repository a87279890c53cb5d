"""What `mainspring doctor` reads of a Redis or Valkey server. It only reads."""

from __future__ import annotations

from typing import Any

from ..model.errors import ConfigurationError, StoreUnavailable
from ..model.store.inspection import RedisFacts
from .client import RedisServer


async def facts(url: str) -> RedisFacts:
    server = RedisServer(url)
    try:
        await server.check()
        memory = await server.client().info("memory")
        persistence = await server.client().info("persistence")
        replication = await server.client().info("replication")
        saves = await _setting(server, "save")
    except StoreUnavailable as error:
        return RedisFacts(error=str(error))
    except ConfigurationError as error:
        return RedisFacts(error=str(error), refused=True)
    finally:
        await server.close()
    return RedisFacts(
        policy=memory.get("maxmemory_policy"),
        max_memory=memory.get("maxmemory"),
        persistent=True if persistence.get("aof_enabled") else None if saves is None else bool(saves),
        replica=replication.get("role") == "slave",
    )


async def _setting(server: RedisServer, name: str) -> str | None:
    """None: hosted servers do not let us ask."""
    from redis import RedisError

    try:
        found: Any = await server.client().config_get(name)
        return str(found.get(name, ""))
    except RedisError:
        return None
