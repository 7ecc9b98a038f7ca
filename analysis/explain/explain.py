"""Explain the anomalies of a stored run: which were found, and the chain of each.

The judges of the run have left their findings in its manifest. A chain is chosen by the anomaly's
name; an anomaly without a chain of its own gets the history of its replica.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kafkasim.analysis.explain import clients, servers, transactions
from kafkasim.analysis.explain import compaction as cleanings
from kafkasim.analysis.explain.chain import Chain, Explanation, Found, place_of, told
from kafkasim.analysis.explain.facts import Facts, Key
from kafkasim.analysis.explain.loss import exposed_before, loss, missing_member
from kafkasim.analysis.explain.shares import delivery_of_a_record
from kafkasim.analysis.explain.waiting import waiting
from kafkasim.analysis.judging.invariants.online import INVARIANTS
from kafkasim.model.facts.names import record
from kafkasim.sim.trace.reading import Row

OfRow = Callable[[Facts, Key, Row], Chain]
OfFinding = Callable[[Facts, Key, Found], Chain]


def elected_without(facts: Facts, key: Key, row: Row) -> Chain:
    """Return how a committed record went that a new leader has not (ACKED)."""
    chain = loss(facts, key, exposed_before(facts, key, row["seq"]), until=row["seq"])
    chain.add(row)
    return chain


def stable_read(facts: Facts, key: Key, row: Row) -> Chain:
    """Return both reads of one offset (STABLEREAD)."""
    return clients.two_values(facts, key, {"seq": row["seq"]})


CHAINS: Mapping[str, OfRow] = {
    "ACKED": elected_without,
    "ISRDATA": missing_member,
    "MATCH": servers.mismatch,
    "HWMONO": servers.high_watermark_back,
    "MINISR": servers.too_few,
    "NODUP": servers.twice,
    "ONELEADER": servers.two_leaders,
    "META": servers.metadata,
    "ISRELIG": servers.ineligible,
    "LOGORDER": servers.replica,
    "EPOCHCACHE": servers.replica,
    "ORDER": servers.replica,
    "READISR": servers.read_outside,
    "STABLEREAD": stable_read,
    "EXCL": clients.two_owners,
    "OFFSET": clients.older_offset,
    "LAGREASON": servers.needless_shrink,
    "FENCEREASON": servers.needless_fencing,
    "VERIFYORDER": transactions.overtaken,
}
"""Chains that begin at the row that broke an invariant."""

OFFSETS: Mapping[str, OfFinding] = {"LATEST": cleanings.removed, "HORIZON": cleanings.kept}
"""Chains of invariants that are broken at one offset, which a row has many of."""

DELIVERY: Mapping[str, OfFinding] = {
    "lost-write": clients.lost_write,
    "unseen": clients.unseen,
    "duplicate": clients.duplicate,
    "idempotent-duplicate": clients.duplicate,
    "handover-redelivery": clients.uncovered,
    "inconsistent-offsets": clients.two_values,
    "poll-skip": clients.reader_order,
    "nonmonotonic-poll": clients.reader_order,
    "nonmonotonic-send": clients.sends_out_of_order,
    "reordered-key": clients.key_overtaken,
    "offset-regression": clients.commit_back,
    "reordered-commit": clients.commit_back,
    "skipped-by-commit": clients.skipped,
    "lost-to-retention": clients.overtaken,
    "needless-reset": clients.moved,
    "lost-deletion": cleanings.lost_deletion,
    "audit-missing": clients.audited,
    "audit-surplus": clients.audited,
    "lost-result": clients.result,
    "duplicate-result": clients.result,
    "application-failed": clients.application,
    "aborted-read": transactions.aborted_read,
    "precommitted-read": transactions.precommitted_read,
    "torn-transaction": transactions.torn,
    "hanging-transaction": transactions.hanging,
    "zombie-producer": transactions.zombie,
    "needless-epoch": transactions.needless_epoch,
    "lost-output": transactions.lost_output,
    "duplicate-output": transactions.duplicate_output,
    "accepted-again": delivery_of_a_record,
    "held-twice": delivery_of_a_record,
    "over-delivered": delivery_of_a_record,
    "share-skipped": delivery_of_a_record,
}
"""Chains that begin at the first occurrence of a delivery anomaly."""


SAME = {"double-owner": "EXCL"}
"""Names of the Spark checks to what the run's judges call the same anomaly."""


def explain(
    directory: Path, manifest: Mapping[str, Any], in_force: Sequence[str], wanted: str | None = None
) -> list[Explanation]:
    """Return the explanations of a stored run's anomalies; ``in_force`` tells of its variants.

    Of each anomaly, its first occurrence in each partition is explained; ``wanted`` selects one
    anomaly by name. ``balances-0@17`` asks instead what became of the record at an offset of a
    compacted topic.

    Raises:
        ManifestError: there is no whole run in the directory, or it was stored without findings.
    """
    facts = Facts(directory, manifest, in_force)
    if wanted is not None and (asked := RECORD.fullmatch(wanted)) is not None:
        return _record(facts, asked[1], int(asked[2]), int(asked[3]))
    found = [*_findings(facts), *_others(facts)]
    if wanted is not None:
        found = [each for each in found if each.anomaly in (wanted, SAME.get(wanted))]
    return found


RECORD = re.compile(r"(.+)-(\d+)@(\d+)")


