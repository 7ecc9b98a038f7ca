"""Explain the anomalies of a stored run: which were found, and the chain of each.

The judges of the run have left their findings in its manifest. A chain is chosen by the anomaly's
name; an anomaly without a chain of its own gets the history of its replica.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kafkasim.analysis.explain import compaction
from kafkasim.analysis.explain.chain import Chain, Explanation, Found, place_of, told
from kafkasim.analysis.explain.chains import chain_of
from kafkasim.analysis.explain.facts import Facts, Key
from kafkasim.analysis.explain.waiting import waiting
from kafkasim.analysis.judging.finding import NO_PROGRESS
from kafkasim.analysis.judging.invariants.online import INVARIANTS
from kafkasim.analysis.judging.verdict import PERMITTED, is_unmet
from kafkasim.sim.trace.reading import Row


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
        found = [each for each in found if each.anomaly == wanted]
    return found


RECORD = re.compile(r"(.+)-(\d+)@(\d+)")


def _record(facts: Facts, topic: str, partition: int, offset: int) -> list[Explanation]:
    """Explain what became of a record of a compacted topic; an unknown one has no explanation."""
    for topic_id in reversed(facts.topic_ids(topic)):
        key = (topic_id, partition)
        chain = compaction.record(facts, key, offset)
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
    """Explain the first finding of each name in a partition, and say how many there are of it."""
    found = [each for each in facts.manifest["findings"] if not is_unmet(each["name"])]
    broken = [each for each in found if each["name"] in INVARIANTS]
    some: dict[tuple[Any, ...], list[Found]] = {}
    for each in sorted(broken, key=lambda each: int(each["seq"])):
        some.setdefault(_place(each), []).append(each)
    for each in found:
        if each["name"] not in INVARIANTS:
            some.setdefault(_place(each), []).append(each)
    return [_explained(facts, each) for each in some.values()]


def _place(finding: Found) -> tuple[Any, ...]:
    return finding["name"], finding["topic_id"], finding["partition"], finding["expected_by"]


def _explained(facts: Facts, found: Sequence[Found]) -> Explanation:
    """Explain the first of some findings; of invariants a run keeps only the first ones."""
    first = found[0]
    count = 1 if first["name"] in INVARIANTS else sum(each["count"] for each in found)
    more = f" ({count} in all)" if count > 1 else ""
    key, chain = (first["topic_id"], first["partition"]), chain_of(facts, first)
    return _explanation(facts, first["name"], key, chain, first["text"] + more, first)


def _others(facts: Facts) -> list[Explanation]:
    """Explain what no row shows: a stall, an observation that is missing or must not be."""
    unmet = [each for each in facts.manifest["findings"] if is_unmet(each["name"])]
    stalls = [each for each in unmet if each["name"] == NO_PROGRESS]
    nowhere, explained = ("", -1), []
    if stalls:
        text = "; ".join(each["text"] for each in stalls)
        judged = min(stalls, key=lambda each: bool(each["expected_by"]))
        chain = waiting(facts)
        explained.append(_explanation(facts, NO_PROGRESS, nowhere, chain, text, judged))
    for each in unmet:
        if each["name"] != NO_PROGRESS:
            name, at = each["name"], each["t_us"] if each["t_us"] >= 0 else None
            chain = _moment(facts, at)
            if name.endswith(":missed-deletion") and at is not None:
                chain = compaction.missed_deletion(facts, at)
            explained.append(_explanation(facts, name, nowhere, chain, each["text"], each))
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
    "StreamThreadState", "TaskState", "RestoreBegan", "StateWiped",
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
    if excuse == PERMITTED:
        excuse = "the scenario permits it"
    place = place_of(facts, name, chain.rows.get(chain.turn))
    return Explanation(name, facts.name(key), found, excuse, steps, turn, conclusion, place)
