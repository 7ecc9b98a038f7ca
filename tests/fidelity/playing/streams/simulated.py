"""A schedule of Kafka Streams on the model: an ordinary run, and what its instances left behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from kafkasim.model.facts import RestoreBegan, Restored, StreamThreadState, TaskState
from kafkasim.model.streams.assignment.info import AssignmentInfo, SubscriptionInfo
from kafkasim.model.streams.state.directory import CHECKPOINT, PROCESS_FILE
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.sim.host.lifecycle import Host
from tests.fidelity.playing.clients import process_id
from tests.fidelity.playing.groups.log import Entry
from tests.fidelity.playing.groups.simulated import SimulatedGroupPlay
from tests.fidelity.playing.streams.history import StreamsHistory, partitions_of
from tests.fidelity.playing.streams.log import Batch, DataLog, Event


class SimulatedStreamsPlay(SimulatedGroupPlay):
    """One schedule on the model, with its instances of Kafka Streams."""

    def __init__(self, scenario: Scenario, variants: Sequence[str] = ()) -> None:
        super().__init__(scenario, variants)
        (self._table,) = scenario.streams
        self._hosts = {
            f"streams-{number}": self.run.cluster.world.hosts[f"streams-{number}"]
            for number in range(1, self._table.count + 1)
        }
        for number, host in enumerate(self._hosts.values(), 1):
            host.on_start.append(partial(self._give_process_id, process_id(number)))
        self._events: list[Event] = []
        self._updating: dict[tuple[str, str], tuple[str, int]] = {}
        """By node and task that restores or stands by: its changelog, and the records so far"""
        trace = self.run.trace
        trace.subscribe(StreamThreadState, self._on_thread)
        trace.subscribe(RestoreBegan, self._on_restore_began)
        trace.subscribe(Restored, self._on_restored)
        trace.subscribe(TaskState, self._on_task)

    def _give_process_id(self, identity: str, host: Host) -> None:
        path = f"{self._table.application_id}/{PROCESS_FILE}"
        if not host.disk.exists(path):
            host.disk.write(path, identity, 64)

    # ------------------------------------------------------------------------------ its events

    def _on_thread(self, _seq: int, _t: int, node: str, fact: StreamThreadState) -> None:
        self._events.append(Event(node, "state", fact.state))

    def _on_restore_began(self, _seq: int, _t: int, node: str, fact: RestoreBegan) -> None:
        place = f"{fact.topic}-{fact.partition}"
        self._updating[node, fact.task] = place, 0
        if fact.role == "active":
            numbers = fact.start_offset, fact.end_offset
            self._events.append(Event(node, "restore-began", place, numbers))
        else:
            self._events.append(Event(node, "standby-began", place, (fact.start_offset,)))

    def _on_restored(self, _seq: int, _t: int, node: str, fact: Restored) -> None:
        place, before = self._updating[node, fact.task]
        self._updating[node, fact.task] = place, before + fact.records
        if fact.role != "active":
            self._events.append(Event(node, "standby-read", place, (fact.offset,)))

    def _on_task(self, _seq: int, _t: int, node: str, fact: TaskState) -> None:
        known = self._updating.get((node, fact.task))
        ends = fact.state == "SUSPENDED" or (fact.role == "active" and fact.state == "RUNNING")
        if known is None or not ends:
            return
        del self._updating[node, fact.task]
        how = "restore-ended" if fact.state == "RUNNING" else "restore-suspended"
        kind = how if fact.role == "active" else "standby-ended"
        self._events.append(Event(node, kind, known[0], (known[1],)))

    # ------------------------------------------------------------------------ what they left

    def _told(self) -> list[str]:
        created = self.run.progress.topics
        topics = {topic_id: each.topic for topic_id, each in created.items()}
        counts = {each.topic: range(each.partitions) for each in created.values()}
        logs = {f"{t}-{n}": DataLog(self._batches(t, n)) for t, n in partitions_of(counts)}
        entries = [_with_user_data(each) for each in self._group_entries()]
        found = {node: self._checkpoints(host) for node, host in self._hosts.items()}
        return StreamsHistory(topics, logs).lines(entries, self._events, found)

    def _batches(self, topic: str, number: int) -> Iterator[Batch]:
        for batch in self._replica(topic, number).batches_from(0):
            producer = batch.producer_id if batch.transactional else -1
            marker, records = "", []
            if batch.control:
                marker = "COMMIT" if batch.records[0].value.committed else "ABORT"
            else:
                records = [self._stored(record) for record in batch.records]
            yield Batch(batch.base_offset, producer, marker, tuple(records))

    def _stored(self, record: Any) -> tuple[bytes | None, bytes | None]:
        key = record.key.encode() if isinstance(record.key, str) else record.key
        return key, self.run.cluster.clients.payloads.of(record.value).value

    def _checkpoints(self, host: Host) -> dict[str, dict[str, int] | None]:
        found: dict[str, dict[str, int] | None] = {}
        for path in host.disk.paths(f"{self._table.application_id}/"):
            _, task, *rest = path.split("/")
            if rest == [CHECKPOINT]:
                (offsets,) = host.disk.read(path)
                found[task] = {str(tp): offset for tp, offset in offsets.items()}
            elif rest:
                found.setdefault(task, None)
        return found


def _with_user_data(entry: Entry) -> Entry:
    """Return a record with what its assignors' user data say."""
    if entry.kind != "GroupMetadata" or entry.fields is None:
        return entry
    members = []
    for each in entry.fields["members"]:
        told = SubscriptionInfo.decode(each["subscription"]["userData"])
        data = each["assignmentUserData"]
        given = AssignmentInfo.decode(data) if data else None
        subscription = each["subscription"] | {"userData": told}
        members.append(each | {"subscription": subscription, "assignmentUserData": given})
    fields = entry.fields | {"members": members}
    return Entry(entry.offset, entry.epoch, entry.kind, entry.key, fields)
