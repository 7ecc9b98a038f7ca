"""The normal form: what an application of Kafka Streams did, as text that two runs share.

- The group's log is told as for consumers (``groups/history.py``), with what the assignors wrote
  into it: the tasks of which a thread has state, and those that the leader gave it.
- Each instance has the states of its thread, a line a life, and for each changelog what was
  restored and what a standby read. Instances have one thread. Whether it is RUNNING between two
  assignments without a revocation is a race.
- Each changelog has its records in order, each other partition its records sorted: the tasks that
  write to it are not in step. Aborted ones, and those of transactions under way, stand apart.
- Each disk has the checkpoint of each task that has state there.

Without times and process ids. An offset is how many records are before it: how many markers of
transactions there are is a race.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafkasim.model.streams.assignment.info import AssignmentInfo, SubscriptionInfo
from kafkasim.model.streams.state.directory import OFFSET_UNKNOWN
from tests.fidelity.playing.groups.history import GroupHistory
from tests.fidelity.playing.groups.log import Entry
from tests.fidelity.playing.streams.log import DataLog, Event
from tests.fidelity.playing.told import Told

ASSIGNED = "PARTITIONS_ASSIGNED"
INSTANCES, DISKS, CHANGELOGS, OTHERS = range(4)
RUNNING, UNKNOWN = -2, -3
"""Sums of offsets: of an active task that runs, and of a task whose offsets nobody knows."""

Checkpoints = Mapping[str, Mapping[str, int] | None]
"""By task with state: its checkpoint by changelog partition, None without a file"""


class StreamsHistory:
    """Reads what an application left behind; a task has at most one changelog partition."""

    def __init__(self, topics: Mapping[str, str], logs: Mapping[str, DataLog]) -> None:
        """``topics`` is id to name, ``logs`` the partitions by topic-number."""
        self._topics = topics
        self._logs = logs
        self._told = Told()
        self._open: dict[tuple[str, str], str] = {}  # by node and changelog: a line not yet told
        self._read: dict[tuple[str, str], int] = {}  # by node and changelog: a standby's offset
        self._lives: dict[str, list[str]] = {}  # by node: the states of its present life

    def lines(
        self,
        entries: Iterable[Entry],
        events: Iterable[Event],
        checkpoints: Mapping[str, Checkpoints],
    ) -> list[str]:
        """Return the text of the group's log, of all instances, their disks, and the logs."""
        for event in events:
            self._take(event)
        for node, place in list(self._open):
            self._end(node, place, "")
        for node in list(self._lives):
            self._end_life(node)
        for node, tasks in checkpoints.items():
            for task, found in tasks.items():
                self._told.say(DISKS, f"{node} {task}", f": {self._checkpoint(found)}")
        for place, log in self._logs.items():
            self._say_log(place, log)
        return [*self._group(entries), *self._told.lines()]

    # ------------------------------------------------------------------------------- the group

    def _group(self, entries: Iterable[Entry]) -> list[str]:
        ends = {}
        for place, log in self._logs.items():
            topic, _, number = place.rpartition("-")
            ends[topic, int(number)] = len(log.committed)
        return GroupHistory(self._topics, ends).lines([self._plain(each) for each in entries])

    def _plain(self, entry: Entry) -> Entry:
        """Return a record without times, and with user data as text."""
        fields = entry.fields
        if fields is not None and entry.kind == "OffsetCommit":
            fields = fields | {"metadata": ""}  # the partition's time
        elif fields is not None and entry.kind == "GroupMetadata":
            fields = fields | {"members": [self._member(each) for each in fields["members"]]}
        return Entry(entry.offset, entry.epoch, entry.kind, entry.key, fields)

    def _member(self, member: dict[str, Any]) -> dict[str, Any]:
        told, given = member["subscription"]["userData"], member["assignmentUserData"]
        return member | {
            "subscription": member["subscription"] | {"userData": self._sums(told)},
            "assignmentUserData": "" if given is None else _given(given),
        }

    def _sums(self, info: SubscriptionInfo) -> str:
        told = []
        for task, offset in sorted(info.offset_sums.items()):
            what = {RUNNING: "running", UNKNOWN: "unknown"}.get(offset)
            told.append(f"{task} {self._fold_task(str(task), offset) if what is None else what}")
        if info.error:
            told.append(info.error.name)
        return ", ".join(told) or "nothing"

    def _fold_task(self, task: str, offset: int) -> int:
        number = task.partition("_")[2]
        (log,) = [
            log for place, log in self._logs.items() if place.endswith(f"-changelog-{number}")
        ]
        return log.fold(offset)

    # --------------------------------------------------------------------------- the instances

    def _take(self, event: Event) -> None:
        node, place, key = event.node, event.place, (event.node, event.place)
        if event.kind == "state":
            self._state(node, place)
        elif event.kind == "error":
            self._told.say(INSTANCES, node, f": {place}")
        elif event.kind == "restore-began":
            self._end(node, place, "")
            start, end = [self._logs[place].fold(offset) for offset in event.numbers]
            self._open[key] = f"restores {start} to {end}"
        elif event.kind == "standby-began":
            self._end(node, place, "")
            self._read[key] = start = self._logs[place].fold(event.numbers[0])
            self._open[key] = f"stands by from {start}"
        elif event.kind == "standby-read":
            self._read[key] = self._logs[place].fold(event.numbers[0])
        elif event.kind == "standby-ended":
            self._end(node, place, ", ended")
        else:
            self._end(node, place, f", {event.kind.partition('-')[2]} after {event.numbers[0]}")

    def _state(self, node: str, state: str) -> None:
        if state == "STARTING":
            for at, place in list(self._open):
                if at == node:
                    self._end(node, place, "")  # the life before was killed
            self._end_life(node)
        states = self._lives.setdefault(node, [])
        if state == ASSIGNED and states[-2:] == [ASSIGNED, "RUNNING"]:
            states.pop()
        if states[-1:] != [state]:
            states.append(state)

    def _end_life(self, node: str) -> None:
        states = self._lives.pop(node, [])
        if states:
            self._told.say(INSTANCES, node, f": {', '.join(states)}")

    def _end(self, node: str, place: str, how: str) -> None:
        line, read = self._open.pop((node, place), None), self._read.pop((node, place), None)
        if line is not None:
            line += "" if read is None else f" to {read}"
            self._told.say(INSTANCES, f"{node} {place}", f": {line}{how}")

    # ------------------------------------------------------------------- the disks and the logs

    def _checkpoint(self, found: Mapping[str, int] | None) -> str:
        if found is None:
            return "no checkpoint"
        told = [
            f"{place} {'unknown' if at == OFFSET_UNKNOWN else self._logs[place].fold(at + 1)}"
            for place, at in found.items()
        ]
        return f"checkpoint {', '.join(told) or 'without offsets'}"

    def _say_log(self, place: str, log: DataLog) -> None:
        under_way = [record for records in log.open.values() for record in records]
        in_order = "-changelog-" in place
        kind = CHANGELOGS if in_order else OTHERS
        for what, records in (("", log.committed), ("aborted ", log.aborted),
                              ("under way ", under_way)):  # fmt: skip
            told = [_record(*record) for record in records]
            if told:
                told = told if in_order else sorted(told)
                self._told.say(kind, place, f": {what}{' '.join(told)}")


def _record(key: bytes | None, data: bytes | None) -> str:
    """Return a count by its key: of a changelog it stands behind its time."""
    name = "" if key is None else key.decode()
    counted = data is not None and len(data) in (8, 16)
    return f"{name}={int.from_bytes(data[-8:], 'big')}" if counted and data else name


def _given(info: AssignmentInfo) -> str:
    told = [("active", sorted(set(info.active))), ("standby", sorted(info.standby))]
    parts = [f"{what} {' '.join(map(str, tasks))}" for what, tasks in told if tasks]
    parts += [info.error.name] if info.error else []
    parts += {0: ["again at once"], 2**63 - 1: []}.get(info.next_rebalance_ms, ["again later"])
    return ", ".join(parts) or "nothing"


def partitions_of(counts: Mapping[str, Sequence[int]]) -> list[tuple[str, int]]:
    """Return the partitions that a history tells, of topics that are not the brokers' own."""
    return [(t, n) for t in sorted(counts) if not t.startswith("__") for n in counts[t]]
