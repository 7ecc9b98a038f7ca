"""The chain of a run without progress: what waits for what at the end of the time limit.

Each missing condition is followed to its cause: a partition to its leader and the replicas out of
its ISR, a replica to its broker's registration and its last fetch, a group to its members and its
coordinator, a producer to its batches.
"""

from __future__ import annotations

from kafkasim.analysis.explain.chain import Chain
from kafkasim.analysis.explain.facts import Facts, Key
from kafkasim.sim.trace.reading import Row

HOST = ("HostStopped", "HostStarted", "HostPaused", "HostResumed")


def waiting(facts: Facts) -> Chain:
    """Return what waits for what at the end of a run."""
    chain = Chain()
    waits = [
        *_boot(facts, chain),
        *_partitions(facts, chain),
        *_transactions(facts, chain),
        *_producers(facts, chain),
        *_groups(facts, chain),
    ]
    if not waits:
        waits = _controllers(facts, chain)
    chain.add(facts.last(["Phase"], phase="end"))
    waits = list(dict.fromkeys(waits)) or facts.manifest["missing"]
    chain.conclusion = "; ".join([*waits, *facts.manifest.get("remarks", [])])
    return chain


def _boot(facts: Facts, chain: Chain) -> list[str]:
    """Return the brokers that never got ready, where the cluster did not."""
    if facts.last(["Phase"], phase="ready") is not None:
        return []
    waits = []
    for broker in range(1, facts.manifest["spec"]["cluster"]["brokers"] + 1):
        node = f"broker-{broker}"
        standing = _broker(facts, chain, broker)
        if "is unfenced" not in standing:
            applied = facts.last(["MetadataCommitted"], node=node)
            chain.turns(applied, "")
            chain.add(facts.last(["MetadataCommitted"], where=lambda row: row["node"] != node))  # noqa: B023
            waits.append(f"the cluster waits for {node}: {standing}")
    return waits


def _newest(facts: Facts, key: Key) -> Row | None:
    rows = facts.rows(["PartitionChanged"], key)
    return max(rows, key=lambda row: int(row["partition_epoch"]), default=None)


def _partitions(facts: Facts, chain: Chain) -> list[str]:
    waits: list[str] = []
    deleted = [row["topic_id"] for row in facts.rows(["TopicDeleted"])]
    changed = facts.rows(["PartitionChanged"])
    keys = dict.fromkeys((row["topic_id"], row["partition"]) for row in changed)
    for key in [key for key in keys if key[0] not in deleted]:
        change = _newest(facts, key)
        if change is None:
            continue
        name = facts.name(key)
        led = facts.last(["BecameLeader"], key, leader_epoch=change["leader_epoch"])
        if change["leader"] < 0:
            members = change["isr"] or change["elr"] or change["replicas"]
            chain.turns(change, "")
            waits += [f"{name} waits for a leader: {_broker(facts, chain, b)}" for b in members]
        elif led is None:
            chain.turns(change, "")
            waits.append(
                f"{name} waits for broker-{change['leader']} to lead epoch"
                f" {change['leader_epoch']}: {_broker(facts, chain, change['leader'])}"
            )
        else:
            absent = [b for b in change["replicas"] if b not in change["isr"]]
            waits += [_absent(facts, chain, key, change, broker) for broker in absent]
            if absent:
                chain.turns(change, "")
    return waits


