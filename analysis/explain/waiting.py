"""The chain of a run without progress: what each wait depends on, and the root of it.

The waits are those that the runner recorded (``Waiting``), and the root of each is what its finding
is expected by (``analysis/judging/waits.py``). The chain adds what the trace says last of a
partition's leader, of the replicas out of its ISR and their brokers, of a group and a transaction.
"""

from __future__ import annotations

from kafkasim.analysis.explain.chain import Chain
from kafkasim.analysis.explain.facts import Facts, Key
from kafkasim.analysis.judging.wait import DOWN, FENCED, LEADERLESS, NOT_LED, SHORT
from kafkasim.sim.trace.reading import Row

HOST = ("HostStopped", "HostStarted", "HostPaused", "HostResumed")


def waiting(facts: Facts) -> Chain:
    """Return what waits for what at the end of a run."""
    chain = Chain()
    findings = [each for each in facts.manifest["findings"] if each["name"] == "no-progress"]
    waits: dict[str, None] = {}
    for row, finding in zip(facts.rows(["Waiting"]), findings):
        root = f" ({finding['expected_by']})" if finding["expected_by"] else ""
        found = _of(facts, chain, row) or [finding["text"]]
        waits.update(dict.fromkeys([f"{each}{root}" for each in found]))
    chain.add(facts.last(["Phase"], phase="end"))
    chain.conclusion = "; ".join([*waits, *facts.manifest.get("remarks", [])])
    return chain


def _of(facts: Facts, chain: Chain, wait: Row) -> list[str]:
    """Return what one wait is for, nothing if its own sentence says it all."""
    if wait["what"] in (DOWN, FENCED):
        number = wait["host"].rpartition("-")[2]
        broker = int(number) if wait["host"] == f"broker-{number}" else -1
        return [_broker(facts, chain, broker)] if broker >= 0 else []
    if wait["what"] in (LEADERLESS, NOT_LED, SHORT):
        return _partition(facts, chain, (wait["topic_id"], wait["partition"]), wait["what"])
    if wait["group"]:
        state = facts.last(["GroupState"], group=wait["group"])
        chain.add(state, facts.last(["Polled", "Positioned"], group=wait["group"]))
        if chain.turn < 0 and state is not None:
            chain.turns(state, "")
    if wait["producer_id"] >= 0:
        of = ["TransactionState", "MarkerGivenUp", "MarkerSkipped", "EpochsExhausted"]
        chain.add(facts.last(of, producer_id=wait["producer_id"]))
    if wait["host"]:
        chain.add(facts.last(["Acked", "SendFailed"], node=wait["host"]))
    return []


def _partition(facts: Facts, chain: Chain, key: Key, what: str) -> list[str]:
    """Return what a partition waits for: a leader, its leader's broker, or replicas."""
    rows = facts.rows(["PartitionChanged"], key)
    change = max(rows, key=lambda row: int(row["partition_epoch"]))
    chain.turns(change, "")
    name = facts.name(key)
    if what == LEADERLESS:
        members = change["isr"] or change["elr"] or change["replicas"]
        return [f"{name} waits for a leader: {_broker(facts, chain, b)}" for b in members]
    if what == NOT_LED:
        leads = f"{name} waits for broker-{change['leader']} to lead epoch {change['leader_epoch']}"
        return [f"{leads}: {_broker(facts, chain, change['leader'])}"]
    absent = [broker for broker in change["replicas"] if broker not in change["isr"]]
    return [_absent(facts, chain, key, change, broker) for broker in absent]


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
