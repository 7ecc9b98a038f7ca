"""The metrics of Kafka Streams, as far as facts tell them (ThreadMetrics, TaskMetrics).

Left out, because no fact tells them: how many records a poll returned to which thread, how long a
record takes (``active-process-ratio``), and what is put into a store (``put-rate``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from kafkasim.sim.trace.reading import Row

CLIENT = "kafka.streams:type=stream-metrics"
THREAD = "kafka.streams:type=stream-thread-metrics"
TASK = "kafka.streams:type=stream-task-metrics"

KINDS = (
    "StreamThreadState", "TaskState", "TaskTook", "TaskFlushed", "TaskCommitted", "RecordDropped",
    "Restored", "HostStopped",
)  # fmt: skip
COLUMNS = ("thread", "task", "role", "state", "reason", "records")

Value = tuple[str, str, str, float]
"""JMX object, attribute, tags, value"""

COMMITS_IN_LOOP = ("RUNNING", "PARTITIONS_ASSIGNED")
"""States of a thread in which a commit is counted: those of a revocation or a close are not."""


@dataclass
class _Commit:
    """A commit that is under way: since when, and of which tasks it is known to have succeeded."""

    since_us: int
    last_us: int = 0
    tasks: dict[str, None] = field(default_factory=dict)

    @property
    def latency_ms(self) -> float:
        """How long it took for each task."""
        return (self.last_us - self.since_us) / 1000 / len(self.tasks)


@dataclass
class _Thread:
    """What a thread has done; ``tasks`` are those that it has."""

    state: str = "CREATED"
    processed: int = 0
    created: int = 0
    closed: int = 0
    tasks: dict[str, None] = field(default_factory=dict)
    commits: list[_Commit] = field(default_factory=list)

    def flush(self, t_us: int) -> None:
        """Begin a commit, or go on with one in which nothing is committed yet."""
        if self.state in COMMITS_IN_LOOP and (not self.commits or self.commits[-1].tasks):
            self.commits.append(_Commit(t_us))

    def commit(self, t_us: int, task: str) -> None:
        """Take that a task is committed."""
        if self.state in COMMITS_IN_LOOP and self.commits:
            self.commits[-1].last_us = t_us
            self.commits[-1].tasks[task] = None


def values(rows: Iterable[Row], seconds: float) -> Iterator[Value]:
    """Yield the metrics of all applications; a rate is the mean over ``seconds``."""
    followed = _Followed()
    for row in rows:
        followed.take(row)
    yield from followed.values(seconds)


class _Followed:
    """Follows the threads and tasks of all applications."""

    def __init__(self) -> None:
        self._threads: dict[tuple[str, int], _Thread] = {}  # by host and number
        self._failed: dict[str, int] = {}
        self._dropped: dict[tuple[str, int, str], int] = {}
        self._restored: dict[tuple[str, int, str, str], int] = {}
        self._handlers: dict[str, Callable[[Row], None]] = {
            "StreamThreadState": self._on_thread_state,
            "TaskState": self._on_task_state,
            "TaskTook": self._on_took,
            "TaskFlushed": lambda row: self._of(row).flush(row["t_us"]),
            "TaskCommitted": lambda row: self._of(row).commit(row["t_us"], row["task"]),
            "RecordDropped": self._on_dropped,
            "Restored": self._on_restored,
            "HostStopped": self._on_stopped,
        }

    def take(self, row: Row) -> None:
        """Take the next fact."""
        handler = self._handlers.get(row["kind"])
        if handler is not None:
            handler(row)

    def values(self, seconds: float) -> Iterator[Value]:
        """Yield all metrics of the processes that live."""
        for node in dict.fromkeys([node for node, _ in sorted(self._threads)]):
            threads = [each for key, each in self._threads.items() if key[0] == node]
            alive = sum([each.state not in ("CREATED", "DEAD") for each in threads])
            yield CLIENT, "alive-stream-threads", f"client-id={node}", alive
            yield CLIENT, "failed-stream-threads", f"client-id={node}", self._failed.get(node, 0)
        for (node, number), thread in sorted(self._threads.items()):
            yield from _of_thread(thread, f"thread-id={node}-StreamThread-{number}", seconds)
        for (node, number, task), count in sorted(self._dropped.items()):
            tags = f"thread-id={node}-StreamThread-{number},task-id={task}"
            yield from _total(TASK, "dropped-records", tags, count, seconds)
        for (node, number, task, name), count in sorted(self._restored.items()):
            tags = f"thread-id={node}-StreamThread-{number},task-id={task}"
            yield from _total(TASK, name, tags, count, seconds)

    def _of(self, row: Row) -> _Thread:
        return self._threads.setdefault((row["node"], row["thread"]), _Thread())

    def _on_thread_state(self, row: Row) -> None:
        self._of(row).state = row["state"]
        if row["state"] == "DEAD" and row["reason"]:
            self._failed[row["node"]] = self._failed.get(row["node"], 0) + 1

    def _on_task_state(self, row: Row) -> None:
        thread, task = self._of(row), row["task"]
        if row["state"] == "CLOSED":
            thread.closed += 1
            thread.tasks.pop(task, None)
        elif task not in thread.tasks:
            thread.created += row["reason"] != "revived"
            thread.tasks[task] = None

    def _on_took(self, row: Row) -> None:
        self._of(row).processed += 1

    def _on_dropped(self, row: Row) -> None:
        for (node, number), thread in self._threads.items():
            if node == row["node"] and row["task"] in thread.tasks:
                key = (node, number, row["task"])
                self._dropped[key] = self._dropped.get(key, 0) + 1

    def _on_restored(self, row: Row) -> None:
        name = "restore" if row["role"] == "active" else "update"
        key = (row["node"], row["thread"], row["task"], name)
        self._restored[key] = self._restored.get(key, 0) + row["records"]

    def _on_stopped(self, row: Row) -> None:
        """Forget what a process counted: its successor counts from 0."""
        node = row["node"]
        self._failed.pop(node, None)
        self._threads = {key: each for key, each in self._threads.items() if key[0] != node}
        self._dropped = {key: each for key, each in self._dropped.items() if key[0] != node}
        self._restored = {key: each for key, each in self._restored.items() if key[0] != node}


def _of_thread(thread: _Thread, tags: str, seconds: float) -> Iterator[Value]:
    yield from _total(THREAD, "process", tags, thread.processed, seconds)
    yield from _total(THREAD, "task-created", tags, thread.created, seconds)
    yield from _total(THREAD, "task-closed", tags, thread.closed, seconds)
    latencies = [each.latency_ms for each in thread.commits if each.tasks]
    yield from _total(THREAD, "commit", tags, len(latencies), seconds)
    if latencies:
        mean = round(sum(latencies) / len(latencies), 3)
        yield THREAD, "commit-latency-avg", tags, mean
        yield THREAD, "commit-latency-max", tags, round(max(latencies), 3)


def _total(thing: str, name: str, tags: str, count: int, seconds: float) -> Iterator[Value]:
    yield thing, f"{name}-total", tags, count
    yield thing, f"{name}-rate", tags, round(count / seconds, 6)
