"""The state of a cluster at a moment, rebuilt from the trace of a run.

The facts have the controller's partitions and registrations, the high watermarks of leaders, the
groups of coordinators, and the role of each voter. Like any reader of the trace, this counts a
metadata offset once, because a new controller repeats the records that its predecessor committed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kafkasim.analysis.figures.tasks import Applications
from kafkasim.sim.trace.reading import Row, rows

Key = tuple[str, int]  # topic id, partition

ASSIGNMENT = ("offset", "replicas", "adding_replicas", "removing_replicas")
"""What a PartitionChanged says anew if a ZooKeeper controller wrote the assignment alone."""


@dataclass
class LeaderView:
    """The leader of a partition by its own facts: leader epoch, node, high watermark."""

    leader_epoch: int = -1
    node: str = ""
    high_watermark: int = 0


@dataclass
class GroupView:
    """A consumer group as its coordinator has it."""

    coordinator: str = ""
    state: str = ""
    generation: int = -1
    protocol: str = ""
    member_ids: list[str] = field(default_factory=list)
    assignments: dict[str, list[str]] = field(default_factory=dict)  # member -> topic-partition
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)  # (topic, partition)


class AclView:
    """The access control entries, as AclChanged by id."""

    def __init__(self) -> None:
        self.entries: dict[str, Row] = {}
        self._offset = -1  # of the last change

    def on_changed(self, row: Row) -> None:
        """Take a change into account, once (AclChanged)."""
        if row["offset"] <= self._offset:
            return
        self._offset = row["offset"]
        if row["added"]:
            self.entries[row["id"]] = row
        else:
            del self.entries[row["id"]]


NOBODY: Mapping[int, str] = {}

ONLY_STREAM = 0
"""An old consumer has one stream for each topic, so one thread owns all its partitions."""


@dataclass
class OldGroup:
    """A group of old consumers: what is below ``/consumers/GROUP`` in ZooKeeper.

    ``topics`` are those with a partition that was owned.
    """

    topics: dict[str, None] = field(default_factory=dict)
    # Both by (topic, partition).
    owners: dict[tuple[str, int], tuple[str, int]] = field(default_factory=dict)  # thread, session
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)


class OldGroups:
    """Follows the groups in ZooKeeper, by name.

    A claim is told when ZooKeeper has confirmed it, and a release when it is sent. The znodes of
    owners are ephemeral: they go with the session that wrote them, also when its process died long
    before.
    """

    def __init__(self) -> None:
        self.groups: dict[str, OldGroup] = {}
        self._sessions: dict[str, int] = {}  # host -> its session, as it knows it
        self.handlers = {
            "PartitionOwner": self.on_owner,
            "ZooKeeperConnection": self.on_connection,
            "ZooKeeperSession": self.on_session,
        }

    def on_connection(self, row: Row) -> None:
        """Take note of a host's session (ZooKeeperConnection)."""
        if row["state"] == "CONNECTED":
            self._sessions[row["node"]] = row["session_id"]

    def on_session(self, row: Row) -> None:
        """Delete the znodes of a session that has ended (ZooKeeperSession)."""
        if row["event"] in ("expired", "closed"):
            for group in self.groups.values():
                for place in [
                    place
                    for place, (_, session) in group.owners.items()
                    if session == row["session_id"]
                ]:
                    del group.owners[place]

    def on_owner(self, row: Row) -> None:
        """Take a claim or a release into account (PartitionOwner)."""
        group = self.groups.setdefault(row["group"], OldGroup())
        place = (row["topic"], row["partition"])
        group.topics[row["topic"]] = None
        if row["event"] == "claimed":
            thread = f"{row['member_id']}-{ONLY_STREAM}"  # ConsumerThreadId
            group.owners[place] = (thread, self._sessions.get(row["node"], -1))
        elif row["event"] == "released":
            group.owners.pop(place, None)

    def on_committed(self, row: Row) -> None:
        """Take a commit into account (OffsetCommitted without a coordinator)."""
        group = self.groups.setdefault(row["group"], OldGroup())
        group.offsets[row["topic"], row["partition"]] = row["offset"]


