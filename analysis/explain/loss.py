"""How a record was lost: the replicas that had it, and why a replica without it became leader.

The chain of a loss is the same for every anomaly that follows from it: an acknowledged record that
is gone (lost-write), a new leader or ISR member without committed records (ACKED, ISRDATA), an
offset with two values (inconsistent-offsets, STABLEREAD).
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkasim.analysis.explain.chain import Chain, Found
from kafkasim.analysis.explain.facts import END, Facts, Key
from kafkasim.model.facts.names import record
from kafkasim.sim.trace.reading import Row

STRIKES = ("FaultStarted", "HostStopped", "HostPaused", "DiskReplaced", "Operated")


@dataclass(frozen=True)
class Copy:
    """A record in one replica's log, from the row that put it there to the row that took it."""

    node: str
    gained: Row
    taken: Row | None

    def alive(self, seq: int) -> bool:
        """Return whether the replica has the record at a row of the trace."""
        return self.gained["seq"] <= seq and (self.taken is None or self.taken["seq"] > seq)


def copies(facts: Facts, key: Key, offset: int, epoch: int | None = None) -> list[Copy]:
    """Return every copy of the record at an offset, in the order in which they came about.

    With ``epoch``, only those of the record that was appended in this leader epoch: a follower got
    it if the batches that it fetched are of this epoch, or if the leader that sent them had it.
    """
    leaders = {row["leader_epoch"]: row["node"] for row in facts.rows(["BecameLeader"], key)}
    found: list[Copy] = []
    gained = facts.rows(
        ["Appended", "Replicated"], key,
        where=lambda row: bool(row["base_offset"] <= offset < row["next_offset"]),
    )  # fmt: skip
    taken = _taking(facts, key, offset)
    for row in gained:
        if epoch is not None:
            appended = row["kind"] == "Appended"
            sender = leaders.get(row["leader_epoch"])
            same = row["leader_epoch" if appended else "batch_epoch"] == epoch
            sent = any(each.node == sender and each.alive(row["seq"]) for each in found)
            if not same and (appended or not sent):
                continue
        after = [t for t in taken if t["node"] == row["node"] and t["seq"] > row["seq"]]
        found.append(Copy(row["node"], row, min(after, key=lambda t: int(t["seq"]), default=None)))
    return found


def _taking(facts: Facts, key: Key, offset: int) -> list[Row]:
    """Return the rows that took an offset out of a replica's log."""

    def takes(row: Row) -> bool:
        if row["kind"] == "Truncated":
            return bool(row["offset"] <= offset)
        if row["kind"] == "LogLoaded":
            return bool(row["log_end_offset"] <= offset)
        return bool(row["kind"] != "LogStart" or row["reason"] == "reset")

    kinds = ["Truncated", "LogLoaded", "LogDeleted", "LogStart"]
    return facts.rows(kinds, key, where=takes) + facts.rows(["DiskReplaced"])


def loss(facts: Facts, key: Key, offset: int, *, record_id: int = -1, until: int = END) -> Chain:
    """Return how the record at an offset came to be, was promised, and got lost.

    Without ``record_id`` it is the record that was at the offset before row ``until``, in the
    newest leader epoch that a leader had exposed there.
    """
    chain = Chain()
    origin = _origin(facts, key, offset, record_id, until)
    if origin is None:
        return chain
    epoch = origin["leader_epoch"]
    chain.add(origin)
    held = copies(facts, key, offset, epoch)
    elected = _first_without(facts, key, offset, held, epoch)
    last = END if elected is None else elected["seq"]
    for copy in held:
        if copy.gained["seq"] < last:
            chain.add(copy.gained)
        chain.add(copy.taken)
    promise, shown = _promises(facts, key, offset, origin, held)
    chain.add(promise, shown)
    if elected is None:
        _vanished(chain, held, record_id)
        return chain
    _election(facts, chain, key, offset, elected, held, (promise, shown))
    chain.add(_final_leader(facts, key))
    return chain


def _origin(facts: Facts, key: Key, offset: int, record_id: int, until: int) -> Row | None:
    """Return the append of the record that is asked for."""

    def has(row: Row) -> bool:
        if record_id >= 0 and record_id not in row["record_ids"]:
            return False
        return bool(row["base_offset"] <= offset < row["next_offset"])

    appended = facts.rows(["Appended"], key, where=has, before=until)
    exposed = facts.rows(
        ["HighWatermark"], key, before=until, where=lambda row: bool(row["high_watermark"] > offset)
    )
    for row in reversed(appended):
        if any(each["leader_epoch"] >= row["leader_epoch"] for each in exposed):
            return row
    return appended[-1] if appended else None


