"""What MirrorMaker 2 promises: topics copied whole and in order, groups that skip nothing.

At least once: a record may be in the target twice. What the source had acknowledged and the mirror
had not copied when the source was lost is gone for those who fail over (the RPO); that is a figure,
and no finding.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

from kafkasim.analysis.judging.finding import Finding
from kafkasim.analysis.judging.promise import FactSource, follow
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts
from kafkasim.model.connect.policies import POLICIES

STARTS = ("committed", "earliest", "latest")
"""The reasons with which a member's first position in a partition is set."""

ON_THE_WAY_US = 1_000_000
"""How long an offset sync may be on its way from the acknowledgement to the checkpoint task."""


@dataclass(frozen=True, slots=True)
class MirrorSettings:
    """A mirror: its host, the clusters, and replication.policy.class with its separator."""

    node: str
    source: str
    target: str
    policy: str
    separator: str
    offset_lag_max: int = 100

    def remote(self, topic: str) -> str:
        """Return the name of a source topic in the target."""
        return POLICIES[self.policy](self.separator).remote_topic(self.source, topic)


@dataclass(frozen=True, slots=True)
class Copied:
    """One partition of a mirrored topic at the end of the run.

    ``source`` is record id by offset in the source, in the order of offsets: what was acknowledged
    there and what the mirror has read. ``target`` is the first offset in the target by record id.
    """

    key: PartitionKey  # in the source
    remote: PartitionKey
    source: dict[int, int]
    acknowledged: tuple[int, ...]  # record ids
    target: dict[int, int]
    twice: int  # records that are in the target once more

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The offsets of each mirrored record: in the source and in the target."""
        return [(up, self.target[each]) for up, each in self.source.items() if each in self.target]


@dataclass(slots=True)
class _Followed:
    """What the facts say of one mirror."""

    read: dict[PartitionKey, dict[int, int]] = field(default_factory=dict)
    checkpoints: list[tuple[int, int, facts.CheckpointEmitted]] = field(default_factory=list)
    # By source partition and offset: when the record was last read, in µs.
    reads: dict[PartitionKey, dict[int, int]] = field(default_factory=dict)


class Mirrored:
    """Follows the mirrors of a run on its whole trace."""

    def __init__(self, trace: FactSource, mirrors: Iterable[MirrorSettings]) -> None:
        self.mirrors = list(mirrors)
        self._by_node = {each.node: _Followed() for each in self.mirrors}
        self._topics: dict[tuple[str, str], str] = {}  # (cluster, topic) -> its newest id
        self._acked: dict[PartitionKey, dict[int, int]] = {}  # offset -> record id
        self._final: dict[PartitionKey, list[tuple[int, int]]] = {}  # (offset, record id)
        # By group and partition, in order: the row, and how far the group had come by then.
        self._done: dict[tuple[str, PartitionKey], list[tuple[int, int]]] = {}
        # The same of the positions at which its members began.
        self._starts: dict[tuple[str, PartitionKey], list[tuple[int, int]]] = {}
        if self.mirrors:
            follow(trace, self)

    # Facts.

    def on_TopicCreated(self, _s: int, _t: int, node: str, fact: facts.TopicCreated) -> None:
        """Take the id of a topic."""
        self._topics[node.partition(".")[0], fact.topic] = fact.topic_id

    def on_Acked(self, _seq: int, _t: int, node: str, fact: facts.Acked) -> None:
        """Take what a cluster has acknowledged to others than mirrors."""
        if fact.base_offset >= 0 and node not in self._by_node:
            known = self._acked.setdefault((fact.topic_id, fact.partition), {})
            known.update(enumerate(fact.record_ids, fact.base_offset))

    def on_Polled(self, _seq: int, t: int, node: str, fact: facts.Polled) -> None:
        """Take what a mirror has read."""
        followed = self._by_node.get(node)
        if followed is not None:
            key = fact.topic_id, fact.partition
            known = followed.read.setdefault(key, {})
            known.update(zip(fact.offsets, fact.record_ids, strict=True))
            followed.reads.setdefault(key, {}).update(dict.fromkeys(fact.offsets, t))

    def on_CheckpointEmitted(
        self, seq: int, t: int, node: str, fact: facts.CheckpointEmitted
    ) -> None:
        """Take a checkpoint."""
        self._by_node[node].checkpoints.append((seq, t, fact))

    def on_Processed(self, seq: int, _t: int, _node: str, fact: facts.Processed) -> None:
        """Take how far a group has come."""
        place = (fact.group, (fact.topic_id, fact.partition))
        before = self._done_by(place, seq)
        self._done.setdefault(place, []).append((seq, max(fact.offset, before)))

    def on_Positioned(self, seq: int, _t: int, _node: str, fact: facts.Positioned) -> None:
        """Take where a group begins."""
        if fact.reason in STARTS:
            place = (fact.group, (fact.topic_id, fact.partition))
            self._starts.setdefault(place, []).append((seq, fact.offset))

    def _done_by(self, place: tuple[str, PartitionKey], seq: int) -> int:
        """Return behind which offset a group had processed nothing by a row, −1 for all."""
        done = self._done.get(place, [])
        index = bisect_left(done, (seq, -1))
        return done[index - 1][1] if index else -1

    def on_FinalReplica(self, _seq: int, _t: int, _node: str, fact: facts.FinalReplica) -> None:
        """Take a leader's log at the end."""
        if not fact.leading:
            return
        ids = iter(fact.record_ids)
        batches = zip(fact.base_offsets, fact.record_counts, strict=True)
        self._final[fact.topic_id, fact.partition] = [
            (base + place, next(ids)) for base, records in batches for place in range(records)
        ]

    # The end.

    def finish(self) -> list[Finding]:
        """Return all findings."""
        return [found for mirror in self.mirrors for found in self._of(mirror)]

    def _of(self, mirror: MirrorSettings) -> Iterator[Finding]:
        for copied in self._copied(mirror):
            yield from _gaps(copied)
            yield from _disorder(copied)
        yield from self._translations(mirror)
        for group, copied, skipped, _ in self._failovers(mirror):
            if skipped:
                text = (
                    f"group {group} begins in {mirror.target} behind {len(skipped)} mirrored"
                    f" records that it has not processed in {mirror.source}, the first at"
                    f" {skipped[0]} there"
                )
                yield Finding(
                    "skipped-at-failover", *copied.key, text, count=len(skipped),
                    offset=skipped[0], group=group,
                )  # fmt: skip

    def figures(self) -> list[str]:
        """Return a line for each mirror, and for each group that has failed over."""
        lines = []
        for mirror in self.mirrors:
            every = list(self._copied(mirror))
            lost = sum(
                each not in copied.target for copied in every for each in copied.acknowledged
            )
            lines.append(
                f"mirror {mirror.source}->{mirror.target}: {sum(len(c.target) for c in every)}"
                f" records are in {mirror.target}, {sum(c.twice for c in every)} of them more than"
                f" once; {lost} that {mirror.source} has acknowledged are not (RPO)"
            )
            groups: dict[str, list[int]] = {}
            for group, _, skipped, again in self._failovers(mirror):
                sums = groups.setdefault(group, [0, 0])
                sums[0] += len(skipped)
                sums[1] += again
            lines += [
                f"group {group} fails over to {mirror.target}: {again} records read again,"
                f" {skipped} skipped"
                for group, (skipped, again) in groups.items()
            ]
        return lines

    def _copied(self, mirror: MirrorSettings) -> Iterator[Copied]:
        read = self._by_node[mirror.node].read
        for (cluster, topic), topic_id in list(self._topics.items()):
            remote_id = self._topics.get((mirror.target, mirror.remote(topic)))
            if cluster != mirror.source or remote_id is None:
                continue
            numbers = sorted({key[1] for key in (*self._acked, *read) if key[0] == topic_id})
            for number in numbers:
                key, remote = (topic_id, number), (remote_id, number)
                acked, seen = self._acked.get(key, {}), read.get(key, {})
                final, first = self._final.get(remote, []), dict[int, int]()
                for offset, record in final:
                    first.setdefault(record, offset)
                whole = dict(sorted({**acked, **seen}.items()))
                own = {record: first[record] for record in whole.values() if record in first}
                twice = sum(record in own for _, record in final) - len(own)
                yield Copied(key, remote, whole, tuple(acked.values()), own, twice)

    def _translations(self, mirror: MirrorSettings) -> Iterator[Finding]:
        """Yield the checkpoints that skip records, and those that go back."""
        copied = {each.key: each.pairs for each in self._copied(mirror)}
        last: dict[tuple[str, PartitionKey], facts.CheckpointEmitted] = {}
        for seq, t, fact in self._by_node[mirror.node].checkpoints:
            key = (self._topics[mirror.source, fact.topic], fact.partition)
            made = partial(Finding, group=fact.group, seq=seq, t_us=t)
            passed = [u for u, d in copied.get(key, ()) if u >= fact.offset and d < fact.downstream]
            if passed:
                text = (
                    f"a checkpoint takes group {fact.group} from offset {fact.offset} to"
                    f" {fact.downstream}, behind {len(passed)} records that it has not read"
                )
                yield made("translated-past", *key, text, count=len(passed), offset=passed[0])
            again = [u for u, d in copied.get(key, ()) if u < fact.offset and d >= fact.downstream]
            most = self._most_again(mirror, key, t, fact.offset)
            if len(again) > most:
                text = (
                    f"a checkpoint takes group {fact.group} from offset {fact.offset} to"
                    f" {fact.downstream}, in front of {len(again)} records that it has read;"
                    f" {most} are allowed"
                )
                yield made("needless-reread", *key, text, count=len(again), offset=again[0])
            before = last.get((fact.group, key))
            last[fact.group, key] = fact
            if before is None or fact.offset < before.offset:
                continue
            if fact.downstream < before.downstream:
                text = (
                    f"the checkpoint of group {fact.group} goes back from {before.downstream} to"
                    f" {fact.downstream}, and the group did not"
                )
                yield made("checkpoint-regression", *key, text)

    def _most_again(self, mirror: MirrorSettings, key: PartitionKey, t: int, offset: int) -> int:
        """Return how many records a group may read again that is translated from an offset.

        The newest sync is at most ``offset.lag.max`` records old, and what is written and read on
        the way to the store (OffsetSyncWriter). Of older ones the store keeps syncs so that two
        neighbours are at most four times as far apart as they are away from the newest one
        (OffsetSyncStore: 2^i against 2^(i−2)).
        """
        reads = self._by_node[mirror.node].reads.get(key, {})
        on_the_way = sum(t - ON_THE_WAY_US < at <= t for at in reads.values())
        behind = sum(up >= offset and at <= t for up, at in reads.items())
        return mirror.offset_lag_max + on_the_way + 4 * behind

    def _failovers(self, mirror: MirrorSettings) -> Iterator[tuple[str, Copied, list[int], int]]:
        """Yield each group and partition that goes on in the target, having read in the source.

        It goes on there whenever a member begins there after the group has come further in the
        source. With it come the offsets in the source of what it skips, and how many it reads
        again.
        """
        for copied in self._copied(mirror):
            for (group, remote), starts in self._starts.items():
                if remote != copied.remote:
                    continue
                before = -1
                for seq, start in starts:
                    done = self._done_by((group, copied.key), seq)
                    if done > before:
                        own = self._done_by((group, remote), seq)
                        ahead = range(max(own, 0), start)
                        skipped = [up for up, down in copied.pairs if up >= done and down in ahead]
                        again = sum(up < done and down >= start for up, down in copied.pairs)
                        yield group, copied, skipped, again
                    before = done


def _gaps(copied: Copied) -> Iterator[Finding]:
    """Yield what is missing in the target although something behind it was copied."""
    end = max([up for up, _ in copied.pairs], default=0)
    missing = [up for up, each in copied.source.items() if up < end and each not in copied.target]
    if missing:
        text = f"{len(missing)} records of the source were not copied, the first at {missing[0]}"
        yield Finding("mirror-gap", *copied.key, text, count=len(missing), offset=missing[0])


def _disorder(copied: Copied) -> Iterator[Finding]:
    """Yield the records that stand in the target before one that the source has before them."""
    wrong = [later for (_, one), (later, other) in pairwise(copied.pairs) if other < one]
    if wrong:
        text = f"{len(wrong)} records are in the target before their predecessors"
        yield Finding("mirror-disorder", *copied.key, text, count=len(wrong), offset=wrong[0])
