"""Remarks: what the user of a run should know of its groups, although it breaks no promise.

A remark changes no verdict; it stands below it. There are seven:

- A group that was reading a topic had its position in a partition set to the end of the log, past
  records that it had not got (``reset-past-records``). That is what auto.offset.reset=latest asks
  for, or a seek to the end; all the same nobody reads these records.
- A group's first position in a partition was the end of the log, and records had come since the
  group had subscribed to the topic: with auto.offset.reset=latest it begins where the log ends
  when its first rebalance is over.
- A user's application reads or writes a topic that neither the scenario has nor an application
  has created. A Metadata request creates it where auto.create.topics.enable and
  allow.auto.create.topics let it, so that a misspelt name looks like a topic to which nobody
  writes, or from which nobody reads.
- A user's application does not say what it has processed. Its records count as processed as soon as
  it asks for more or commits, so no commit of it can come too early: nothing was tested.
- A user's application sets arguments of its clients that have no effect here, as those of
  encryption.
- Not one record was acknowledged, and records failed: whatever the scenario claims about them was
  not tested.
- A run without progress: the last error that a client has raised in an application. One that
  catches all errors goes on, and what it waits for never comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkasim.analysis.judging.history.readers import Readers
from kafkasim.analysis.judging.progress import Progress
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts


class Remarks:
    """Follows one run; :meth:`finish` returns a line for each remark."""

    def __init__(
        self,
        trace: FactSource,
        readers: Readers,
        progress: Progress,
        topics: Iterable[str],
        created: Mapping[str, None],
        caught: Mapping[str, str],
        returned: Mapping[str, None],
        assumed: Mapping[str, None],
        ignored: Mapping[str, None],
    ) -> None:
        """Subscribe to the trace, after ``readers``.

        ``topics`` are the names of the scenario's, ``created`` of those that applications create by
        themselves, and ``caught`` is by host the last error that was raised in its application.
        ``returned`` are the hosts whose user's application has come to its end, and ``assumed`` the
        groups whose application does not say what it has processed; ``ignored`` are arguments of
        its clients that have no effect.
        """
        self._readers = readers
        self._progress = progress
        self._acknowledged = False
        self._failed: dict[str, int] = {}  # records by error
        self._topics = dict.fromkeys(topics)
        self._created = created
        self._caught = caught
        self._returned = returned
        self._assumed = assumed
        self._ignored = ignored
        self._at: dict[tuple[str, PartitionKey], int] = {}  # the highest position that was set
        self._jumps: dict[str, list[tuple[int, PartitionKey, int, int]]] = {}  # by group
        self._starts: dict[str, list[tuple[int, PartitionKey, int, int]]] = {}  # by group
        self._strange: dict[tuple[str, str], None] = {}  # (group, topic)
        self._subscribed: dict[tuple[str, str], None] = {}  # (group, topic id)
        self._before: dict[tuple[str, PartitionKey], int] = {}
        """The high watermark in which a group found a partition when it subscribed to the topic"""
        trace.subscribe(facts.Acked, self._on_acked)
        trace.subscribe(facts.SendFailed, self._on_failed)
        trace.subscribe(facts.Positioned, self._on_positioned)
        trace.subscribe(facts.MemberRequest, self._on_request)

    def finish(self, missing: list[str], ready_us: int) -> list[str]:
        """Return the remarks; ``missing`` is what the run still lacked at its end."""
        found = [self._start(group, ready_us) for group in self._starts]
        found += [self._jump(group, ready_us) for group in self._jumps]
        found += [line for place in self._strange if (line := self._unknown(*place))]
        found += self._written()
        found += [
            f"the application of group {group} never calls kafkasim.processed(), so a commit that"
            " comes before the work is not seen"
            for group in self._assumed
        ]
        if self._failed and not self._acknowledged:
            errors = ", ".join(f"{count} with {error}" for error, count in self._failed.items())
            found.append(f"not one record was acknowledged: {errors}")
        if self._ignored:
            ignored = ", ".join(self._ignored)
            found.append(
                f"arguments of clients without an effect in a simulated cluster: {ignored}"
            )
        if missing:
            found += [
                f"the last error that the application of {_and(nodes)} got: {text}"
                for text, nodes in self._errors().items()
            ]
        if missing and self._returned:
            found.append(
                f"the application of {_and(list(self._returned))} has returned, which ends its"
                " process: it reads no more, and clients that it did not stop have not left their"
                " groups"
            )
        return found

    def _errors(self) -> dict[str, list[str]]:
        by_text: dict[str, list[str]] = {}
        for node, text in self._caught.items():
            by_text.setdefault(text, []).append(node)
        return by_text

    def _start(self, group: str, ready_us: int) -> str:
        (t_us, key, read, offset), *others = self._starts[group]
        more = f" ({len(others)} more such partitions)" if others else ""
        return (
            f"at {(t_us - ready_us) / 1e6:+.3f}s group {group} began to read"
            f" {self._progress.name(key)} at its end, {offset}; when it subscribed, that was {read}"
            f" (auto.offset.reset=latest){more}"
        )

    def _jump(self, group: str, ready_us: int) -> str:
        (t_us, key, read, offset), *others = self._jumps[group]
        more = f" ({len(others)} more such resets)" if others else ""
        return (
            f"reset-past-records: at {(t_us - ready_us) / 1e6:+.3f}s the position of group {group}"
            f" in {self._progress.name(key)} was set to the end of the log, from {read} to {offset}"
            f" (auto.offset.reset=latest, or a seek){more}"
        )

    def _unknown(self, group: str, topic: str) -> str:
        ids = [key for key, fact in self._progress.topics.items() if fact.topic == topic]
        if topic in self._created:
            return ""
        begin = f"group {group} subscribes to topic {topic}, which is not in the scenario"
        if not ids:
            return f"{begin}: it does not exist"
        if any(self._progress.exposed_of(ids).values()):
            return ""  # an application writes to it, says :meth:`_written`
        return f"{begin}: auto.create.topics.enable has created it, and it is empty"

    def _written(self) -> list[str]:
        ids: dict[str, list[str]] = {}  # of the topics that the scenario has not, by name
        for topic_id, fact in self._progress.topics.items():
            if fact.topic not in self._topics and not fact.topic.startswith("__"):
                ids.setdefault(fact.topic, []).append(topic_id)
        return [
            f"an application writes to topic {name}, which is not in the scenario:"
            " auto.create.topics.enable has created it"
            for name, keys in ids.items()
            if name not in self._created and any(self._progress.exposed_of(keys).values())
        ]

    def _on_acked(self, _seq: int, _t: int, _node: str, _fact: facts.Acked) -> None:
        self._acknowledged = True

    def _on_failed(self, _seq: int, _t: int, _node: str, fact: facts.SendFailed) -> None:
        records = self._failed.get(fact.error, 0) + len(fact.record_ids)
        self._failed[fact.error] = records

    def _on_positioned(self, _seq: int, t_us: int, _node: str, fact: facts.Positioned) -> None:
        if fact.reason == "none":
            return
        key = (fact.topic_id, fact.partition)
        place = (fact.group, key)
        if fact.reason == "latest":
            self._on_latest(t_us, fact.group, key, fact.offset)
        self._at[place] = max(fact.offset, self._at.get(place, 0))

    def _on_latest(self, t_us: int, group: str, key: PartitionKey, offset: int) -> None:
        read = max(self._at.get((group, key), 0), self._readers.read(group, key))
        before = self._before.get((group, key), 0)
        lines = self._jumps
        if (group, key) not in self._at:
            if (group, key[0]) not in self._subscribed:
                return  # it names the partition itself, or an expression
            lines = self._starts if (group, key) in self._before else self._jumps
        if max(read, before) < offset:
            lines.setdefault(group, []).append((t_us, key, max(read, before), offset))

    def _on_request(self, _seq: int, _t: int, _node: str, fact: facts.MemberRequest) -> None:
        for topic in fact.topics:
            if topic not in self._topics and not topic.startswith(("/", "__")):
                self._strange[(fact.group, topic)] = None
            self._subscribe(fact.group, topic)

    def _subscribe(self, group: str, topic: str) -> None:
        ids = [key for key, fact in self._progress.topics.items() if fact.topic == topic]
        new = [each for each in ids if (group, each) not in self._subscribed]
        self._subscribed.update(dict.fromkeys((group, each) for each in new))
        exposed = self._progress.exposed_of(new)
        for key in [(each, p) for each in new for p in self._progress.partitions_of(topic)]:
            self._before[group, key] = exposed.get(key, 0)


def _and(nodes: list[str]) -> str:
    return " and ".join(sorted(nodes))