def _record(facts: Facts, topic: str, partition: int, offset: int) -> list[Explanation]:
    """Explain what became of a record of a compacted topic; an unknown one has no explanation."""
    for topic_id in reversed(facts.topic_ids(topic)):
        key = (topic_id, partition)
        chain = cleanings.record(facts, key, offset)
        if chain is not None:
            text = f"what became of offset {offset}"
            return [_explanation(facts, "record", key, chain, text, {})]
    return []


def firsts(explained: Iterable[Explanation]) -> dict[str, list[Explanation]]:
    """Return the explanations by anomaly; unexcused ones before excused ones."""
    found: dict[str, list[Explanation]] = {}
    for each in sorted(explained, key=lambda each: bool(each.excuse)):
        found.setdefault(each.anomaly, []).append(each)
    return found


def _findings(facts: Facts) -> list[Explanation]:
    """Explain the first finding of each invariant in a partition, and all other findings."""
    found = facts.manifest["findings"]
    broken = sorted((each for each in found if each["name"] in INVARIANTS), key=_row)
    firsts: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for each in broken:
        place = (each["topic_id"], each["partition"])
        firsts.setdefault((each["name"], place, each["expected_by"]), each)
    others = [each for each in found if each["name"] not in (*INVARIANTS, "no-progress")]
    return [_explained(facts, each) for each in [*firsts.values(), *others]]


def _row(finding: Mapping[str, Any]) -> int:
    return int(finding["seq"])


def _explained(facts: Facts, finding: Mapping[str, Any]) -> Explanation:
    name, key = finding["name"], (finding["topic_id"], finding["partition"])
    chain_of = DELIVERY.get(name)
    if name in OFFSETS:
        chain_of = OFFSETS[name] if finding["offset"] >= 0 else None
    if chain_of is not None:
        chain = chain_of(facts, key, dict(finding))
    else:
        chain = _of_row(facts, name, key, finding["seq"])
    more = f" ({finding['count']} in all)" if finding["count"] > 1 else ""
    return _explanation(facts, name, key, chain, finding["text"] + more, finding)


def _of_row(facts: Facts, name: str, key: Key, seq: int) -> Chain:
    row = facts.row(seq) if 0 <= seq < facts.manifest["rows"] else None
    if row is None:
        return Chain()
    return CHAINS.get(name, _history)(facts, key, row)


def _history(facts: Facts, key: Key, row: Row) -> Chain:
    """Return the history of the row's replica, or of its host where it concerns no partition."""
    if key[1] >= 0:
        return servers.replica(facts, key, row)
    chain = Chain()
    chain.add(*servers.host_events(facts, row["node"], row["seq"])[-3:])
    chain.turns(row, "")
    return chain


def _others(facts: Facts) -> list[Explanation]:
    """Explain what no row shows: a stall, an observation that is missing or must not be."""
    manifest = facts.manifest
    explained = []
    if manifest["missing"]:
        excuse = {"expected_by": manifest["stall_excuse"]}
        text = "; ".join(manifest["missing"])
        nowhere = ("", -1)
        explained.append(_explanation(facts, "no-progress", nowhere, waiting(facts), text, excuse))
    for name in manifest["anomalies"]:
        word, colon, what = name.partition(":")
        if colon and word in ("missing", "seen"):
            at = manifest["observations"].get(what)
            text = f"{what} did not happen"
            if at is not None:
                late = "" if word == "seen" else ", when the faults were healed"
                text = f"{what} happened{late}"
            chain = _moment(facts, at)
            if what == "missed-deletion" and at is not None:
                chain = cleanings.missed_deletion(facts, at)
            explained.append(_explanation(facts, name, ("", -1), chain, text, {}))
    return explained


def _moment(facts: Facts, at_us: int | None) -> Chain:
    """Return what was done to the cluster, and what happened at a time (None: all of the run)."""
    chain = Chain()

    def counts(row: Row) -> bool:
        return at_us is None or bool(row["t_us"] <= at_us)

    chain.add(*facts.rows(["FaultStarted", "Operated"], where=counts))
    if at_us is not None:
        then = facts.rows([*NEWS], t_us=at_us)
        chain.add(*then)
        chain.turns(then[-1] if then else None, "")
    return chain


NEWS = (
    "PartitionChanged", "BrokerRegistration", "ControllerActive", "HostStopped", "IsrUpdateFailed",
    "SendFailed", "GroupState", "CoordinatorLoaded", "Truncated", "LogLoaded", "LogStart",
    "LogDeleted", "LogDirOffline", "ControlRequest", "ZooKeeperSession", "VotersChanged",
    "TopicDeleted", "BecameLeader", "CommitResult", "Operated", "ApplicationFailed",
)  # fmt: skip
"""Facts that can be what an observation is about."""


def _explanation(
    facts: Facts, name: str, key: Key, chain: Chain, found: str, judged: Mapping[str, Any]
) -> Explanation:
    steps = told(facts, chain)
    turn = next((step for step in steps if step.seq == chain.turn), None)
    conclusion = chain.conclusion
    for rule in () if name == "record" else facts.in_force:
        end = "" if conclusion.endswith(".") or not conclusion else "."
        conclusion = f"{conclusion}{end} {rule}".strip()
    excuse = judged.get("expected_by", "")
    if not excuse and name in facts.manifest["expected"]:
        excuse = "the scenario permits it"
    place = place_of(facts, name, chain.rows.get(chain.turn))
    found = re.sub(r"record (\d+)", lambda match: record(int(match[1])), found)
    return Explanation(name, facts.name(key), found, excuse, steps, turn, conclusion, place)
