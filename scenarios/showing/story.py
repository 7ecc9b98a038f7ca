"""The story of a run in Kafka's words, from the facts in its trace.

Elections, ISR changes with their reason, truncations with what they cost, fencings, rebalances and
failed sends; what happened to many partitions at once is one line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from kafkasim.scenarios.showing.state import Row, rows
from kafkasim.sim.trace.store import read_manifest

SAME_MOMENT_US = 1_000_000
INTERNAL = ("__consumer_offsets", "__transaction_state")


class Story:
    """Reads rows in order and collects what they tell."""

    def __init__(self, manifest: dict[str, Any]) -> None:
        self.ready_us = int(manifest.get("ready_us", 0))
        self.lines: list[tuple[int, int, str]] = []  # (t_us, row, text)
        self._topics: dict[str, str] = {}
        self._fresh: dict[str, int] = {}
        self._partitions: dict[tuple[str, int], Row] = {}
        self._registrations: dict[int, int] = {}
        self._generation: dict[str, int] = {}
        self._session_zxid = -1
        self._voters_offset = -1
        self._open: dict[str, tuple[int, int, list[str]]] = {}  # text -> since, row, partitions
        self._counted: dict[str, tuple[int, int, int]] = {}  # text -> since, row, records
        self.handlers: dict[str, Callable[[Row], None]] = {
            "Phase": self._on_phase,
            "TopicCreated": self._on_topic,
            "PartitionChanged": self._on_partition,
            "BrokerRegistration": self._on_broker,
            "TopicDeleted": self._on_topic_deleted,
            "ConfigChanged": self._on_config,
            "Operated": self._on_operated,
            "ControllerActive": self._on_controller,
            "VotersChanged": self._on_voters,
            "FaultStarted": self._on_fault,
            "FaultEnded": self._on_fault,
            "HostStopped": self._on_stopped,
            "HostStarted": self._on_started,
            "Truncated": self._on_truncated,
            "IsrUpdateFailed": self._on_isr_failed,
            "LogLoaded": self._on_loaded,
            "LogDirOffline": self._on_log_dir_offline,
            "CoordinatorLoaded": self._on_coordinator,
            "GroupState": self._on_group,
            "SendFailed": self._on_send_failed,
            "ControlRequest": self._on_control_request,
            "ZooKeeperSession": self._on_session,
        }

    def replay(self, row: Row) -> None:
        """Take one row into account."""
        self._settle(row["t_us"])
        self.handlers[row["kind"]](row)

    def finish(self, most: int) -> list[str]:
        """Return the story's lines, in order; of too many the middle is left out."""
        self._settle(None)
        self.lines.sort()
        shown = [f"{(t - self.ready_us) / 1e6:+9.3f}s  {text}" for t, _, text in self.lines]
        if len(shown) > most:
            left_out = f"            … {len(shown) - most} more lines …"
            return [*shown[: most * 3 // 4], left_out, *shown[-(most // 4) :]]
        return shown

    # Lines that gather what happens to many partitions or records at once.

    def _tell(self, row: Row, text: str) -> None:
        self.lines.append((row["t_us"], row["seq"], text))

    def _gather(self, row: Row, text: str) -> None:
        """Add a partition to a line; ``{}`` in the text stands for all of them."""
        _, _, names = self._open.setdefault(text, (row["t_us"], row["seq"], []))
        names.append(self._name(row))

    def _count(self, row: Row, text: str, records: int) -> None:
        since, seq, count = self._counted.get(text, (row["t_us"], row["seq"], 0))
        self._counted[text] = (since, seq, count + records)

    def _settle(self, now: int | None) -> None:
        """Close the lines that were opened longer ago than a moment."""
        for text, (since, seq, names) in list(self._open.items()):
            if now is None or now - since > SAME_MOMENT_US:
                del self._open[text]
                self.lines.append((since, seq, text.format(_partitions(names))))
        for text, (since, seq, count) in list(self._counted.items()):
            if now is None or now - since > SAME_MOMENT_US:
                del self._counted[text]
                records = f"{count} record{'s' * (count != 1)}"
                self.lines.append((since, seq, text.format(records)))

    def _name(self, row: Row) -> str:
        return f"{self._topics.get(row['topic_id'], row['topic_id'])}-{row['partition']}"

    # Facts.

    def _on_phase(self, row: Row) -> None:
        words = {"ready": "the cluster is ready", "liveness": "all faults heal; progress is due"}
        if row["phase"] == "end":
            self._tell(row, f"the run ends: {row['reason']}")
        elif row["phase"] in words:
            self._tell(row, words[row["phase"]])

    def _on_topic(self, row: Row) -> None:
        self._topics.setdefault(row["topic_id"], row["topic"])
        self._fresh[f"topic:{row['topic']}"] = row["t_us"]  # settings it was created with

    def _on_partition(self, row: Row) -> None:
        key = (row["topic_id"], row["partition"])
        before = self._partitions.get(key)
        if before is not None and row["offset"] <= before["offset"]:
            return
        self._partitions[key] = row
        if before is None:
            return
        left = [b for b in before["isr"] if b not in row["isr"]]
        joined = [b for b in row["isr"] if b not in before["isr"]]
        for broker in left:
            self._gather(row, f"broker {broker} leaves the ISR ({row['reason']}) of {{}}")
        for broker in joined:
            self._gather(row, f"broker {broker} joins the ISR ({row['reason']}) of {{}}")
        was = (before["adding_replicas"] or []) + (before["removing_replicas"] or [])
        now = (row["adding_replicas"] or []) + (row["removing_replicas"] or [])
        replicas = ",".join(str(broker) for broker in row["replicas"])
        if now != was:
            word = f"is being reassigned to {replicas}" if now else f"now has replicas {replicas}"
            self._gather(row, f"{{}} {word}")
        if row["leader"] == before["leader"]:
            return
        if row["leader"] == -1:
            self._gather(row, f"nobody leads ({row['reason']}) {{}}")
            return
        how = "UNCLEAN election" if row["unclean"] else "elected"
        old = before["leader"] if before["leader"] != -1 else "nobody"
        self._gather(row, f"broker {row['leader']} {how} after {old} ({row['reason']}) for {{}}")

    def _on_topic_deleted(self, row: Row) -> None:
        self._tell(row, f"topic {row['topic']} is deleted")

    def _on_config(self, row: Row) -> None:
        if row["t_us"] > self.ready_us and row["t_us"] != self._fresh.get(row["resource"]):
            change = "unset" if row["value"] is None else f"= {row['value']}"
            self._tell(row, f"{row['resource']}: {row['config']} {change}")

    def _on_operated(self, row: Row) -> None:
        detail = f" ({row['reason']})" if row["reason"] else ""
        word = "done" if row["error"] == "NONE" else row["error"]
        self._tell(row, f"operator: {row['operation']} {row['target']}: {word}{detail}")

    def _on_broker(self, row: Row) -> None:
        if row["offset"] <= self._registrations.get(row["broker"], -1):
            return
        self._registrations[row["broker"]] = row["offset"]
        if row["t_us"] > self.ready_us:
            self._tell(row, f"the controller: broker {row['broker']} {row['change']}")

    def _on_controller(self, row: Row) -> None:
        if row["t_us"] > self.ready_us:
            word = "is the active controller" if row["active"] else "is no longer active"
            self._tell(row, f"{row['node']} {word} (epoch {row['epoch']})")

    def _on_voters(self, row: Row) -> None:
        if row["offset"] > self._voters_offset:  # the leader is first; the others follow
            self._voters_offset = row["offset"]
            voters = ", ".join(str(voter) for voter in row["voters"])
            self._tell(row, f"{row['node']}: the voters of the metadata quorum are {voters} now")

    def _on_fault(self, row: Row) -> None:
        word = "begins" if row["kind"] == "FaultStarted" else "ends"
        self._tell(row, f"fault: {row['fault']} on {row['target']} {word}")

    def _on_stopped(self, row: Row) -> None:
        self._tell(row, f"{row['node']} stops: {row['reason']}")

    def _on_started(self, row: Row) -> None:
        if row["incarnation"] > 0:
            self._tell(row, f"{row['node']} starts again")

    def _on_truncated(self, row: Row) -> None:
        lost = row["log_end_offset"] - row["offset"]
        if lost > 0 and self._topics.get(row["topic_id"]) not in INTERNAL:
            self._tell(
                row,
                f"{row['node']} truncates {self._name(row)} from {row['log_end_offset']} to"
                f" {row['offset']} (epoch {row['leader_epoch']}): {lost} offsets cut",
            )

    def _on_isr_failed(self, row: Row) -> None:
        self._gather(row, f"{row['node']}'s AlterPartition is refused ({row['error']}) for {{}}")

    def _on_loaded(self, row: Row) -> None:
        if not row["clean"] and row["t_us"] > self.ready_us:
            self._gather(row, f"{row['node']} recovers after an unclean stop {{}}")

    def _on_log_dir_offline(self, row: Row) -> None:
        self._tell(row, f"{row['node']} loses log directory {row['directory']} ({row['reason']})")

    def _on_coordinator(self, row: Row) -> None:
        if row["t_us"] > self.ready_us and row["loaded"]:
            named = {**row, "topic_id": "__consumer_offsets"}
            self._gather(named, f"{row['node']} becomes group coordinator for {{}}")

    def _on_group(self, row: Row) -> None:
        known = self._generation.get(row["group"], 0)
        if row["generation"] > known:
            self._generation[row["group"]] = row["generation"]
            self._tell(
                row,
                f"group {row['group']}: generation {row['generation']} with"
                f" {len(row['member_ids'])} members ({row['reason']})",
            )

    def _on_control_request(self, row: Row) -> None:
        if row["error"] != "NONE":
            self._tell(
                row,
                f"{row['node']} refuses {row['api']} of controller {row['controller']} (epoch"
                f" {row['controller_epoch']}): {row['error']}",
            )

    def _on_session(self, row: Row) -> None:
        if row["event"] == "expired" and row["zxid"] > self._session_zxid:
            self._session_zxid = row["zxid"]
            self._tell(row, f"ZooKeeper: the session of {row['client']} expires")

    def _on_send_failed(self, row: Row) -> None:
        may = ", may have been appended" if row["indeterminate"] else ""
        text = f"{row['node']} gives {{}} up ({row['error']}{may})"
        self._count(row, text, len(row["record_ids"]))


def _partitions(names: Iterable[str]) -> str:
    """Return partitions in short: user topics by name, many of one topic by number."""
    topics: dict[str, list[int]] = {}
    for name in names:
        topic, _, partition = name.rpartition("-")
        topics.setdefault(topic, []).append(int(partition))
    parts = []
    for topic, partitions in topics.items():
        unique = sorted(dict.fromkeys(partitions))
        if len(unique) > 6 or topic in INTERNAL:
            parts.append(f"{topic} ({len(unique)} partition{'s' * (len(unique) != 1)})")
        else:
            parts.append(", ".join(f"{topic}-{partition}" for partition in unique))
    return ", ".join(parts)


def tell(directory: Path, most: int) -> list[str]:
    """Return the story of a stored run.

    Raises:
        ManifestError: there is no whole run in the directory.
    """
    story = Story(read_manifest(directory))
    for row in rows(directory, list(story.handlers)):
        story.replay(row)
    return story.finish(most)