class ClusterState:
    """The state that ``kafkasim describe`` prints, at ``at_us`` µs of the trace."""

    log_sizes: Mapping[tuple[str, Key], int] = MappingProxyType({})
    """Bytes by node and partition; no fact tells them, who repeats the run does"""

    def __init__(
        self, manifest: Mapping[str, Any], at_us: int, controllers: Mapping[int, str] = NOBODY
    ) -> None:
        self.manifest = manifest
        self.controllers = controllers  # node id -> host, as the scenario has them
        self.at_us = at_us
        self.topics: dict[str, Row] = {}  # topic id -> TopicCreated
        self.partitions: dict[Key, Row] = {}  # the newest PartitionChanged
        self.brokers: dict[int, Row] = {}  # the newest BrokerRegistration
        self.processes: dict[str, str] = {}  # node -> running, paused, crash, …
        self.leaders: dict[Key, LeaderView] = {}
        self.groups: dict[str, GroupView] = {}
        self.old_groups, self.applications = OldGroups(), Applications()
        self.member_nodes: dict[str, str] = {}
        self.raft: dict[str, Row] = {}  # node -> the newest RaftRole
        self.voters: dict[str, list[int]] = {}  # node -> the voters it goes by, where they changed
        self.directories: dict[int, str] = {}  # voter -> directory id, where a record names it
        self.ensemble: dict[str, Row] = {}  # node -> the newest ZooKeeperRole
        self.applied: dict[str, Row] = {}  # node -> the newest MetadataCommitted
        self.active: tuple[int, str] = (-1, "")
        self.configs: dict[str, dict[str, str]] = {}  # topic -> its own settings
        self.acls = AclView()
        self.commits: list[tuple[int, int]] = []  # (metadata offset, when it was first committed)
        self.log_ends: dict[tuple[str, Key], int] = {}  # (node, partition) -> log end offset
        self.placed: dict[str, dict[Key, str]] = {}  # node -> log directories of its replicas
        self.offline_dirs: dict[str, dict[str, str]] = {}  # node -> log directory -> reason
        self._handlers: dict[str, Callable[[Row], None]] = {
            "HostStarted": self._on_host_started,
            "HostStopped": self._on_host_stopped,
            "HostPaused": self._on_host_paused,
            "HostResumed": self._on_host_resumed,
            "TopicCreated": self._on_topic_created,
            "TopicDeleted": self._on_topic_deleted,
            "ConfigChanged": self._on_config_changed,
            "AclChanged": self.acls.on_changed,
            "PartitionChanged": self._on_partition_changed,
            "BrokerRegistration": self._on_broker_registration,
            "RaftRole": self._on_raft_role,
            "VotersChanged": self._on_voters_changed,
            "ZooKeeperRole": self._on_zookeeper_role,
            "MetadataCommitted": self._on_metadata_committed,
            "ControllerActive": self._on_controller_active,
            "BecameLeader": self._exposed,
            "HighWatermark": self._exposed,
            "GroupState": self._on_group_state,
            "GroupAssigned": self._on_group_assigned,
            "OffsetCommitted": self._on_offset_committed,
            "ConsumerAssigned": self._on_consumer_assigned,
            **(self.old_groups.handlers | self.applications.handlers),
        }

    def follow_logs(self) -> None:
        """Follow the log of every replica, too; it takes longer, and only log-dirs needs it."""
        for kind in ("Appended", "Replicated"):
            self._handlers[kind] = self._on_log_grown
        for kind in ("LogLoaded", "Truncated", "LogDeleted"):
            self._handlers[kind] = self._on_log_cut
        self._handlers["LogPlaced"] = self._on_log_placed
        self._handlers["LogDirOffline"] = self._on_log_dir_offline

    def kinds(self) -> list[str]:
        """Return the kinds of facts that :meth:`replay` takes."""
        return list(self._handlers)

    def replay(self, row: Row) -> None:
        """Take one row of the trace into account."""
        self._handlers[row["kind"]](row)

    def alive(self, broker: int) -> bool:
        """Return whether the controller considers a broker alive: registered and unfenced."""
        known = self.brokers.get(broker)
        return known is not None and not known["fenced"] and known["change"] != "unregistered"

    # The world.

    def _on_host_started(self, row: Row) -> None:
        self.processes[row["node"]] = "running"
        self.placed.pop(row["node"], None)
        self.offline_dirs.pop(row["node"], None)

    def _on_host_stopped(self, row: Row) -> None:
        self.processes[row["node"]] = f"down ({row['reason']})"
        self.applications.on_host_stopped(row)

    def _on_host_paused(self, row: Row) -> None:
        self.processes[row["node"]] = "paused"

    def _on_host_resumed(self, row: Row) -> None:
        self.processes[row["node"]] = "running"

    # The metadata.

    def _on_topic_created(self, row: Row) -> None:
        self.topics.setdefault(row["topic_id"], row)

    def _on_topic_deleted(self, row: Row) -> None:
        created = self.topics.pop(row["topic_id"], None)
        if created is not None:
            self.configs.pop(created["topic"], None)
        for key in [key for key in self.partitions if key[0] == row["topic_id"]]:
            del self.partitions[key]
            self.leaders.pop(key, None)

    def _on_config_changed(self, row: Row) -> None:
        kind, _, name = row["resource"].partition(":")
        if kind == "topic":
            entries = self.configs.setdefault(name, {})
            if row["value"] is None:
                entries.pop(row["config"], None)
            else:
                entries[row["config"]] = row["value"]

    def min_isr(self, created: Row) -> int:
        """Return a topic's min.insync.replicas."""
        own = self.configs.get(created["topic"], {}).get("min.insync.replicas")
        return int(created["min_isr"]) if own is None else int(own)

    def _on_log_grown(self, row: Row) -> None:
        self.log_ends[row["node"], (row["topic_id"], row["partition"])] = row["next_offset"]

    def _on_log_cut(self, row: Row) -> None:
        place = (row["node"], (row["topic_id"], row["partition"]))
        if row["kind"] == "LogDeleted":
            self.log_ends.pop(place, None)
        else:
            end = row["offset"] if row["kind"] == "Truncated" else row["log_end_offset"]
            self.log_ends[place] = end

    def _on_log_placed(self, row: Row) -> None:
        key = (row["topic_id"], row["partition"])
        self.placed.setdefault(row["node"], {})[key] = row["directory"]

    def _on_log_dir_offline(self, row: Row) -> None:
        self.offline_dirs.setdefault(row["node"], {})[row["directory"]] = row["reason"]

    def _on_partition_changed(self, row: Row) -> None:
        key = (row["topic_id"], row["partition"])
        known = self.partitions.get(key)
        if known is None or row["offset"] > known["offset"]:
            if known is not None and row["partition_epoch"] < known["partition_epoch"]:
                row = known | {field: row[field] for field in ASSIGNMENT}
            self.partitions[key] = row

    def _on_broker_registration(self, row: Row) -> None:
        known = self.brokers.get(row["broker"])
        if known is None or row["offset"] > known["offset"]:
            self.brokers[row["broker"]] = row

    def _on_raft_role(self, row: Row) -> None:
        self.raft[row["node"]] = row

    def _on_voters_changed(self, row: Row) -> None:
        self.voters[row["node"]] = list(row["voters"])
        for voter, directory_id in zip(row["voters"], row["directory_ids"]):
            if directory_id:
                self.directories[voter] = directory_id

    def _on_zookeeper_role(self, row: Row) -> None:
        self.ensemble[row["node"]] = row

    def _on_metadata_committed(self, row: Row) -> None:
        self.applied[row["node"]] = row
        if not self.commits or row["offset"] > self.commits[-1][0]:
            self.commits.append((row["offset"], row["t_us"]))

    def _on_controller_active(self, row: Row) -> None:
        if row["active"] and row["epoch"] >= self.active[0]:
            self.active = (row["epoch"], row["node"])

    # Leaders.

    def _exposed(self, row: Row) -> None:
        known = self.leaders.setdefault((row["topic_id"], row["partition"]), LeaderView())
        if row["leader_epoch"] >= known.leader_epoch:
            known.leader_epoch, known.node = row["leader_epoch"], row["node"]
            known.high_watermark = row["high_watermark"]

    # Groups.

    def _on_group_state(self, row: Row) -> None:
        group = self.groups.setdefault(row["group"], GroupView())
        group.coordinator, group.state = row["node"], row["state"]
        group.generation, group.protocol = row["generation"], row["protocol"]
        group.member_ids = list(row["member_ids"])

    def _on_group_assigned(self, row: Row) -> None:
        group = self.groups.setdefault(row["group"], GroupView())
        group.assignments[row["member_id"]] = list(row["assignment"])

    def _on_offset_committed(self, row: Row) -> None:
        if row["coordinator_epoch"] < 0:
            self.old_groups.on_committed(row)
            return
        group = self.groups.setdefault(row["group"], GroupView())
        group.offsets[(row["topic"], row["partition"])] = row["offset"]

    def _on_consumer_assigned(self, row: Row) -> None:
        self.member_nodes[row["member_id"]] = row["node"]


def cluster_at(
    directory: Path,
    manifest: Mapping[str, Any],
    controllers: dict[int, str],
    at_us: int,
    logs: bool,
) -> ClusterState:
    """Return the state of a stored run at a moment; ``logs`` with what each replica's log holds.

    Raises:
        ManifestError: there is no whole trace in the directory.
    """
    state = ClusterState(manifest, at_us, controllers)
    if logs:
        state.follow_logs()
    for row in rows(directory, state.kinds(), at_us):
        state.replay(row)
    return state
