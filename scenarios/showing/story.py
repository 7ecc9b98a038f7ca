"""The story of a run in Kafka's words, from the facts in its trace.

A story has faults, elections, changes of the ISR with their reason, fencing, truncations,
rebalances, transactions that a coordinator aborts, and records that a producer gave up. An event of
many partitions within a second is one line. A broker has the name of its host (``broker-2``), also
if Kafka's record has the id.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from kafkasim.model.facts.names import broker_of
from kafkasim.scenarios.showing import fault_words, reasons
from kafkasim.scenarios.showing.fault_words import STOPS, duration
from kafkasim.scenarios.showing.lines import (
    CAUSE,
    EFFECT,
    INTERNAL,
    NEWS,
    SAME_MOMENT_US,
    Gathered,
    Lines,
    records,
)
from kafkasim.scenarios.showing.state import Row, rows
from kafkasim.sim.trace.store import read_manifest


class OpenFault(NamedTuple):
    """A fault that has begun: its row, its name, what it does."""

    row: Row
    name: str
    effect: str


class Story:
    """Reads rows in order and collects the lines that they make."""

    def __init__(self, manifest: dict[str, Any]) -> None:
        spec = manifest.get("spec", {})
        self.ready_us, self._lines = int(manifest.get("ready_us", 0)), Lines()
        self._zookeeper = spec.get("cluster", {}).get("mode") == "zookeeper"
        self._faults = spec.get("faults", [])
        self._begun: dict[tuple[str, str], deque[OpenFault]] = {}
        self._struck: dict[str, int] = {}  # host: when a fault stopped it
        self._topics: dict[str, str] = {}
        self._created: dict[str, int] = {}  # resource of a config: when its topic was created
        self._partitions: dict[tuple[str, int], Row] = {}
        self._high_watermarks: dict[tuple[str, int], dict[int, int]] = {}  # by leader epoch
        self._leaderless: dict[tuple[str, int], tuple[int, Gathered]] = {}  # and who led last
        self._registrations: dict[int, int] = {}
        self._leaving: dict[int, str] = {}  # brokers that shut down: why they will be fenced
        self.members: dict[str, str] = {}  # member id: its host
        self._generation: dict[str, int] = {}
        self._rebalancing: dict[str, None] = {}
        self._session_zxid = self._voters_offset = -1
        self.handlers: dict[str, Callable[[Row], None]] = {
            "Phase": self._on_phase,
            "RuleActed": lambda row: self._tell(row, reasons.acted(row), CAUSE),
            "TopicCreated": self._on_topic,
            "PartitionChanged": self._on_partition,
            "HighWatermark": self._on_high_watermark,
            "BrokerRegistration": self._on_broker,
            "TopicDeleted": self._on_topic_deleted,
            "BrokerState": self._on_state,
            "ConfigChanged": self._on_config,
            "Operated": self._on_operated,
            "ControllerActive": self._on_controller,
            "VotersChanged": self._on_voters,
            "FaultStarted": self._on_fault_started,
            "FaultEnded": self._on_fault_ended,
            "ApplicationFailed": self._on_application_failed,
            "HostStopped": self._on_stopped,
            "HostStarted": self._on_started,
            "Truncated": self._on_truncated,
            "IsrUpdateFailed": self._on_isr_failed,
            "LogLoaded": self._on_loaded,
            "LogDirOffline": self._on_log_dir_offline,
            **dict.fromkeys(("CoordinatorLoaded", "TransactionsLoaded"), self._on_coordinator),
            "CoordinatorLoadFailed": self._on_load_failed,
            "GroupState": self._on_group,
            "GroupConverted": self._on_converted,
            **dict.fromkeys(("TransactionState", "TransactionEnded"), self._on_transaction),
            "RebalanceAttempt": lambda row: self._tell(row, reasons.attempt(row)),
            "SendFailed": self._on_send_failed,
            "ControlRequest": self._on_control_request,
            "ZooKeeperSession": self._on_session,
        }

    def replay(self, row: Row) -> None:
        """Take one row into account."""
        self._lines.settle(row["t_us"])
        self.handlers[row["kind"]](row)

    def finish(self, most: int) -> list[str]:
        """Return the story's lines in order; of more than ``most`` the middle is left out."""
        for open_faults in self._begun.values():
            for fault in open_faults:
                self._tell(fault.row, f"fault begins: {fault.name}: {fault.effect}", CAUSE)
        return self._lines.finish(self.ready_us, most)

    def _tell(self, row: Row, text: str, rank: int = EFFECT) -> None:
        self._lines.tell(row["t_us"], row["seq"], text, rank)

    def _gather(self, row: Row, text: str, detail: str = "") -> Gathered:
        """Add a partition to a line, in which ``{}`` stands for all of them."""
        line = self._lines.gather(row["t_us"], row["seq"], text)
        line.add(self._name(row), detail)
        return line

    def _name(self, row: Row) -> str:
        return f"{self._topics.get(row['topic_id'], row['topic_id'])}-{row['partition']}"

    # The run, its faults, its operators.

    def _on_phase(self, row: Row) -> None:
        if row["phase"] == "ready":
            self._tell(row, "the cluster is ready, the clients start", CAUSE)
        elif row["phase"] == "liveness":
            self._tell(row, "all faults end; from here on everything must make progress", CAUSE)
        elif row["phase"] == "end":
            converged = row["reason"] == "converged"
            how = "everything has converged" if converged else f"no progress: {row['reason']}"
            self._tell(row, f"the run ends: {how}")

    def _on_fault_started(self, row: Row) -> None:
        kind, target = row["fault"], row["target"]
        numbers = fault_words.numbers_of(self._faults, kind, target)
        name, effect = fault_words.name(kind, target, numbers), fault_words.effect(kind, numbers)
        if kind in STOPS:
            self._struck |= dict.fromkeys(fault_words.sides(target)[0], int(row["t_us"]))
            self._tell(row, f"fault: {name}: {effect}", CAUSE)
        else:
            begun = self._begun.setdefault((kind, target), deque())
            begun.append(OpenFault(row, name, effect))

    def _on_fault_ended(self, row: Row) -> None:
        begun = self._begun.get((row["fault"], row["target"]))
        if not begun:
            return  # it stopped processes, whose starts are told
        fault = begun.popleft()
        lasted = row["t_us"] - fault.row["t_us"]
        if not lasted:
            self._tell(fault.row, f"fault: {fault.name}: {fault.effect}", CAUSE)
            return
        text = f"fault begins: {fault.name} for {duration(lasted)}: {fault.effect}"
        self._tell(fault.row, text, CAUSE)
        self._tell(row, f"fault ends: {fault.name}", CAUSE)

    def _on_operated(self, row: Row) -> None:
        detail = f" ({row['reason']})" if row["reason"] else ""
        answer = ": done" if row["error"] == "NONE" else f": {row['error']}"
        target = _resource(row["target"])
        self._tell(row, f"operator: {row['operation']} {target}{answer}{detail}", CAUSE)

    def _on_config(self, row: Row) -> None:
        if row["t_us"] > self.ready_us and row["t_us"] != self._created.get(row["resource"]):
            change = "is removed" if row["value"] is None else f"is set to {row['value']}"
            self._tell(row, f"{row['config']} {change} for {_resource(row['resource'])}", NEWS)

    def _on_application_failed(self, row: Row) -> None:
        raised = f"{row['exception']}: {row['reason']}" if row["reason"] else row["exception"]
        end = "; the process ends without closing its clients" if row["ended"] else ""
        frames = row["traceback"]
        place = f", at {frames[-1]}" if frames else ""
        text = f"the application of {row['node']} ({row['task']}) raised {raised}{place}{end}"
        self._tell(row, text, NEWS)

    def _on_stopped(self, row: Row) -> None:
        reason = row["reason"]
        if reason != "shutdown":
            self._leaving.pop(broker_of(row["node"]), None)
        if reason == "application-failed" or self._struck.get(row["node"]) == row["t_us"]:
            return  # the line of the application or of the fault says so
        how = reasons.STOPPED.get(reason, f"stops: {reason}")
        self._tell(row, f"{row['node']} {how}", NEWS)

    def _on_started(self, row: Row) -> None:
        if row["incarnation"] > 0:
            self._tell(row, f"{row['node']} starts again", CAUSE)

    # Controllers, brokers, topics.

    def _on_controller(self, row: Row) -> None:
        if row["t_us"] > self.ready_us:
            epoch = f"epoch {row['epoch']}"
            if row["active"]:
                text = f"{row['node']} becomes the active controller ({epoch})"
            else:
                text = f"{row['node']} resigns as controller ({epoch})"
            self._tell(row, text, NEWS)

    def _on_voters(self, row: Row) -> None:
        if row["offset"] > self._voters_offset:  # the leader is first; the others follow
            self._voters_offset = row["offset"]
            voters = ", ".join(str(voter) for voter in row["voters"])
            self._tell(row, f"the voters of the metadata quorum are now {voters}", NEWS)

    def _on_broker(self, row: Row) -> None:
        broker, change = row["broker"], row["change"]
        if row["offset"] <= self._registrations.get(broker, -1):
            return
        self._registrations[broker] = row["offset"]
        if row["t_us"] > self.ready_us:
            self._tell(row, self._standing(f"broker-{broker}", broker, change, row), NEWS)
        if change == "shutting-down":
            self._leaving[broker] = "its controlled shutdown is done"
        elif change == "fenced" and broker in self._leaving:
            self._leaving[broker] = "the session of the process that shut down is over"
        else:
            self._leaving.pop(broker, None)

    def _standing(self, host: str, broker: int, change: str, row: Row) -> str:
        """Return the line about a broker's registration."""
        if change == "registered":
            return f"{host} registers with broker epoch {row['broker_epoch']}"
        if change == "fenced":
            if self._zookeeper:
                return f"the controller sees that {host} is gone from ZooKeeper"
            why = self._leaving.get(broker, "its heartbeats are missing")
            return f"the controller fences {host}: {why}"
        if change == "shutting-down":
            return f"{host} begins a controlled shutdown; the controller moves its leaderships away"
        return {
            "unfenced": f"the controller unfences {host}: it may lead and join ISRs again",
            "unregistered": f"{host} is unregistered",
            "dir-offline": f"{host} reports a failed log directory to the controller",
            "bounced": f"the controller sees that {host} has restarted meanwhile",
        }.get(change, f"{host}: {change}")

    def _on_state(self, row: Row) -> None:
        if row["state"] == "PENDING_CONTROLLED_SHUTDOWN":  # until the controller says more
            self._leaving[broker_of(row["node"])] = "it shuts down and leads no partition"

    def _on_session(self, row: Row) -> None:
        if row["event"] == "expired" and row["zxid"] > self._session_zxid:
            self._session_zxid = row["zxid"]
            self._tell(row, f"ZooKeeper expires the session of {row['client']}", NEWS)

    def _on_control_request(self, row: Row) -> None:
        if row["error"] != "NONE":
            self._tell(
                row,
                f"{row['node']} refuses {row['api']} from controller broker-{row['controller']}"
                f" of epoch {row['controller_epoch']}: {row['error']}",
            )

    def _on_topic(self, row: Row) -> None:
        self._topics.setdefault(row["topic_id"], row["topic"])
        self._created[f"topic:{row['topic']}"] = row["t_us"]  # settings it was created with

    def _on_topic_deleted(self, row: Row) -> None:
        self._tell(row, f"topic {row['topic']} is deleted")

    # Partitions.

    def _on_partition(self, row: Row) -> None:
        key = (row["topic_id"], row["partition"])
        before = self._partitions.get(key)
        if before is not None and row["offset"] <= before["offset"]:
            return
        self._partitions[key] = row
        if before is None:
            return
        self._tell_isr(before, row)
        self._tell_reassignment(before, row)
        if row["leader"] != before["leader"]:
            self._tell_leader(before, row)

    def _tell_isr(self, before: Row, row: Row) -> None:
        if row["unclean"]:
            return  # the ISR is the new leader alone, says the election's line
        left = sorted(b for b in before["isr"] if b not in row["isr"])
        joined = sorted(b for b in row["isr"] if b not in before["isr"])
        now = f"; the ISR is now {_ids(sorted(row['isr']))}"
        if left:
            brokers = " and ".join(f"broker-{broker}" for broker in left)
            verb = "leaves" if len(left) == 1 else "leave"
            why = reasons.left_isr(row["reason"], self._zookeeper)
            self._gather(row, f"{brokers} {verb} the ISR of {{}} ({why}){{detail}}", now)
        why = "added by the reassignment" if row["reason"] == "reassignment" else "caught up"
        for broker in joined:
            self._gather(row, f"broker-{broker} joins the ISR of {{}} ({why}){{detail}}", now)

    def _tell_reassignment(self, before: Row, row: Row) -> None:
        adding, removing = row["adding_replicas"] or [], row["removing_replicas"] or []
        was = (before["adding_replicas"] or []) + (before["removing_replicas"] or [])
        if adding + removing == was:
            return
        if adding or removing:
            change = [f"adds {_ids(adding)}"] * bool(adding)
            change += [f"removes {_ids(removing)}"] * bool(removing)
            self._gather(row, f"reassignment of {{}}: {' and '.join(change)}")
        else:
            given_up = any(b not in row["replicas"] for b in before["adding_replicas"] or [])
            end = "is cancelled" if given_up else "is complete"
            text = f"reassignment of {{}} {end}: the replicas are {_ids(row['replicas'])}"
            self._gather(row, text)

    def _tell_leader(self, before: Row, row: Row) -> None:
        key = (row["topic_id"], row["partition"])
        new, old, reason = row["leader"], before["leader"], row["reason"]
        if new == -1:
            why = reasons.elected(reason, self._zookeeper, new, old)
            other = "" if self._zookeeper else " and no other replica may lead"
            self._leaderless[key] = old, self._gather(row, f"no leader for {{}}: {why}{other}")
            return
        if old == -1:
            old = self._last_leader(key, row)
        if row["unclean"]:
            isr = _ids(before["isr"])
            text = f"UNCLEAN election: broker-{new}, not in the ISR {isr}, leads {{}}{{detail}}"
            text += "; records that only the ISR had are lost"
        elif old == -1:
            text = f"broker-{new} becomes leader of {{}}{{detail}}, which had none"
        else:
            why = reasons.elected(reason, self._zookeeper, new, old)
            text = f"broker-{new} replaces broker-{old} as leader of {{}}{{detail}}: {why}"
        self._gather(row, text, f" (leader epoch {row['leader_epoch']})")

    def _last_leader(self, key: tuple[str, int], row: Row) -> int:
        """Return who led a moment ago, and do not tell that nobody led meanwhile; else -1."""
        old, line = self._leaderless.pop(key, (-1, None))
        if line is None or row["t_us"] - line.t_us > SAME_MOMENT_US:
            return -1
        line.names.remove(self._name(row))
        return old

    def _on_high_watermark(self, row: Row) -> None:
        key, epoch = (row["topic_id"], row["partition"]), row["leader_epoch"]
        known = self._high_watermarks.setdefault(key, {})
        known[epoch] = max(known.get(epoch, 0), row["high_watermark"])

    def _on_truncated(self, row: Row) -> None:
        offset, end = row["offset"], row["log_end_offset"]
        if end <= offset or self._topics.get(row["topic_id"]) in INTERNAL:
            return
        known = self._high_watermarks.get((row["topic_id"], row["partition"]), {})
        before = [hw for epoch, hw in known.items() if epoch < row["leader_epoch"]]
        committed = max(0, min(end, max(before, default=0)) - offset)
        cut = end - offset
        if cut == 1:
            how_many = "which had been committed" if committed else "which had not been committed"
        else:
            share = {0: "none", cut: "all"}.get(committed, str(committed))
            how_many = f"{share} of them had been committed"
        text = f"{row['node']} truncates {self._name(row)} from offset {end} to {offset}"
        self._tell(row, f"{text}: {records(cut)} cut, {how_many}")

    def _on_isr_failed(self, row: Row) -> None:
        why = reasons.refused(row["error"], self._zookeeper)
        if reasons.unsent(row["error"], self._zookeeper):
            did = f"{row['node']} does not send an ISR change"
        else:
            whom = "ZooKeeper" if row["error"] == "OPERATION_NOT_ATTEMPTED" else "the controller"
            did = f"{whom} refuses an ISR change by {row['node']}"
        self._gather(row, f"{did} for {{}}: {why}")

    def _on_loaded(self, row: Row) -> None:
        if not row["clean"] and row["t_us"] > self.ready_us:
            self._gather(row, f"{row['node']} recovers the logs of {{}} after an unclean stop")

    def _on_log_dir_offline(self, row: Row) -> None:
        self._tell(
            row, f"{row['node']} takes log directory {row['directory']} offline: {row['reason']}"
        )

    # Groups and producers.

    def _on_coordinator(self, row: Row) -> None:
        topic, of = {
            "CoordinatorLoaded": ("__consumer_offsets", "group"),
            "TransactionsLoaded": ("__transaction_state", "transaction"),
        }[row["kind"]]
        if row["t_us"] > self.ready_us and row["loaded"]:
            named = {**row, "topic_id": topic}
            self._gather(named, f"{row['node']} is now {of} coordinator for {{}}")

    def _on_load_failed(self, row: Row) -> None:
        place = f"{row['topic']}-{row['partition']}"
        why = f"at offset {row['offset']} {row['reason']}"
        self._tell(row, f"{row['node']} cannot load {place}, which has no coordinator now: {why}")

    def _on_transaction(self, row: Row) -> None:
        if text := reasons.transaction(row):
            self._tell(row, text)

    def _on_group(self, row: Row) -> None:
        group, generation = row["group"], row["generation"]
        if row["state"] == "PreparingRebalance":
            if group not in self._rebalancing:
                self._rebalancing[group] = None
                self._tell(row, f"group {group} rebalances: {_short(row['reason']).rstrip(': ')}")
        elif generation > self._generation.get(group, 0):
            self._generation[group] = generation
            self._rebalancing.pop(group, None)
            members = sorted(self.members.get(each) or _short(each) for each in row["member_ids"])
            with_whom = f"members {fault_words.listing(members)}" if members else "no members"
            self._tell(row, f"group {group}: generation {generation}, {with_whom}")

    def _on_converted(self, row: Row) -> None:
        self._tell(row, f"group {row['group']} becomes a {row['protocol']} group, with its members")

    def _on_send_failed(self, row: Row) -> None:
        may = "may have been appended" if row["indeterminate"] else "not appended"
        text = f"{{}} failed to send {{records}} of {self._name(row)}: {row['error']}, {may}"
        line = self._lines.gather(row["t_us"], row["seq"], text, fault_words.listing)
        line.records += len(row["record_ids"])
        line.add(row["node"], "")


def _ids(brokers: Iterable[int]) -> str:
    """Return broker ids as Kafka's tools print them."""
    return ",".join(str(broker) for broker in brokers) or "empty"


def _resource(name: str) -> str:
    """Return the resource of a setting in words: topic, broker or all brokers."""
    kind, colon, of = name.partition(":")
    if not colon:
        return name
    if kind == "broker":
        return f"broker-{of}" if of else "all brokers"
    return f"{kind} {of}"


def _short(text: str) -> str:
    """Return a text with client ids in place of member ids: the client id and a random suffix."""
    return re.sub(r"(?<=\w)-[0-9a-f]{16}\b", "", text)


def tell(directory: Path, most: int) -> list[str]:
    """Return the story of a stored run, at most ``most`` lines and one that says what is left out.

    Raises:
        ManifestError: there is no whole run in the directory.
    """
    story = Story(read_manifest(directory))
    assigned = rows(directory, ["ConsumerAssigned"])
    story.members = {row["member_id"]: row["node"] for row in assigned}
    for row in rows(directory, list(story.handlers)):
        story.replay(row)
    return story.finish(most)
