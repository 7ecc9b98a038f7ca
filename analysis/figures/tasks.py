"""The tasks of Kafka Streams: what each thread has at a moment, and ``describe RUN streams``.

A row is a TaskMetadata of KafkaStreams#metadataForLocalThreads, with the task's state and with what
KafkaStreams#allLocalStorePartitionLags says of its changelogs, summed as the leader of the group
sums offsets. An active task that runs has no lag: its store is what the changelog is made of. Which
standby is a warm-up only the leader of the group knows, who assigned it (KIP-441).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kafkasim.sim.trace.reading import Row

Changelog = tuple[str, int]  # topic, partition

GONE = "CLOSED"
"""The state in which a task leaves its thread; one that is revived afterwards comes back."""

KINDS = (
    "StreamsStarted", "TasksAssigned", "StreamThreadState", "TaskState", "RestoreBegan", "Restored",
    "HostStopped",
)  # fmt: skip
"""The facts that :class:`Applications` follows."""

COLUMNS = (
    "TASK", "ROLE", "STATE", "THREAD", "THREAD-STATE", "CHANGELOG-POSITION", "CHANGELOG-END", "LAG",
)  # fmt: skip


@dataclass
class TaskView:
    """A task of a thread; positions and ends are offsets, by changelog."""

    role: str  # active | standby | warm-up
    state: str  # as Task.State has it
    positions: dict[Changelog, int] = field(default_factory=dict)  # next to be restored
    ends: dict[Changelog, int] = field(default_factory=dict)  # where an active task's restore ends

    @property
    def processes(self) -> bool:
        """Whether it takes records."""
        return (self.role, self.state) == ("active", "RUNNING")


@dataclass
class ThreadView:
    """A stream thread and its tasks, by name."""

    node: str
    number: int
    state: str = "CREATED"
    tasks: dict[str, TaskView] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The thread's name, as its clients have it in theirs."""
        return f"{self.node}-StreamThread-{self.number}"


class Applications:
    """Follows the threads of applications, by application.id."""

    def __init__(self) -> None:
        self.threads: dict[str, dict[tuple[str, int], ThreadView]] = {}
        self._hosts: dict[str, str] = {}  # by process id
        self._warmups: dict[tuple[str, str], list[str]] = {}  # of an application on a host
        self.handlers: dict[str, Callable[[Row], None]] = {
            "StreamsStarted": self.on_streams_started,
            "TasksAssigned": self.on_tasks_assigned,
            "StreamThreadState": self.on_thread_state,
            "TaskState": self.on_task_state,
            "RestoreBegan": self.on_restore_began,
            "Restored": self.on_restored,
        }

    def on_streams_started(self, row: Row) -> None:
        """Take which host has a process id (StreamsStarted)."""
        self._hosts[row["process_id"]] = row["node"]

    def on_tasks_assigned(self, row: Row) -> None:
        """Take which standbys of an instance are warm-ups (TasksAssigned)."""
        node = self._hosts[row["process_id"]]
        self._warmups[row["group"], node] = row["warmup_tasks"]
        for key, thread in self.threads.get(row["group"], {}).items():
            for name, task in thread.tasks.items():
                if key[0] == node and task.role != "active":
                    task.role = self._standby(row["group"], node, name)

    def _standby(self, group: str, node: str, task: str) -> str:
        return "warm-up" if task in self._warmups.get((group, node), ()) else "standby"

    def _thread(self, row: Row) -> ThreadView:
        threads = self.threads.setdefault(row["group"], {})
        key = (row["node"], row["thread"])
        return threads.setdefault(key, ThreadView(*key))

    def on_thread_state(self, row: Row) -> None:
        """Take the state of a thread; one that begins has no tasks (StreamThreadState)."""
        thread = self._thread(row)
        thread.state = row["state"]
        if thread.state in ("STARTING", "DEAD"):
            thread.tasks.clear()

    def on_task_state(self, row: Row) -> None:
        """Take the state of a task (TaskState)."""
        tasks = self._thread(row).tasks
        if row["state"] == GONE:
            tasks.pop(row["task"], None)
            return
        role = row["role"]
        if role == "standby":
            role = self._standby(row["group"], row["node"], row["task"])
        known = tasks.setdefault(row["task"], TaskView(role, row["state"]))
        known.role, known.state = role, row["state"]

    def on_restore_began(self, row: Row) -> None:
        """Take where a task begins to read a changelog, and where it ends (RestoreBegan)."""
        task = self._thread(row).tasks.get(row["task"])
        if task is not None:
            changelog = (row["topic"], row["partition"])
            task.positions[changelog] = row["start_offset"]
            if row["end_offset"] >= 0:
                task.ends[changelog] = row["end_offset"]

    def on_restored(self, row: Row) -> None:
        """Take how far a task has read a changelog (Restored)."""
        task = self._thread(row).tasks.get(row["task"])
        if task is not None:
            task.positions[row["topic"], row["partition"]] = row["offset"]

    def on_host_stopped(self, row: Row) -> None:
        """Forget the threads of a process (HostStopped)."""
        for threads in self.threads.values():
            for key in [key for key in threads if key[0] == row["node"]]:
                del threads[key]


def rows(
    threads: dict[tuple[str, int], ThreadView],
    end_of: Callable[[Changelog], int | None],
    unknown: str,
) -> list[tuple[str, ...]]:
    """Return the table of an application: a row for each task that a thread has.

    A task comes with its active copy first; threads without tasks come last. ``end_of`` knows where
    a changelog ends, and ``unknown`` stands for what nobody has told.
    """
    found: list[tuple[str, ...]] = []
    tasks = sorted(
        [
            (name, task.role, key)
            for key, each in threads.items()
            for name, task in each.tasks.items()
        ],
        key=lambda each: (*map(int, each[0].split("_")), *each[1:]),
    )
    for name, role, key in tasks:
        thread, task = threads[key], threads[key].tasks[name]
        numbers = ["-", "-", "-"]
        if task.positions:
            ends = {each: task.ends.get(each, end_of(each)) for each in task.positions}
            if task.processes or task.role != "active":
                ends = {each: end_of(each) for each in task.positions}
            numbers = _numbers(task, ends, unknown)
        found.append((name, role, task.state, thread.name, thread.state, *numbers))
    for _, thread in sorted(threads.items()):
        if not thread.tasks:
            found.append(("-", "-", "-", thread.name, thread.state, "-", "-", "-"))
    return found


def _numbers(task: TaskView, ends: dict[Changelog, int | None], unknown: str) -> list[str]:
    """Return position, end and lag, each over all changelogs of a task."""
    known = [end for end in ends.values() if end is not None]
    if len(known) < len(ends):
        return [unknown, unknown, "0" if task.processes else unknown]
    end = sum(known)
    position = end if task.processes else min(end, sum(task.positions.values()))
    return [str(position), str(end), str(end - position)]
