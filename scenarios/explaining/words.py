"""Every kind of fact as a sentence, and the section of KAFKA.md with the rule behind it."""

from __future__ import annotations

import re
from collections.abc import Callable

from kafkasim.model.facts import FACTS
from kafkasim.scenarios.explaining.cleaned.words import WORDS as OF_CLEANINGS
from kafkasim.scenarios.explaining.facts import Facts, record
from kafkasim.scenarios.explaining.shares.words import WORDS as OF_SHARES
from kafkasim.scenarios.explaining.transactions.words import WORDS as OF_TRANSACTIONS
from kafkasim.scenarios.showing import fault_words, reasons
from kafkasim.scenarios.showing.state import Row

Said = tuple[str, str]
"""A sentence, and a section of KAFKA.md ("" for none)."""

WORDS = OF_TRANSACTIONS | OF_CLEANINGS | OF_SHARES
"""The sentences of other modules, by the kind of the fact."""

SHOWN = 3
"""How many record ids a sentence names."""


def _snake(kind: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind).lower()


def _records(ids: list[int]) -> str:
    named = ", ".join(record(each) for each in ids[:SHOWN])
    more = f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else ""
    return (named or "control records") + more


def _ids(brokers: list[int]) -> str:
    return ",".join(map(str, brokers)) or "empty"


def _member(text: str) -> str:
    """Return a text with client ids in place of member ids."""
    return re.sub(r"(?<=\w)-[0-9a-f]{16}\b", "", text)


