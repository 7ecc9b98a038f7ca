"""The normal form: a metadata log as text that two runs of one schedule share.

The lines of one partition, broker, topic and so on stand in the order of the log. Different ones
are apart, since Kafka changes them independently. There are no times, offsets or ids, and epochs
count from the start of the schedule. Who wins an election of the quorum, and in which epoch, is a
race; what remains is whether the leader before was elected again.

A line of a partition shows every field of its record, also one that equals the state before::

    orders-0 +1/+3: isr 1,3; leader 3

means: a PartitionChangeRecord with ISR and leader, after which the leader epoch is one and the
partition epoch three above those at the start.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.fidelity.playing.metadata_log import Entry
from tests.fidelity.playing.told import Told

LEFT_OUT = {
    "NoOpRecord": "one every half second of an idle log",
    "RegisterControllerRecord": "the model's controllers do not register with each other",
    "BeginTransactionRecord": "of the bootstrap records, which the model writes as one batch",
    "EndTransactionRecord": "as BeginTransactionRecord",
    "ProducerIdsRecord": "which broker asks for a block depends on the clients",
}
"""Records that are no part of a history, with the reason."""

RECOVERY = {0: "recovered", 1: "recovering"}


class _Partition:
    """The epochs of one partition, and those that it had when the schedule began."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.replicas: list[int] = fields["replicas"]
        self.isr: list[int] = fields["isr"]
        self.leader: int = fields["leader"]
        self.leader_epoch: int = fields["leaderEpoch"]
        self.partition_epoch: int = fields["partitionEpoch"]
        self.first = (self.leader_epoch, self.partition_epoch)

    def change(self, fields: dict[str, Any]) -> None:
        """Follow a PartitionChangeRecord (PartitionRegistration.merge)."""
        self.replicas = _given(fields, "replicas", self.replicas)
        self.isr = _given(fields, "isr", self.isr)
        if fields["leader"] != -2:
            self.leader = fields["leader"]
            self.leader_epoch += 1
        self.partition_epoch += 1

    def begin(self) -> str:
        """Take the present state as the first one, and return it as text."""
        self.first = (self.leader_epoch, self.partition_epoch)
        return _fields({"replicas": self.replicas, "isr": self.isr, "leader": self.leader})

    @property
    def epochs(self) -> str:
        """The epochs since the start."""
        leader, partition = self.first
        return f"+{self.leader_epoch - leader}/+{self.partition_epoch - partition}"


