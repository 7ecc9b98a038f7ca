"""An application of Kafka Streams writes what one failure-free run over the same inputs would.

The facts of a task say which records it took, in which order, and what it committed. A reference
(``model/streams/reference.py``) takes the records that were kept in that order, with one thread,
and its outputs are compared with the log of the output topics, key by key. Under exactly_once_v2
they are equal, and a task that begins to process has the reference's state (wrong-state). Under
at_least_once what a task did after its last commit may be done again: of a task that has not
ended cleanly it is only asked that no key with a committed input is without output.

    one task        session 1                session 2
    took            1 2 3 | 4 5 | 6 7 ✗      6 7 8 | …
    committed             ^     ^ kept: 1 to 5, then 6 to …

A session is one life of an active task on a thread, from RUNNING to SUSPENDED, or a crash.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from kafkasim.analysis.judging.finding import Finding
from kafkasim.analysis.judging.history.contents import COMMITTED
from kafkasim.analysis.judging.history.footing import END
from kafkasim.analysis.judging.history.history import History
from kafkasim.analysis.judging.promise import FactSource, follow
from kafkasim.analysis.judging.user_processors import load_processor
from kafkasim.model import facts
from kafkasim.model.streams.declared import topology_of
from kafkasim.model.streams.processors.context import StreamsFailure
from kafkasim.model.streams.records import StreamRecord
from kafkasim.model.streams.reference import ReferenceTask
from kafkasim.model.streams.task_id import TaskId
from kafkasim.model.streams.tasks.stream_task import digest
from kafkasim.model.streams.told import told, untold
from kafkasim.model.streams.topology import Topology

EXACTLY_ONCE = "exactly_once_v2"

Step = facts.TaskTook | facts.TaskPunctuated | facts.TaskFlushed
Written = dict[str, list[tuple[str, int]]]
"""By key as text: values as texts, with their times, in the order of the log"""


@dataclass(slots=True)
class Session:
    """What an active task did from RUNNING on."""

    node: str
    seq: int  # of the row that began it
    steps: list[tuple[int, Step]] = field(default_factory=list)  # with their rows
    committed: int = -1  # the row of the last flush that is known to be committed
    clean: bool = False  # it was suspended with nothing uncommitted
    opened: facts.StateOpened | None = None

    def kept(self) -> list[Step]:
        """Return the steps up to the last commit."""
        return [step for seq, step in self.steps if seq <= self.committed]

    @property
    def left(self) -> bool:
        """Whether it did anything after its last commit."""
        return any(seq > self.committed for seq, _ in self.steps)


class StreamsOutputs:
    """lost-output, duplicate-output, wrong-output, wrong-state."""

    def __init__(
        self, trace: FactSource, history: History, applications: Mapping[str, str]
    ) -> None:
        self._history = history
        self._topologies = {
            group: topology_of(json.loads(text), load=load_processor)
            for group, text in applications.items()
        }
        self._started: dict[str, facts.StreamsStarted] = {}
        self._sessions: dict[tuple[str, str], list[Session]] = {}  # group, task
        self._open: dict[tuple[str, str, str], Session] = {}  # node, group, task
        self._commits: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
        """Of a group and an input: the rows of commits, with their offsets"""
        self._sent: dict[int, facts.StreamsSent] = {}  # by record id
        self._names: dict[str, str] = {}  # topic id -> name
        self._found: list[Finding] = []
        follow(trace, self)

    # Following.

    def on_StreamsStarted(self, _s: int, _t: int, _n: str, fact: facts.StreamsStarted) -> None:
        """Take how an application commits."""
        self._started[fact.group] = fact

    def on_TopicCreated(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        """Take the name of a topic."""
        self._names[fact.topic_id] = fact.topic

    def on_TaskState(self, seq: int, t: int, node: str, fact: facts.TaskState) -> None:
        """Begin or end a session of an active task."""
        if fact.role != "active" or fact.group not in self._topologies:
            return
        place = (node, fact.group, fact.task)
        if fact.state == "RUNNING":
            self._open[place] = session = Session(node, seq)
            self._sessions.setdefault((fact.group, fact.task), []).append(session)
            return
        ended = self._open.pop(place, None)
        if ended is not None:
            ended.clean = not ended.left

    def on_HostStopped(self, _seq: int, _t: int, node: str, _fact: facts.HostStopped) -> None:
        """End the sessions on a host."""
        for place in [each for each in self._open if each[0] == node]:
            del self._open[place]

    def on_StateOpened(self, _seq: int, _t: int, node: str, fact: facts.StateOpened) -> None:
        """Take the state with which a session begins."""
        session = self._open.get((node, fact.group, fact.task))
        if session is not None:
            session.opened = fact

    def on_TaskTook(self, seq: int, _t: int, node: str, fact: facts.TaskTook) -> None:
        """Take a record that a task has processed."""
        self._step(seq, node, fact)

    def on_TaskPunctuated(self, seq: int, _t: int, node: str, fact: facts.TaskPunctuated) -> None:
        """Take punctuators that fired."""
        self._step(seq, node, fact)

    def on_TaskFlushed(self, seq: int, _t: int, node: str, fact: facts.TaskFlushed) -> None:
        """Take that caches were flushed, for a commit."""
        self._step(seq, node, fact)

    def _step(self, seq: int, node: str, fact: Step) -> None:
        session = self._open.get((node, fact.group, fact.task))
        if session is not None:
            session.steps.append((seq, fact))

    def on_TaskCommitted(self, _seq: int, _t: int, node: str, fact: facts.TaskCommitted) -> None:
        """Take that the last flush of a session is committed."""
        session = self._open.get((node, fact.group, fact.task))
        if session is not None:
            flushes = [s for s, step in session.steps if isinstance(step, facts.TaskFlushed)]
            session.committed = max(flushes, default=session.committed)

    def on_OffsetCommitted(self, seq: int, _t: int, _n: str, fact: facts.OffsetCommitted) -> None:
        """Take what the coordinator has committed: a crashed task may not have heard of it."""
        if fact.group in self._topologies:
            place = (fact.group, fact.topic, fact.partition)
            self._commits.setdefault(place, []).append((seq, fact.offset))

    def on_Positioned(self, seq: int, _t: int, node: str, fact: facts.Positioned) -> None:
        """Judge a reset: repartition records are deleted once they are committed (PURGE)."""
        topic = self._names.get(fact.topic_id, "")
        commits = self._commits.get((fact.group, topic, fact.partition))
        if fact.reason not in ("earliest", "latest") or not commits:
            return
        topology, before = self._topologies[fact.group], commits[-1][1]
        topics = [t for each in topology.subtopologies(fact.group) for t in each.repartition_topics]
        if topic in topics and before < fact.offset:
            text = f"{node} goes on at {fact.offset} of {topic}, and {fact.group} had committed"
            found = f"{text} {before}: what is between was deleted and never processed"
            place = (fact.topic_id, fact.partition)
            self._found.append(Finding("lost-output", *place, found, group=fact.group, seq=seq))

    def on_StreamsSent(self, _seq: int, _t: int, _node: str, fact: facts.StreamsSent) -> None:
        """Take what a record says."""
        self._sent[fact.record_id] = fact

    # Judging.

    def finish(self) -> list[Finding]:
        """Return a finding for each key of a task whose outputs are not those of the reference."""
        written = self._written()
        for (group, task), sessions in sorted(self._sessions.items()):
            self._learn_commits(group, sessions)
            cache = self._started[group].cache_bytes // self._started[group].threads
            exact = self._started[group].guarantee == EXACTLY_ONCE
            replay = _Replay(self._topologies[group], group, TaskId.parse(task), cache)
            for number, session in enumerate(sessions):
                if exact or all(each.clean for each in sessions[:number]):
                    self._found += replay.wrong_state(session)
                replay.run(session)
            if not exact:
                replay.run_on(sessions[-1])
            clean = all(each.clean or not each.left for each in sessions[:-1])
            found = written.get((group, task), {})
            begun = next((b.seq for a, b in pairwise(sessions) if a.left), -1)
            self._found += replay.compare(found, exact or clean, self._ids(), begun)
        return self._found

    def _ids(self) -> dict[str, str]:
        return {name: topic_id for topic_id, name in self._names.items()}

    def _learn_commits(self, group: str, sessions: Iterable[Session]) -> None:
        """Find the flushes that were committed though the task was not told."""
        sessions = list(sessions)
        begins = [session.seq for session in sessions[1:]]
        for session, until in zip(sessions, [*begins, END]):
            for seq, step in session.steps:
                if seq <= session.committed or not isinstance(step, facts.TaskFlushed):
                    continue
                positions = step.positions
                if positions and all(
                    self._is_committed(group, each, seq, until) for each in positions
                ):
                    session.committed = seq

    def _is_committed(self, group: str, position: str, since: int, until: int) -> bool:
        name, _, offset = position.rpartition("@")
        topic, _, partition = name.rpartition("-")
        commits = self._commits.get((group, topic, int(partition)), [])
        return any(since < seq < until and at == int(offset) for seq, at in commits)

    def _written(self) -> dict[tuple[str, str], dict[str, Written]]:
        """Return what is in the logs: by task, topic and key."""
        found: dict[tuple[str, str], dict[str, Written]] = {}
        contents = self._history.contents
        for key in sorted(contents.leaders):
            for _, record_id, state in contents.states(key):
                sent = self._sent.get(record_id)
                if sent is not None and state == COMMITTED:
                    topics = found.setdefault((sent.group, sent.task), {})
                    keys = topics.setdefault(sent.topic, {})
                    keys.setdefault(sent.key, []).append((sent.value, sent.timestamp_ms))
        return found


class _Replay:
    """The reference of one task, over all its sessions."""

    def __init__(self, topology: Topology, group: str, task: TaskId, cache_bytes: int) -> None:
        self._topology = topology
        self._subtopology = topology.subtopologies(group)[task.subtopology]
        self._group = group
        self._task = task
        self._cache_bytes = cache_bytes
        self._reference = self._new()
        self._outputs: list[Any] = []
        self._tail: list[Any] = []  # what follows from steps that are not committed yet

    def _new(self) -> ReferenceTask:
        return ReferenceTask(
            self._topology, self._subtopology, self._group, self._task.partition, self._cache_bytes
        )

    def wrong_state(self, session: Session) -> Iterator[Finding]:
        """Yield a finding for each store with which a session begins, and that is another one."""
        if session.opened is None:
            return
        stores = self._reference.task.stores
        for name, crc in zip(session.opened.stores, session.opened.digests):
            if digest(stores[name].all()) != crc:
                text = f"task {self._task} of {self._group} begins on {session.node} with a state"
                text = f"{text} of {name} that its committed inputs do not make"
                yield Finding("wrong-state", "", -1, text, group=self._group, seq=session.seq)

    def run(self, session: Session) -> None:
        """Take the steps of a session that were committed."""
        before = self._reference
        self._reference = reference = self._new()
        for logged in before.changelog:
            timestamp = logged.timestamp if logged.timestamp is not None else before.now_ms
            reference.task.stores[logged.store].restore(logged.key, logged.value, timestamp)
        reference.changelog += before.changelog
        reference.task.stream_time_ms = before.task.stream_time_ms
        reference.task.metadata.update(before.task.metadata)
        for step in session.kept():
            self._take(reference, step)
        self._outputs += reference.outputs

    def run_on(self, session: Session) -> None:
        """Take the steps of a session that are not committed, after all others.

        A record that no operator can process ends them, as it has ended the thread.
        """
        known = len(self._reference.outputs)
        for seq, step in session.steps:
            if seq > session.committed:
                try:
                    self._take(self._reference, step)
                except StreamsFailure:
                    break
        self._tail = self._reference.outputs[known:]

    def _take(self, reference: ReferenceTask, step: Step) -> None:
        if isinstance(step, facts.TaskFlushed):
            reference.commit()
            return
        reference.now_ms = step.wall_ms
        if isinstance(step, facts.TaskTook):
            key, value = untold(step.key), untold(step.value)
            record = StreamRecord(key, value, step.timestamp_ms)
            reference.task.process(step.topic, step.partition, step.offset, record)
        elif step.wall_clock:
            reference.task.punctuate_wall_clock()
        else:
            reference.task.punctuate_stream_time()

    def compare(
        self, written: dict[str, Written], exact: bool, ids: Mapping[str, str], begun: int
    ) -> Iterator[Finding]:
        """Yield a finding for each key of a topic whose outputs are others than the reference's.

        Without ``exact`` parts may have been done twice: duplicate-output stands for what follows.
        ``begun`` is the row of the first session behind one that has left something, −1 for none.
        """
        expected, tail = _by_key(self._outputs), _by_key(self._tail)
        for topic in sorted({**expected, **written}):
            wanted, found = expected.get(topic, {}), written.get(topic, {})
            for key in sorted({**wanted, **found}):
                own, kept = found.get(key, []), wanted.get(key, [])
                more = tail.get(topic, {}).get(key, [])[: max(0, len(own) - len(kept))]
                name = _differs(kept + more, own)
                if name and not exact:
                    name = "duplicate-output" if own else "lost-output"
                if name:
                    text = f"task {self._task} of {self._group} wrote {_shown(own)} for {key}, and"
                    text = f"{text} not {_shown(wanted.get(key, []))}"
                    topic_id = ids.get(topic, "")
                    yield Finding(name, topic_id, -1, text, group=self._group, seq=begun)


def _by_key(outputs: Iterable[Any]) -> dict[str, Written]:
    """Return outputs by topic and key."""
    found: dict[str, Written] = {}
    for output in outputs:
        own = found.setdefault(output.topic, {}).setdefault(told(output.key), [])
        own.append((told(output.value), output.timestamp))
    return found


def _differs(wanted: list[tuple[str, int]], found: list[tuple[str, int]]) -> str:
    """Return the name of the finding for outputs that are not the wanted ones, "" if they are."""
    if wanted == found:
        return ""
    if _is_part(found, wanted):
        return "lost-output"
    return "duplicate-output" if _is_part(wanted, found) else "wrong-output"


def _is_part(some: list[tuple[str, int]], every: list[tuple[str, int]]) -> bool:
    left = iter(every)
    return all(each in left for each in some)


def _shown(outputs: list[tuple[str, int]]) -> str:
    values = [value for value, _ in outputs]
    return ", ".join(values if len(values) <= 6 else [*values[:3], "…", *values[-3:]]) or "nothing"
