"""The facts of share groups (KIP-932) as sentences, with the sections of KAFKA.md behind them."""

from __future__ import annotations

from collections.abc import Callable

from kafkasim.scenarios.explaining.facts import Facts
from kafkasim.scenarios.showing.state import Row

Said = tuple[str, str]

RULES = "3.6"

SHOWN = 4
"""How many offsets a sentence names."""

TYPES = {0: "gap", 1: "accept", 2: "release", 3: "reject"}
"""What a member says of a record (AcknowledgeType)."""

MOVES = {
    "acknowledged": "its member acknowledged them",
    "session-ended": "its member's share session is over",
    "lock-expired": "its acquisition lock has expired",
    "rolled-back": "their state could not be written",
    "aborted": "they belong to an aborted transaction",
}
CLOSED = {
    "leadership": "it no longer leads the partition",
    "empty": "the group has no member",
}
STARTS = {
    "records": "all records below it are accepted, rejected or archived",
    "log-start": "the log begins there",
}


def _place(facts: Facts, row: Row) -> str:
    """Return a share partition: what one group sees of a partition."""
    name = facts.name((row["topic_id"], row["partition"]))
    return f"{name} for share group {row['group']}"


def _range(row: Row) -> str:
    first, last = row["first_offset"], row["last_offset"]
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


def _named(offsets: list[int]) -> str:
    more = f" and {len(offsets) - SHOWN} more" if len(offsets) > SHOWN else ""
    return ", ".join(map(str, offsets[:SHOWN])) + more


def _loaded(facts: Facts, row: Row) -> Said:
    return (
        f"{row['node']} has read the state of {_place(facts, row)} in leader epoch"
        f" {row['leader_epoch']}: state epoch {row['state_epoch']}, it begins at offset"
        f" {row['start_offset']}"
    ), RULES


def _closed(facts: Facts, row: Row) -> Said:
    why = CLOSED.get(row["reason"], f"the persister answered {row['reason']}")
    return f"{row['node']} forgets {_place(facts, row)}: {why}", RULES


def _acquired(facts: Facts, row: Row) -> Said:
    return (
        f"{row['node']} gives {_range(row)} of {_place(facts, row)} to member {row['member_id']},"
        f" delivery {row['delivery_count']}, locked for {row['lock_us'] // 1000} ms"
    ), RULES


def _moved(facts: Facts, row: Row) -> Said:
    return (
        f"{row['node']} has {_range(row)} of {_place(facts, row)} as {row['state']}, delivered"
        f" {row['delivery_count']} times, held by member {row['member_id']}:"
        f" {MOVES.get(row['reason'], row['reason'])}"
    ), RULES


def _start_moved(facts: Facts, row: Row) -> Said:
    return (
        f"{row['node']} moves the start of {_place(facts, row)} to offset {row['start_offset']}:"
        f" {STARTS.get(row['reason'], row['reason'])}"
    ), RULES


def _start_failed(facts: Facts, row: Row) -> Said:
    return (
        f"{row['node']} has written the state of {_place(facts, row)}, but has no state for its"
        f" start offset {row['start_offset']}: the start stays, and no request is answered"
    ), RULES


def _polled(facts: Facts, row: Row) -> Said:
    return (
        f"{row['node']} gets the records at {_named(row['offsets'])} of {_place(facts, row)} from"
        f" poll()"
    ), RULES


def _acknowledged(facts: Facts, row: Row) -> Said:
    told = [
        f"{TYPES[kind]} of {offset}"
        for offset, kind in zip(row["offsets"][:SHOWN], row["types"], strict=False)
    ]
    more = f" and {len(row['offsets']) - SHOWN} more" if len(row["offsets"]) > SHOWN else ""
    became = "is done" if row["error"] == "NONE" else f"failed with {row['error']}"
    return (
        f"{row['node']} hears that in {_place(facts, row)} {', '.join(told)}{more} {became}"
    ), RULES


def _group(_: Facts, row: Row) -> Said:
    members = ", ".join(row["member_ids"]) or "nobody"
    why = f" ({row['reason']})" if row["reason"] else ""
    return (
        f"{row['node']} has share group {row['group']} {row['state']} at epoch"
        f" {row['generation']} with {members}{why}"
    ), RULES


def _assigned(_: Facts, row: Row) -> Said:
    what = ", ".join(row["assignment"]) or "nothing"
    return (
        f"{row['node']} assigns {what} to member {row['member_id']} of share group"
        f" {row['group']} at member epoch {row['generation']}"
    ), RULES


def _states(_: Facts, row: Row) -> Said:
    verb = "begins" if row["loaded"] else "ceases"
    return (
        f"{row['node']} {verb} to coordinate the share partitions of"
        f" __share_group_state-{row['partition']}, leader epoch {row['leader_epoch']}"
    ), RULES


def _initialized(facts: Facts, row: Row) -> Said:
    where = "without a start offset"
    if row["start_offset"] != -1:
        where = f"at offset {row['start_offset']}"
    return (
        f"{row['node']} begins the state of {_place(facts, row)} anew {where}, state epoch"
        f" {row['state_epoch']}"
    ), RULES


def _final(facts: Facts, row: Row) -> Said:
    return (
        f"at the end {row['node']} has {_place(facts, row)} from offset {row['start_offset']} to"
        f" {row['end_offset']} in leader epoch {row['leader_epoch']}"
    ), RULES


WORDS: dict[str, Callable[[Facts, Row], Said]] = {
    "SharePartitionLoaded": _loaded,
    "SharePartitionClosed": _closed,
    "ShareAcquired": _acquired,
    "ShareMoved": _moved,
    "ShareStartMoved": _start_moved,
    "ShareStartFailed": _start_failed,
    "SharePolled": _polled,
    "ShareAcknowledged": _acknowledged,
    "ShareGroupState": _group,
    "ShareGroupAssigned": _assigned,
    "ShareStateInitialized": _initialized,
    "ShareStatesLoaded": _states,
    "FinalSharePartition": _final,
}
"""A kind of fact to what says it."""
