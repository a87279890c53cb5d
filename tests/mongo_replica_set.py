"""A replica set of three members for tests of elections: each is a server of its own, on this machine.

Elections are quick, as an operator might configure them: a member that hears nothing of its primary for three seconds
stands for election. After one second, members of a busy machine elect each other all the time.
"""

from __future__ import annotations

import itertools
import os
import time
from typing import Any

import pymongo
from pymongo.errors import AutoReconnect, OperationFailure, PyMongoError

from tests.mongo_server import PATIENCE, Mongo, new_mongo

MEMBERS = 3
SETTINGS = {"electionTimeoutMillis": 3_000, "heartbeatIntervalMillis": 200}


class Member(Mongo):
    """One server of the set, which is initiated as a whole."""

    def _writable(self, client: pymongo.MongoClient[dict[str, Any]]) -> bool:
        return True


class ReplicaSet:
    def __init__(self) -> None:
        self.members: list[Member] = []
        for _ in range(MEMBERS):
            member = new_mongo("replica_set")
            member.__class__ = Member
            assert isinstance(member, Member)
            self.members.append(member)
        self._names = itertools.count(1)

    def start(self) -> None:
        for member in self.members:
            member.start()
        hosts = [{"_id": n, "host": member.address} for n, member in enumerate(self.members)]
        with self.members[0].client() as client:
            client.admin.command("replSetInitiate", {"_id": "rs0", "members": hosts, "settings": SETTINGS})
        self.writable_primary()

    def new_database(self) -> str:
        hosts = ",".join(member.address for member in self.members)
        return f"mongodb://{hosts}/test_{os.getpid()}_{next(self._names)}?replicaSet=rs0"

    def primary(self, *, other_than: Member | None = None) -> Member | None:
        """The member that takes writes now, if there is one."""
        for member in self.members:
            if member is not other_than and _takes_writes(member):
                return member
        return None

    def writable_primary(self, *, other_than: Member | None = None) -> Member:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if (found := self.primary(other_than=other_than)) is not None:
                return found
            time.sleep(0.02)
        raise RuntimeError("no member was elected in time")

    def step_down(self) -> Member:
        """Ask the primary to give way for a while; the one that gave way. It refuses while no other has caught up."""
        deadline = time.monotonic() + PATIENCE
        while True:
            before = self.writable_primary()
            try:
                with before.client() as client:
                    client.admin.command("replSetStepDown", 20, secondaryCatchUpPeriodSecs=10)
            except AutoReconnect:
                return before
            except OperationFailure:
                if time.monotonic() > deadline:
                    raise
            else:
                return before

    def remove(self) -> None:
        for member in self.members:
            member.remove()


def _takes_writes(member: Member) -> bool:
    try:
        with member.client(serverSelectionTimeoutMS=100) as client:
            return bool(client.admin.command("hello")["isWritablePrimary"])
    except PyMongoError:
        return False