class Words:
    """Puts the rows of one run into words."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._faults = facts.manifest["spec"].get("faults", [])

    def of(self, row: Row) -> Said:
        """Return what a row says, and the section of KAFKA.md behind it."""
        elsewhere = WORDS.get(row["kind"])
        if elsewhere is not None:
            return elsewhere(self.facts, row)
        said: Callable[[Row], Said] | None = getattr(self, f"_{_snake(row['kind'])}", None)
        return self._any(row) if said is None else said(row)

    def _any(self, row: Row) -> Said:
        """Return a kind of fact that has no sentence of its own: its name and its fields."""
        fields = list(FACTS[row["kind"]].__dataclass_fields__)  # type: ignore[attr-defined]
        shown = ", ".join(f"{name.replace('_', ' ')} {row[name]}" for name in fields)
        spaced = _snake(row["kind"]).replace("_", " ")
        return f"{row['node']}: {spaced}" + (f" ({shown})" if shown else ""), ""

    def _place(self, row: Row) -> str:
        return self.facts.name((row["topic_id"], row["partition"]))

    # Faults and hosts.

    def _fault_started(self, row: Row) -> Said:
        kind, target = row["fault"], row["target"]
        numbers = fault_words.numbers_of(self._faults, kind, target)
        name, effect = fault_words.name(kind, target, numbers), fault_words.effect(kind, numbers)
        return f"fault: {name}: {effect}", ""

    def _fault_ended(self, row: Row) -> Said:
        numbers = fault_words.numbers_of(self._faults, row["fault"], row["target"])
        return f"fault ends: {fault_words.name(row['fault'], row['target'], numbers)}", ""

    def _host_stopped(self, row: Row) -> Said:
        lost = "; data that it had not flushed is lost" if row["reason"] == "power-loss" else ""
        return f"{row['node']} stops ({row['reason']}){lost}", ""

    def _host_started(self, row: Row) -> Said:
        return f"{row['node']} starts{' again' if row['incarnation'] else ''}", ""

    def _host_paused(self, row: Row) -> Said:
        lasts = fault_words.duration(row["duration_us"])
        return f"{row['node']} is paused for {lasts}", ""

    def _host_resumed(self, row: Row) -> Said:
        return f"{row['node']} resumes", ""

    def _disk_replaced(self, row: Row) -> Said:
        return f"{row['node']} gets an empty disk", ""

    def _phase(self, row: Row) -> Said:
        ends = f"the run ends: {row['reason']}" if row["reason"] else f"the run is {row['phase']}"
        return ends, ""

    def _operated(self, row: Row) -> Said:
        answer = "done" if row["error"] == "NONE" else row["error"]
        return f"operator: {row['operation']} {row['target']}: {answer}", ""

    def _config_changed(self, row: Row) -> Said:
        return f"{row['config']} of {row['resource']} becomes {row['value']}", "6"

    def _application_failed(self, row: Row) -> Said:
        frame = f", at {row['traceback'][-1]}" if row["traceback"] else ""
        end = "; its process ends without closing its clients" if row["ended"] else ""
        text = f"the application of {row['node']} ({row['task']}) raises {row['exception']}"
        return f"{text}: {row['reason']}{frame}{end}", ""

    # Logs.

    def _appended(self, row: Row) -> Said:
        offsets = _offsets(row["base_offset"], row["next_offset"])
        return (
            f"{row['node']}, leader of {self._place(row)} in leader epoch {row['leader_epoch']},"
            f" appends {_records(row['record_ids'])} at {offsets}"
        ), "1.7"

    def _replicated(self, row: Row) -> Said:
        offsets = _offsets(row["base_offset"], row["next_offset"])
        return (
            f"{row['node']} fetches {offsets} of {self._place(row)} in leader epoch"
            f" {row['leader_epoch']}"
        ), "1.4"

    def _high_watermark(self, row: Row) -> Said:
        known = ",".join(map(str, sorted(row["acknowledged"])))
        return (
            f"{row['node']} advances the high watermark of {self._place(row)} to"
            f" {row['high_watermark']} in leader epoch {row['leader_epoch']}: replicas {known} are"
            f" known to have the records, min.insync.replicas is {row['min_isr']}"
        ), "1.5"

    def _preferred_read_replica(self, row: Row) -> Said:
        return (
            f"{row['node']} sends consumers of {self._place(row)} to replica {row['replica']}, by"
            f" the ISR of partition epoch {row['partition_epoch']}"
        ), "1.8"

    def _truncated(self, row: Row) -> Said:
        return (
            f"{row['node']} truncates {self._place(row)} from offset {row['log_end_offset']} to"
            f" {row['offset']}, to follow leader epoch {row['leader_epoch']}"
        ), "1.4"

    def _log_loaded(self, row: Row) -> Said:
        how = "after a clean shutdown" if row["clean"] else "and recovers it"
        return (
            f"{row['node']} loads the log of {self._place(row)} {how}: offsets"
            f" {row['log_start_offset']} to {row['log_end_offset']}, high watermark"
            f" {row['high_watermark']}"
        ), "5"

    def _log_start(self, row: Row) -> Said:
        return (
            f"{row['node']} moves the log start of {self._place(row)} to {row['offset']}"
            f" ({row['reason']})"
        ), "5"

    def _log_deleted(self, row: Row) -> Said:
        end = row["log_end_offset"]
        return f"{row['node']} drops its log of {self._place(row)}, which ended at {end}", "5"

    def _log_dir_offline(self, row: Row) -> Said:
        return f"{row['node']} takes {row['directory']} offline: {row['reason']}", "5"

    def _replica_failed(self, row: Row) -> Said:
        return f"{row['node']} stops fetching {self._place(row)}: {row['reason']}", "1.4"

    def _final_replica(self, row: Row) -> Said:
        role = "leader" if row["leading"] else "follower"
        return (
            f"at the end {row['node']}, {role} of {self._place(row)} in leader epoch"
            f" {row['leader_epoch']}, has offsets {row['log_start_offset']} to"
            f" {row['log_end_offset']}, high watermark {row['high_watermark']}"
        ), ""

    # Leaders, ISRs, controllers.

    def _became_leader(self, row: Row) -> Said:
        return (
            f"{row['node']} begins to lead {self._place(row)} in leader epoch"
            f" {row['leader_epoch']}; its log ends at {row['start_offset']}, the ISR is"
            f" {_ids(row['isr'])}"
        ), "1.3"

    def _became_follower(self, row: Row) -> Said:
        whom = f"broker-{row['leader']}" if row["leader"] >= 0 else "nobody"
        return (
            f"{row['node']} begins to follow {whom} in {self._place(row)}, leader epoch"
            f" {row['leader_epoch']}; its log ends at {row['log_end_offset']}"
        ), "1.3"

    def _partition_changed(self, row: Row) -> Said:
        key = (row["topic_id"], row["partition"])
        before = self.facts.last(
            ["PartitionChanged"], key, before=row["seq"],
            where=lambda other: bool(other["partition_epoch"] < row["partition_epoch"]),
        )  # fmt: skip
        place, zookeeper = self._place(row), self.facts.zookeeper
        if before is None:
            return f"{place} is created: leader {row['leader']}, ISR {_ids(row['isr'])}", "1.8"
        parts, rule = [], "1.5"
        if row["leader"] != before["leader"]:
            rule = "1.8"
            parts.append(_election(row, before, place, zookeeper))
        left = [broker for broker in before["isr"] if broker not in row["isr"]]
        joined = [broker for broker in row["isr"] if broker not in before["isr"]]
        if left and not row["unclean"]:
            why = reasons.left_isr(row["reason"], zookeeper)
            parts.append(f"{_brokers(left)} out of the ISR of {place} ({why})")
        if joined and not row["unclean"]:
            parts.append(f"{_brokers(joined)} into the ISR of {place} ({row['reason']})")
        text = "; ".join(parts) or f"{place} changes ({row['reason']})"
        return f"{text}; the ISR is now {_ids(row['isr'])}", rule

    def _isr_proposed(self, row: Row) -> Said:
        verb = "without" if row["change"] == "shrink" else "with"
        return (
            f"{row['node']} proposes an ISR of {self._place(row)} {verb} {_ids(row['replica_ids'])}"
        ), "1.5"

    def _broker_heartbeat(self, row: Row) -> Said:
        wants = " and asks to be fenced" if row["want_fence"] else ""
        return f"{row['node']} receives a heartbeat from broker-{row['broker']}{wants}", "2.3"

    def _session_ended(self, row: Row) -> Said:
        return f"for {row['node']} the session of broker-{row['broker']} has ended", "2.3"

    def _isr_changed(self, row: Row) -> Said:
        return (
            f"{row['node']} learns that its {row['change']} of the ISR of {self._place(row)} by"
            f" {_ids(row['replica_ids'])} succeeded: {_ids(row['isr'])}"
        ), "1.6"

    def _isr_update_failed(self, row: Row) -> Said:
        zookeeper = self.facts.zookeeper
        why = reasons.refused(row["error"], zookeeper)
        did = "is not sent" if reasons.unsent(row["error"], zookeeper) else "is refused"
        return f"an ISR change of {self._place(row)} by {row['node']} {did}: {why}", "1.6"

    def _broker_registration(self, row: Row) -> Said:
        rule = "2.1" if self.facts.zookeeper else "2.3"
        if row["change"] == "registered":
            return f"broker-{row['broker']} registers, broker epoch {row['broker_epoch']}", rule
        if row["change"] == "fenced":
            before = self.facts.last(
                ["BrokerRegistration"], broker=row["broker"], before=row["seq"]
            )
            if before is not None and before["shutting_down"]:
                return f"broker-{row['broker']} has shut down: the controller fences it", rule
            gone = "sees that its session is over" if self.facts.zookeeper else "fences it"
            return f"the controller hears nothing from broker-{row['broker']} and {gone}", rule
        return f"for the controller broker-{row['broker']} is {row['change']}", rule

    def _broker_state(self, row: Row) -> Said:
        return f"{row['node']} is {row['state']}", "2.3"

    def _controller_active(self, row: Row) -> Said:
        verb = "becomes" if row["active"] else "ceases to be"
        rule = "2.1" if self.facts.zookeeper else "2.3"
        return f"{row['node']} {verb} the active controller, epoch {row['epoch']}", rule

    def _raft_role(self, row: Row) -> Said:
        text = f"{row['node']} is {row['role']} of the metadata quorum in epoch {row['epoch']}"
        return text + (f", leader {row['leader']}" if row["leader"] >= 0 else ""), "2.2"

    def _metadata_committed(self, row: Row) -> Said:
        digest = f"{row['digest'] & 0xFFFFFFFF:08x}"
        return (
            f"{row['node']} applies the metadata log up to offset {row['offset']} of epoch"
            f" {row['epoch']} (digest {digest})"
        ), "2.2"

    def _voters_changed(self, row: Row) -> Said:
        return f"{row['node']} uses the voters {_ids(row['voters'])}", "2.2"

    def _zk_controller_write(self, row: Row) -> Said:
        return (
            f"{row['node']}, controller of epoch {row['controller_epoch']}, writes {row['path']}"
            f" at zxid {row['offset']}"
        ), "2.1"

    def _control_request(self, row: Row) -> Said:
        did = "executes" if row["error"] == "NONE" else f"refuses ({row['error']})"
        return (
            f"{row['node']} {did} {row['api']} of controller broker-{row['controller']}, epoch"
            f" {row['controller_epoch']}"
        ), "2.1"

    def _zoo_keeper_session(self, row: Row) -> Said:
        return f"ZooKeeper: the session of {row['client']} is {row['event']}", "2.1"

    # Producers.

    def _key_sent(self, row: Row) -> Said:
        sent = record(row["record_id"])
        return f"the application at {row['node']} sends {sent} with the key {row['key']}", "4.1"

    def _acked(self, row: Row) -> Said:
        acks = "all" if row["acks"] == -1 else row["acks"]
        place, base = self._place(row), row["base_offset"]
        at = f" at offset {base}" if base >= 0 else ""
        tries = f" after {row['attempts']} attempts" if row["attempts"] > 1 else ""
        records = _records(row["record_ids"])
        return (
            f"{row['node']} counts {records} as written to {place}{at}: acks={acks}{tries}",
            "1.7",
        )

    def _send_failed(self, row: Row) -> Said:
        may = "; it may be in the log" if row["indeterminate"] else ""
        records = _records(row["record_ids"])
        return f"{row['node']} gives up {records}: {row['error']}{may}", "4.1"

    # Groups and consumers.

    def _coordinator_loaded(self, row: Row) -> Said:
        verb = "coordinates" if row["loaded"] else "ceases to coordinate"
        return (
            f"{row['node']} {verb} the groups of __consumer_offsets-{row['partition']} (leader"
            f" epoch {row['leader_epoch']})"
        ), "3.1"

    def _coordinator_load_failed(self, row: Row) -> Said:
        place = f"{row['topic']}-{row['partition']}"
        why = f"at offset {row['offset']} {row['reason']}"
        return f"{row['node']} cannot load {place}, which has no coordinator now: {why}", "3.4"

    def _group_state(self, row: Row) -> Said:
        reason = f": {_member(row['reason']).rstrip(': ')}" if row["reason"] else ""
        return (
            f"group {row['group']} is {row['state']}, generation {row['generation']},"
            f" {len(row['member_ids'])} members{reason}"
        ), "3.1"

    def _group_assigned(self, row: Row) -> Said:
        owned = ", ".join(row["assignment"]) or "nothing"
        return (
            f"{row['node']} gives {_member(row['member_id'])} {owned} in generation"
            f" {row['generation']} of group {row['group']}"
        ), "3.1"

    def _offset_committed(self, row: Row) -> Said:
        if row["coordinator_epoch"] < 0:
            place = f"{row['topic']}-{row['partition']} of group {row['group']}"
            return f"{row['node']} writes offset {row['offset']} of {place} to ZooKeeper", "3.5"
        return (
            f"{row['node']} acknowledges the commit of {row['topic']}-{row['partition']} at"
            f" {row['offset']} by {_member(row['member_id']) or 'a simple consumer'}, generation"
            f" {row['generation']} of group {row['group']}"
        ), "3.1"

    def _offset_fetched(self, row: Row) -> Said:
        offset = row["offset"] if row["offset"] >= 0 else "nothing"
        return (
            f"{row['node']} answers that group {row['group']} has committed {offset} for"
            f" {row['topic']}-{row['partition']}"
        ), "3.1"

    def _positioned(self, row: Row) -> Said:
        if row["reason"] == "none":
            return f"{row['node']} gives {self._place(row)} up", "3.2"
        why = POSITIONED.get(row["reason"], row["reason"])
        return (
            f"{row['node']} will read {self._place(row)} from offset {row['offset']}: {why}",
            "3.2",
        )

    def _polled(self, row: Row) -> Said:
        offsets = row["offsets"]
        got = _offsets(offsets[0], offsets[-1] + 1) if offsets else "nothing"
        return f"{row['node']} of group {row['group']} polls {got} of {self._place(row)}", "3.2"

    def _processed(self, row: Row) -> Said:
        offsets = _offsets(row["base_offset"], row["offset"])
        return f"the application of {row['node']} has processed {offsets} of {self._place(row)}", ""

    def _final_results(self, row: Row) -> Said:
        count = len(row["offsets"])
        return f"at the end {row['node']} has stored {count} results of {self._place(row)}", ""

    def _consumer_assigned(self, row: Row) -> Said:
        owned = ", ".join(row["assignment"]) or "nothing"
        return f"{row['node']} now owns {owned}, generation {row['generation']}", "3.2"

    def _consumer_revoked(self, row: Row) -> Said:
        owned = ", ".join(row["assignment"]) or "nothing"
        how = "has lost" if row["lost"] else "gives back"
        return f"{row['node']} {how} {owned}, generation {row['generation']}", "3.2"

    def _partition_owner(self, row: Row) -> Said:
        place = f"{row['topic']}-{row['partition']} of group {row['group']}"
        if row["event"] == "conflict":
            return f"{row['node']} finds that {row['owner']} owns {place}", "3.5"
        did = "claims" if row["event"] == "claimed" else "deletes the owner's znode of"
        return f"{row['node']} {did} {place}", "3.5"

    def _zoo_keeper_connection(self, row: Row) -> Said:
        at = f" at {row['server']}" if row["server"] else ""
        return f"{row['node']}: session {row['session_id']} is {row['state']}{at}", "2.1"

    def _rebalance_attempt(self, row: Row) -> Said:
        return reasons.attempt(row), "3.5"

    def _commit_result(self, row: Row) -> Said:
        answer = "succeeds" if row["error"] == "NONE" else f"fails: {row['error']}"
        place = self._place(row)
        return f"the commit of {place} at {row['offset']} by {row['node']} {answer}", "3.2"


POSITIONED = {
    "committed": "the offset that its group has committed",
    "earliest": "auto.offset.reset is earliest",
    "latest": "auto.offset.reset is latest",
    "seek": "its application asked for it",
    "truncation": "the leader's log ends there in the epoch that it knew",
}
"""Where a consumer's position came from."""


def _offsets(base: int, end: int) -> str:
    return f"offset {base}" if end - base <= 1 else f"offsets {base} to {end - 1}"


def _brokers(ids: list[int]) -> str:
    return " and ".join(f"broker-{broker}" for broker in ids)


def _election(row: Row, before: Row, place: str, zookeeper: bool) -> str:
    new, old = row["leader"], before["leader"]
    why = reasons.elected(row["reason"], zookeeper, new, old)
    if new == -1:
        return f"{place} has no leader: {why}"
    text = f"broker-{new} is elected leader of {place}"
    if old >= 0:
        text += f" in place of broker-{old}"
    text += f", leader epoch {row['leader_epoch']}"
    isr, elr = _ids(before["isr"]), before["elr"]
    if row["unclean"]:
        which = f"it is not in the ISR {isr}" if before["isr"] else "the ISR is empty"
        return f"{text}, uncleanly: {which}"
    whence = f"out of the ISR {isr}" if before["isr"] else f"out of the ELR {_ids(elr)}"
    return f"{text}, {whence}" + (f": {why}" if old >= 0 else "")