def _promises(
    facts: Facts, key: Key, offset: int, origin: Row, held: list[Copy]
) -> tuple[Row | None, Row | None]:
    """Return the acknowledgement of the record, and the high watermark that exposed it."""
    ids = origin["record_ids"]

    def exposes(row: Row) -> bool:
        owns = any(copy.node == row["node"] and copy.alive(row["seq"]) for copy in held)
        return owns and bool(row["high_watermark"] > offset)

    acked = facts.first(
        ["Acked"], key, after=origin["seq"],
        where=lambda row: any(each in ids for each in row["record_ids"]),
    )  # fmt: skip
    return acked, facts.first(["HighWatermark"], key, after=origin["seq"], where=exposes)


def _first_without(facts: Facts, key: Key, offset: int, held: list[Copy], epoch: int) -> Row | None:
    """Return the first leader of a later epoch that has not the record."""
    for row in facts.rows(["BecameLeader"], key):
        newer = row["leader_epoch"] > epoch
        has = any(copy.node == row["node"] and copy.alive(row["seq"]) for copy in held)
        if newer and not has:
            return row
        if not newer and row["start_offset"] <= offset and row["seq"] > held[0].gained["seq"]:
            return row  # it leads on in its epoch, after it has lost the record
    return None


def _vanished(chain: Chain, held: list[Copy], record_id: int) -> None:
    """End a chain in which no later leader lacks the record: who dropped it?"""
    taken = [copy.taken for copy in held if copy.taken is not None]
    what = record(record_id) if record_id >= 0 else "the record"
    if taken:
        chain.turns(taken[-1], f"{what} is lost with the last replica that had it")
    else:
        chain.conclusion = f"{what} is in a log at the end of the run"


def _election(
    facts: Facts,
    chain: Chain,
    key: Key,
    offset: int,
    elected: Row,
    held: list[Copy],
    promises: tuple[Row | None, Row | None],
) -> None:
    """Add the election of a leader without the record, why it came, and why it lacks the record."""
    change = _change_of(facts, key, elected["leader_epoch"])
    chain.add(elected)
    node = elected["node"]
    if change is not None:
        chain.add(change, *_strikes(facts, key, change))
    acked, exposed = promises
    before = int((change or elected)["seq"])
    committed = exposed is not None and exposed["seq"] < before
    if change is not None and change["unclean"]:
        chain.turns(change, f"{node} was not in the ISR: an unclean election loses what it lacked")
    elif not committed:
        chain.turns(acked or change, _uncommitted(held[0].gained, before, acked, node))
    else:
        lacking(facts, chain, key, offset, node, before, held)


def _uncommitted(origin: Row, elected: int, acked: Row | None, node: str) -> str:
    """Return why a record was promised that was not committed when another leader was elected."""
    if acked is None or acked["acks"] == -1:
        return f"the record was not committed when {node} was elected"
    if elected < origin["seq"]:
        return (
            f"{origin['node']} still acted as the leader when {node} had been elected, and acks="
            f"{acked['acks']} waits for no other replica"
        )
    return (
        f"acks={acked['acks']} was answered before the commit: the record was not below the high"
        f" watermark when {node} was elected"
    )


def lacking(
    facts: Facts, chain: Chain, key: Key, offset: int, node: str, seq: int, held: list[Copy]
) -> None:
    """Add why a replica that must have a committed record has it not, at a row of the trace."""
    own = [copy for copy in held if copy.node == node and copy.gained["seq"] < seq]
    taken = own[-1].taken if own else None
    if taken is not None:
        chain.add(own[-1].gained, _follows(facts, key, node, taken))
        if taken["kind"] == "LogLoaded":
            stop = facts.last(["HostStopped"], node=node, before=taken["seq"])
            chain.add(stop)
            lost = "its log was cut when it was loaded"
            if stop is not None and stop["reason"] == "power-loss":
                lost = "it lost what it had not flushed"
            chain.turns(taken, f"{node} had offset {offset} of {facts.name(key)}, but {lost}")
        else:
            text = f"{node} had offset {offset} of {facts.name(key)} and dropped it"
            chain.turns(taken, f"{text}, although it was below the high watermark")
        return
    other = [c for c in copies(facts, key, offset) if c.node == node and c.alive(seq - 1)]
    if other:
        chain.add(*facts.rows(["BecameFollower", "Truncated"], key, node=node, before=seq)[-2:])
        chain.turns(
            other[-1].gained,
            f"{node} holds another record at offset {offset} of {facts.name(key)}, and did not"
            " truncate it",
        )
        return
    number = int(node.rpartition("-")[2])
    joins = facts.rows(
        ["PartitionChanged"], key, before=seq + 1, where=lambda row: number in row["isr"]
    )
    joined = _start_of_membership(facts, key, number, joins)
    chain.add(facts.last(["BecameFollower", "BecameLeader"], key, node=node, before=seq))
    exposed = next((row for row in chain.rows.values() if row["kind"] == "HighWatermark"), None)
    if joined is not None and exposed is not None and joined["seq"] < exposed["seq"]:
        chain.add(joined)
        chain.turns(
            exposed,
            f"{exposed['node']} exposed offset {offset} of {facts.name(key)}, which {node}, a"
            " member of the ISR, never had",
        )
        return
    chain.turns(
        joined,
        f"{node} was in the ISR of {facts.name(key)} but never had offset {offset}",
    )


