"""The safeguards inside the PostgreSQL and the MongoDB store, for safeguards.py."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "src/mainspring"


@dataclass(frozen=True)
class Edit:
    """Replace a piece of code that stands exactly once in a file of the package, however its lines are broken."""

    file: str
    old: str
    new: str

    def applied_to(self, text: str) -> str:
        found = list(self._pattern().finditer(text))
        if len(found) != 1:
            raise ValueError(f"{PACKAGE}/{self.file} contains {len(found)} times, not once:\n{self.old}")
        return text[: found[0].start()] + self.new + text[found[0].end() :]

    def _pattern(self) -> re.Pattern[str]:
        words = re.findall(r"\w+|[^\w\s]", self.old)
        pieces = [(r"(?:,\s*)?" + re.escape(word)) if word in ")]}" else re.escape(word) for word in words]
        return re.compile(r"\s*".join(pieces))


@dataclass(frozen=True)
class Safeguard:
    """What keeps something from going wrong, how it is removed, and who is asked whether that was noticed."""

    name: str
    edits: tuple[Edit, ...]
    judges: tuple[str, ...]

    def texts(self, root: Path) -> dict[Path, str]:
        """The files as they are without it."""
        texts: dict[Path, str] = {}
        for edit in self.edits:
            file = root / PACKAGE / edit.file
            texts[file] = edit.applied_to(texts.get(file) or file.read_text())
        return texts

    @property
    def files(self) -> str:
        return ", ".join(dict.fromkeys(edit.file for edit in self.edits))


POSTGRES = "tests/conformance/test_postgres.py::TestPostgres18::"
MONGO = "tests/conformance/test_mongo.py::TestMongoReplicaSet::"
LOST_CLAIMS = "tests/integration/stores/postgres/test_lost_claims.py"
FENCE = "test_an_ending_needs_state_token_and_owner"
UNDONE = "test_a_claim_that_was_undone_shares_its_fence_with_no_other"
OTHER_OWNER = "test_the_same_token_under_another_owner_is_refused"
RESCUE = "test_only_when_the_lease_has_run_out"
AT_ONCE = "test_concurrent_claims_share_the_work_without_overlap"
SEEN_VERSION = "test_update_only_at_the_version_seen"
LOCK_TOKEN = "test_renewed_from_now_under_its_token"
RANDOM = "test_random_sequences_give_the_same_state_as_the_memory_store"


def in_postgres(name: str, file: str, old: str, new: str, judge: str) -> Safeguard:
    """In a statement or, mostly, in a function of the schema."""
    place = file if file.startswith("sql/") else f"schema/functions/{file}"
    judges = (judge if judge.startswith("tests/") else f"{POSTGRES}{judge}",)
    return Safeguard(f"{name} (PostgreSQL)", (Edit(f"stores/postgres/{place}.sql", old, new),), judges)


def in_mongo(name: str, file: str, old: str, new: str, judge: str) -> Safeguard:
    return Safeguard(f"{name} (MongoDB)", (Edit(f"stores/mongo/{file}.py", old, new),), (f"{MONGO}{judge}",))


ITS_TOKEN = "batch.tokens[CASE cardinality(batch.tokens) WHEN 1 THEN 1 ELSE width_bucket(l.id, batch.ids) END]"
ITS_OWNER = "batch.owners[CASE cardinality(batch.owners) WHEN 1 THEN 1 ELSE width_bucket(l.id, batch.ids) END]"

POSTGRES_SAFEGUARDS = (
    in_postgres("token of usual endings", "settle/settle_completed", f"AND l.token = {ITS_TOKEN}", "", LOST_CLAIMS),
    in_postgres("owner of usual endings", "settle/settle_completed", "AND l.owner = batch.owner", "", RANDOM),
    in_postgres(
        "token of endings",
        "settle/settle_final",
        "AND l.token = batch.tokens[width_bucket(l.id, batch.ids)]",
        "",
        FENCE,
    ),
    in_postgres("owner of endings", "settle/settle_final", f"AND l.owner IS NOT DISTINCT FROM {ITS_OWNER}", "", FENCE),
    in_postgres("token of retries", "settle/settle_live", "AND l.token = c.token", "", FENCE),
    in_postgres("owner of retries", "settle/settle_live", "AND l.owner IS NOT DISTINCT FROM c.owner", "", FENCE),
    in_postgres(
        "a rescue needs an expired lease",
        "settle/settle_live",
        "(c.flags & 8 = 0 OR (l.phase = 2 AND l.lease <= now))",
        "true",
        RESCUE,
    ),
    in_postgres(
        "token of renewed leases", "running/heartbeat", "AND l.token = tokens[array_position(ids, l.id)]", "", UNDONE
    ),
    in_postgres("owner of renewed leases", "running/heartbeat", "AND l.owner = worker", "", OTHER_OWNER),
    in_postgres("token of reports", "running/report", "AND l.token = one.token", "", UNDONE),
    in_postgres("owner of reports", "running/report", "AND l.owner = one.owner", "", OTHER_OWNER),
    in_postgres("token of cancel requests", "running/request_cancel", "AND l.token = one.token", "", UNDONE),
    in_postgres("stamp in the token", "claim/next_token", "| stamp", "", LOST_CLAIMS),
    in_postgres(
        "claims under limits wait for the disk",
        "claim/claim_in_order",
        "PERFORM set_config('synchronous_commit', 'on', true);",
        "",
        LOST_CLAIMS,
    ),
    in_postgres(
        "keys of limits are locked",
        "limits/hold_keys",
        "FOR UPDATE SKIP LOCKED",
        "",
        "tests/integration/stores/postgres/test_limits.py::test_a_slot_that_an_open_transaction_takes_is_not_given_again",
    ),
    in_postgres("version of ticks", "jobs/write_ticks", "AND j.version = g.seen", "", RANDOM),
    in_postgres("version of written jobs", "jobs/write_job", "AND j.version = seen", "", SEEN_VERSION),
    in_postgres("token of renewed locks", "sql/lock_renew", "AND l.token = $2::bigint", "", LOCK_TOKEN),
)

IDS_ALONE = '{"_id": {"$in": [each.id for each in changes]}}'

MONGO_SAFEGUARDS = (
    in_mongo(
        "token of endings",
        "executions/settle",
        "under_tokens((each.id, each.token) for each in changes)",
        IDS_ALONE,
        FENCE,
    ),
    in_mongo("owner of endings", "executions/settle", '"owner": change.owner,', "", FENCE),
    in_mongo(
        "a rescue needs an expired lease",
        "executions/settle",
        'seen["$expr"] = {"$lte": ["$lease", time.now()]}',
        "pass",
        RESCUE,
    ),
    in_mongo(
        "token of renewed leases",
        "workers",
        "held | under_tokens(beat.leases)",
        'held | {"_id": {"$in": [id for id, _ in beat.leases]}}',
        UNDONE,
    ),
    in_mongo(
        "owner of renewed leases", "workers", '"state": "running", "owner": beat.worker.id', '"live": True', OTHER_OWNER
    ),
    in_mongo("token of reports", "executions/live", '"token": report.token, "owner"', '"owner"', UNDONE),
    in_mongo(
        "owner of reports",
        "executions/live",
        '"token": report.token, "owner": report.owner',
        '"token": report.token',
        OTHER_OWNER,
    ),
    in_mongo("token of cancel requests", "executions/live", '**_RUNNING, "token": request.token', "**_RUNNING", UNDONE),
    in_mongo("stamp in the token", "executions/claim_update", "next_token(0, stamp)]}", "next_token(0, 0)]}", UNDONE),
    in_mongo(
        "only ready rows are claimed",
        "executions/claim_update",
        '{"_id": {"$in": ids}, **READY, "limited"',
        '{"_id": {"$in": ids}, "limited"',
        AT_ONCE,
    ),
    in_mongo(
        "version of written jobs",
        "jobs/write",
        '{"$eq": ["$version", value_by_id({one.name: one.write.seen_version for one in batch})]},',
        "",
        SEEN_VERSION,
    ),
    in_mongo(
        "token of renewed locks",
        "locks",
        '{"$exists": True} if token is None else token',
        '{"$exists": True}',
        LOCK_TOKEN,
    ),
    in_mongo(
        "numbers of slots are unique",
        "schema",
        'only={"slots.key": _EXISTS}, unique=True',
        'only={"slots.key": _EXISTS}',
        "test_claims_at_the_same_time_never_exceed_the_limit",
    ),
)