class History:
    """Reads a metadata log from its beginning; keeps text of what follows the start."""

    def __init__(self, start: int) -> None:
        """``start`` is the offset at which the schedule begins."""
        self._start = start
        self._started = False
        self._told = Told()
        self._topics: dict[str, str] = {}  # id -> name
        self._partitions: dict[tuple[str, int], _Partition] = {}
        self._brokers: dict[int, tuple[int, str, str]] = {}  # -> epoch, incarnation, state
        self._leader = -1  # of the quorum

    def lines(self, entries: Iterable[Entry]) -> list[str]:
        """Return the text of a log."""
        for entry in entries:
            if not self._started and entry.offset >= self._start:
                self._begin()
            if entry.kind not in LEFT_OUT:
                getattr(self, f"_{_snake(entry.kind)}")(entry)
        if not self._started:
            self._begin()
        return self._told.lines()

    def _begin(self) -> None:
        self._started = True
        for broker, (_, _, state) in self._brokers.items():
            self._say(1, f"broker {broker}", f": {state} at the start")
        for (topic_id, number), partition in self._partitions.items():
            self._say(
                4, f"{self._topics[topic_id]}-{number}", f" at the start: {partition.begin()}"
            )

    def _say(self, kind: int, subject: str, line: str) -> None:
        if self._started:
            self._told.say(kind, subject, line)

    # -------------------------------------------------------------------------- record by record

    def _leader_change(self, entry: Entry) -> None:
        before, self._leader = self._leader, entry.fields["leaderId"]
        whose = "the same leader again" if self._leader == before else "another leader"
        self._say(0, "quorum", f": {whose}")

    def _voters(self, entry: Entry) -> None:
        self._say(0, "quorum", ": other voters")

    def _register_broker_record(self, entry: Entry) -> None:
        broker, incarnation = entry.fields["brokerId"], entry.fields["incarnationId"]
        known = self._brokers.get(broker)
        whose = "same process" if known and known[1] == incarnation else "new process"
        state = "fenced" if entry.fields["fenced"] else "unfenced"
        if entry.fields["inControlledShutdown"]:
            state += ", in controlled shutdown"
        epoch = entry.fields["brokerEpoch"]
        self._brokers[broker] = (entry.offset if epoch < 0 else epoch, incarnation, state)
        self._say(1, f"broker {broker}", f": registers ({whose}), {state}")

    def _unregister_broker_record(self, entry: Entry) -> None:
        broker = entry.fields["brokerId"]
        self._brokers.pop(broker, None)
        self._say(1, f"broker {broker}", ": unregistered")

    def _broker_registration_change_record(self, entry: Entry) -> None:
        fields = entry.fields
        broker = fields["brokerId"]
        epoch, incarnation, state = self._brokers[broker]
        told = []
        if fields["fenced"]:
            state = "fenced" if fields["fenced"] > 0 else "unfenced"
            told.append(state)
        if fields["inControlledShutdown"]:
            told.append("in controlled shutdown")
        if fields["logDirs"]:
            told.append(f"{len(fields['logDirs'])} log directories online")
        if fields["brokerEpoch"] != epoch:
            told.append("of another registration")
        self._brokers[broker] = (epoch, incarnation, state)
        self._say(1, f"broker {broker}", f": {', '.join(told) or 'no change'}")

    def _topic_record(self, entry: Entry) -> None:
        self._topics[entry.fields["topicId"]] = entry.fields["name"]
        self._say(3, f"topic {entry.fields['name']}", ": created")

    def _remove_topic_record(self, entry: Entry) -> None:
        topic_id = entry.fields["topicId"]
        name = self._topics[topic_id]
        for key in [key for key in self._partitions if key[0] == topic_id]:
            self._say(4, f"{name}-{key[1]}", ": removed")
            del self._partitions[key]
        self._say(3, f"topic {name}", ": removed")

    def _partition_record(self, entry: Entry) -> None:
        fields = entry.fields
        partition = _Partition(fields)
        self._partitions[fields["topicId"], fields["partitionId"]] = partition
        name = f"{self._topics[fields['topicId']]}-{fields['partitionId']}"
        wanted = {key: found for key, found in fields.items() if found or key == "leader"}
        state = "" if not fields["leaderRecoveryState"] else "; recovering"
        self._say(
            4, name, f" created at epochs {partition.first[0]}/{partition.first[1]}:"
            f" {_fields(wanted)}{state}"
        )  # fmt: skip

    def _partition_change_record(self, entry: Entry) -> None:
        fields = entry.fields
        partition = self._partitions[fields["topicId"], fields["partitionId"]]
        partition.change(fields)
        name = f"{self._topics[fields['topicId']]}-{fields['partitionId']}"
        self._say(4, name, f" {partition.epochs}: {_fields(fields)}")

    def _clear_elr_record(self, entry: Entry) -> None:
        topic = entry.fields["topicName"]
        for topic_id, number in self._partitions:
            if topic in ("", self._topics[topic_id]):
                self._say(4, f"{self._topics[topic_id]}-{number}", ": ELR cleared")

    def _config_record(self, entry: Entry) -> None:
        fields = entry.fields
        resource = {2: "topic", 4: "broker", 8: "broker logger"}[fields["resourceType"]]
        subject = f"{resource} {fields['resourceName'] or 'default'}"
        told = "default" if fields["value"] is None else fields["value"]
        self._say(2, f"config of {subject}", f": {fields['name']} = {told}")

    def _feature_level_record(self, entry: Entry) -> None:
        self._say(2, "feature", f": {entry.fields['name']} = {entry.fields['featureLevel']}")


NAMES = {
    "replicas": "replicas",
    "isr": "isr",
    "leader": "leader",
    "addingReplicas": "adding",
    "removingReplicas": "removing",
    "eligibleLeaderReplicas": "elr",
    "lastKnownElr": "last known elr",
}


def _fields(fields: dict[str, Any]) -> str:
    """Return the fields that a record gives, in a fixed order."""
    told = []
    for key, name in NAMES.items():
        found = fields.get(key)
        if key == "leader":
            if found is not None and found != -2:
                told.append(f"leader {'none' if found == -1 else found}")
        elif found is not None:
            told.append(f"{name} {','.join(map(str, found)) or 'empty'}")
    if fields.get("leaderRecoveryState", -1) != -1 and "leaderEpoch" not in fields:
        told.append(RECOVERY[fields["leaderRecoveryState"]])
    return "; ".join(told) or "no field"


def _given(fields: dict[str, Any], key: str, before: list[int]) -> list[int]:
    found: list[int] | None = fields.get(key)
    return before if found is None else found


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(name))