def _start_of_membership(facts: Facts, key: Key, number: int, joins: list[Row]) -> Row | None:
    """Return the change with which a broker came into the ISR in which it was last."""
    if not joins:
        return None
    outside = facts.last(
        ["PartitionChanged"], key, before=joins[-1]["seq"],
        where=lambda row: number not in row["isr"],
    )  # fmt: skip
    after = [row for row in joins if outside is None or row["seq"] > outside["seq"]]
    return after[0] if after else joins[-1]


def _follows(facts: Facts, key: Key, node: str, taken: Row) -> Row | None:
    """Return the change of role that made a replica truncate."""
    return facts.last(["BecameFollower"], key, node=node, before=taken["seq"])


def _change_of(facts: Facts, key: Key, leader_epoch: int) -> Row | None:
    """Return the change that began a leader epoch."""
    return facts.first(
        ["PartitionChanged"], key, where=lambda row: bool(row["leader_epoch"] >= leader_epoch)
    )


def _strikes(facts: Facts, key: Key, change: Row) -> list[Row]:
    """Return what had struck the old leader before a change: its last fault, stop or pause."""
    before = facts.last(
        ["PartitionChanged"], key, before=change["seq"], where=lambda row: bool(row["leader"] >= 0)
    )
    if before is None:
        return []
    node = f"broker-{before['leader']}"
    found = []
    stop = facts.last(["HostStopped", "HostPaused"], node=node, before=change["seq"])
    fault = facts.last(
        ["FaultStarted"], before=change["seq"],
        where=lambda row: node in row["target"].replace("|", "+").split("+"),
    )  # fmt: skip
    fenced = facts.last(
        ["BrokerRegistration"], before=change["seq"] + 1, broker=before["leader"],
        where=lambda row: row["change"] in ("fenced", "shutting-down"),
    )  # fmt: skip
    for row in (stop, fault, fenced):
        if row is not None and row["seq"] > before["seq"]:
            found.append(row)
    return found


def _final_leader(facts: Facts, key: Key) -> Row | None:
    found = facts.rows(["FinalReplica"], key, where=lambda row: bool(row["leading"]))
    return max(found, key=lambda row: int(row["leader_epoch"]), default=None)


def exposed_before(facts: Facts, key: Key, seq: int) -> int:
    """Return the highest offset that a leader had exposed before a row; −1 for none."""
    rows = facts.rows(["HighWatermark"], key, before=seq)
    return max((int(row["high_watermark"]) for row in rows), default=0) - 1


def missing_member(facts: Facts, key: Key, found: Found) -> Chain:
    """Return why a member of the ISR lacks committed records (ISRDATA)."""
    row, seq = facts.row(found["seq"]), int(found["seq"])
    offset = exposed_before(facts, key, seq + 1)
    chain = loss_so_far(facts, key, offset, seq)
    chain.add(row)
    change = facts.last(["PartitionChanged"], key, before=seq + 1)
    members = [] if change is None else [f"broker-{number}" for number in change["isr"]]
    held = copies(facts, key, offset, _epoch_of(facts, key, offset, seq))
    lacks = [n for n in members if not any(c.node == n and c.alive(seq) for c in held)]
    if row["kind"] in ("Truncated", "LogDeleted"):
        lacks = [row["node"]]
    for node in lacks[:1]:
        lacking(facts, chain, key, offset, node, seq + 1, held)
    return chain


def _epoch_of(facts: Facts, key: Key, offset: int, until: int) -> int | None:
    origin = _origin(facts, key, offset, -1, until)
    return None if origin is None else int(origin["leader_epoch"])


def loss_so_far(facts: Facts, key: Key, offset: int, until: int) -> Chain:
    """Return how a record came to be and was promised, up to a row."""
    chain = Chain()
    origin = _origin(facts, key, offset, -1, until)
    if origin is not None:
        held = copies(facts, key, offset, origin["leader_epoch"])
        chain.add(origin, *_promises(facts, key, offset, origin, held))
        chain.add(*[copy.gained for copy in held if copy.gained["seq"] < until])
    return chain