def _absent(facts: Facts, chain: Chain, key: Key, change: Row, broker: int) -> str:
    """Return what keeps a replica out of the ISR."""
    node, name = f"broker-{broker}", facts.name(key)
    leader = f"broker-{change['leader']}"
    begin = f"the ISR of {name} waits for {node}"
    standing = _broker(facts, chain, broker)
    if "is unfenced" not in standing:
        return f"{begin}: {standing}"
    failed = facts.last(["ReplicaFailed"], key, node=node, after=change["seq"])
    if failed is not None:
        chain.add(failed)
        return f"{begin}, which fetches no more until the next leader epoch"
    role = facts.last(["BecameFollower", "BecameLeader"], key, node=node)
    started = facts.last(["HostStarted"], node=node)
    chain.add(role)
    if role is None or (started is not None and role["seq"] < started["seq"]):
        chain.add(started)
        return f"{begin}, which has not been told of this replica since it started"
    if role["leader_epoch"] < change["leader_epoch"]:
        chain.add(facts.last(["MetadataCommitted"], node=node))
        return f"{begin}, which has not heard of leader epoch {change['leader_epoch']}"
    chain.add(facts.last(["Replicated"], key, node=node))
    refused = facts.last(["IsrUpdateFailed"], key, node=leader, after=change["seq"])
    ends = {row["node"]: row["log_end_offset"] for row in facts.rows(["FinalReplica"], key)}
    if refused is not None:
        chain.add(refused)
        return f"{begin}: {leader}'s proposal to add it was refused ({refused['error']})"
    have, need = ends.get(node, -1), ends.get(leader, -1)
    if have >= need:
        return f"{begin}, whose log is as long as that of {leader}: {leader} does not propose it"
    return f"{begin}, which fetches from {leader} and has {have} of {need} offsets"


def _broker(facts: Facts, chain: Chain, broker: int) -> str:
    """Return where a broker stands: its process, and its registration."""
    node = f"broker-{broker}"
    process = facts.last([*HOST], node=node)
    known = facts.last(["BrokerRegistration"], broker=broker)
    if process is not None and process["kind"] in ("HostStopped", "HostPaused"):
        chain.add(process)
        reason = process.get("reason", "paused")
        return f"{node} is down ({reason})"
    if known is None:
        return f"{node} is not registered"
    if known["fenced"] or known["change"] == "unregistered":
        chain.add(known, process, facts.last(["BrokerState"], node=node))
        return f"{node} is {'fenced' if known['fenced'] else 'unregistered'}"
    return f"{node} is unfenced"


def _transactions(facts: Facts, chain: Chain) -> list[str]:
    """Return the transactional ids whose coordinator has given a marker up."""
    waits = []
    for transactional_id in {
        row["transactional_id"]: None for row in facts.rows(["MarkerGivenUp"])
    }:
        last = facts.last(["MarkerGivenUp", "TransactionState"], transactional_id=transactional_id)
        if last is not None and last["kind"] == "MarkerGivenUp":
            chain.turns(last, "")
            waits.append(f"{transactional_id} waits for a marker that its coordinator gave up")
    return waits


def _producers(facts: Facts, chain: Chain) -> list[str]:
    """Return the producers whose last records were appended and neither written nor given up."""
    waits = []
    for text in facts.manifest["missing"]:
        node, _, rest = text.partition(" has records that are neither")
        if not rest:
            continue
        answer = facts.last(["Acked", "SendFailed"], node=node)
        chain.add(answer)
        waits.append(f"{node} waits for the answers to its sends")
    return waits


def _groups(facts: Facts, chain: Chain) -> list[str]:
    """Return the groups that have not read to the high watermark, and what they do instead."""
    waits = []
    groups = {row["group"]: None for row in facts.rows(["GroupState", "Positioned"])}
    for group in groups:
        behind = _behind(facts, group)
        if not behind:
            continue
        state = facts.last(["GroupState"], group=group)
        chain.add(state, facts.last(["Polled", "Positioned"], group=group))
        chain.add(facts.last(["CoordinatorLoaded"], loaded=True))
        how = "has no coordinator" if state is None else f"is {state['state']}"
        waits.append(f"group {group} {how} and has not read {', '.join(behind)}")
        if chain.turn < 0 and state is not None:
            chain.turns(state, "")
    return waits


def _behind(facts: Facts, group: str) -> list[str]:
    behind = []
    named = [text for text in facts.manifest["missing"] if text.startswith(f"group {group} is at ")]
    for text in named:
        position, _, place = text.removeprefix(f"group {group} is at ").partition(" in ")
        behind.append(f"{place.partition(' (')[0]} ({position} offsets)")
    return behind


def _controllers(facts: Facts, chain: Chain) -> list[str]:
    """Return where the servers of the quorum stand, where nothing else explains the stall."""
    roles: dict[str, Row] = {row["node"]: row for row in facts.rows(["RaftRole"])}
    chain.add(*roles.values())
    leading = [node for node, row in roles.items() if row["role"] == "leader"]
    if roles and not leading:
        return ["the metadata quorum has no leader"]
    return []
