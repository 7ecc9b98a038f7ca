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
from kafkasim.analysis.judging.workers import Workers
from kafkasim.model import facts
from kafkasim.model.connect.policies import POLICIES, DefaultReplicationPolicy, matches
from kafkasim.model.connect.rules import MirrorRules

STARTS = ("committed", "earliest", "latest")
"""The reasons with which a member's first position in a partition is set."""

ON_THE_WAY_US = 1_000_000
"""How long an offset sync may be on its way from the acknowledgement to the checkpoint task."""


@dataclass(frozen=True, slots=True)
class MirrorSettings:
    """A mirror: its node, the clusters, and replication.policy.class with its separator."""

    node: str
    source: str
    target: str
    policy: str
    separator: str
    settled_us: int = 0
    """After this time without faults, records and commits a checkpoint has no excuse; 0: none."""
    groups: str = ".*"
    groups_exclude: str = ""
    offset_lag_max: int = 100
    others: tuple[str, ...] = ()
    """Its other nodes."""
    zombie_us: int = 0
    """How long a worker may run on what the group has given to another one."""
    replay_us: int = 0
    """How long ago a record was acknowledged at most that is copied again; 0: not judged."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """All its nodes."""
        return (self.node, *self.others)

    @property
    def naming(self) -> DefaultReplicationPolicy:
        """What mirrored topics are called."""
        return POLICIES[self.policy](self.separator)

    def remote(self, topic: str) -> str:
        """Return the name of a source topic in the target."""
        return self.naming.remote_topic(self.source, topic)

    def follows(self, group: str) -> bool:
        """Return whether the mirror emits checkpoints of a group."""
        return matches(self.groups, group) and not matches(self.groups_exclude, group)


@dataclass(frozen=True, slots=True)
class Copied:
    """One partition of a mirrored topic at the end of the run.

    ``source`` is record id by offset in the source, in the order of offsets: what was acknowledged
    there and what the mirror has read. ``target`` is the first offset in the target by record id,
    also of the records that the target has removed since, and ``last`` the last one: a mirror that
    dies before it commits source offsets copies records twice.
    """

    topic: str  # in the source
    key: PartitionKey  # there
    remote: PartitionKey
    source: dict[int, int]
    acknowledged: tuple[int, ...]  # record ids
    target: dict[int, int]
    last: dict[int, int]
    twice: int  # records that are in the target once more
    gone: int  # that the target has removed
    removed: dict[int, None]  # offsets that the source removed before the mirror read them

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The offsets of each mirrored record: in the source and in the target."""
        return [(up, self.target[each]) for up, each in self.source.items() if each in self.target]

    def passed(self, offset: int, downstream: int) -> list[int]:
        """Return the offsets of records that one skips who goes on in the target.

        They are at or behind ``offset`` in the source, and all their copies before ``downstream``.
        """
        copied = [(up, self.last[each]) for up, each in self.source.items() if each in self.last]
        return [up for up, down in copied if up >= offset and down < downstream]


@dataclass(slots=True)
class _Followed:
    """What the facts say of one mirror."""

    read: dict[PartitionKey, dict[int, int]] = field(default_factory=dict)
    checkpoints: list[tuple[int, int, facts.CheckpointEmitted]] = field(default_factory=list)
    # By source partition and offset: when the record was first read, and last, in µs.
    first_reads: dict[PartitionKey, dict[int, int]] = field(default_factory=dict)
    reads: dict[PartitionKey, dict[int, int]] = field(default_factory=dict)
    positions: dict[PartitionKey, int] = field(default_factory=dict)
    removed: dict[PartitionKey, dict[int, None]] = field(default_factory=dict)
    acked_us: dict[int, int] = field(default_factory=dict)  # by record id: by the target, first
    # By source partition, of what it reads again first: the offset, how long ago its copy was
    # acknowledged before the last one of the partition was, in µs, and the row and its time.
    replays: dict[PartitionKey, tuple[int, int, int, int]] = field(default_factory=dict)

    def note_replay(self, key: PartitionKey, offset: int, seq: int, t: int) -> None:
        """Note from where a task copies a partition again."""
        acked_us = {up: self.acked_us.get(each, -1) for up, each in self.read[key].items()}
        if acked_us[offset] >= 0:
            self.replays[key] = offset, max(acked_us.values()) - acked_us[offset], seq, t


class Mirrored:
    """Follows the mirrors of a run on its whole trace."""

    def __init__(self, trace: FactSource, mirrors: Iterable[MirrorSettings]) -> None:
        self.mirrors = list(mirrors)
        self._by_node: dict[str, _Followed] = {}  # workers of one mirror share it
        for each in self.mirrors:
            self._by_node |= dict.fromkeys(each.nodes, _Followed())
        self._topics: dict[tuple[str, str], str] = {}  # (cluster, topic) -> its newest id
        self._acked: dict[PartitionKey, dict[int, int]] = {}  # offset -> record id
        self._copies: dict[PartitionKey, dict[int, int]] = {}  # the same, acknowledged to mirrors
        self._final: dict[PartitionKey, list[tuple[int, int]]] = {}  # (offset, record id)
        # By partition and producer: offset of a marker, and whether it commits.
        self._markers: dict[tuple[PartitionKey, int], dict[int, bool]] = {}
        # By group and partition, in order: the row, and how far the group had come by then.
        self._done: dict[tuple[str, PartitionKey], list[tuple[int, int]]] = {}
        # The same of the positions at which its members began.
        self._starts: dict[tuple[str, PartitionKey], list[tuple[int, int]]] = {}
        self._log_starts: dict[PartitionKey, int] = {}
        self._cleaned: dict[PartitionKey, dict[int, None]] = {}
        # By cluster, group, topic and partition: the row and time of the last commit, its offset.
        self._commits: dict[tuple[str, str, str, int], tuple[int, int, int]] = {}
        self._faults = 0  # that have not ended
        self._fault_us = 0  # when the last one began or ended
        self._end_us = 0
        self._workers = [Workers(trace, each.nodes, each.zombie_us) for each in self.mirrors]
        if self.mirrors:
            follow(trace, self)

    # Facts.

    def on_TopicCreated(self, _s: int, _t: int, node: str, fact: facts.TopicCreated) -> None:
        """Take the id of a topic."""
        self._topics[node.partition(".")[0], fact.topic] = fact.topic_id

    def on_Acked(self, _seq: int, t: int, node: str, fact: facts.Acked) -> None:
        """Take what a cluster has acknowledged, to mirrors and to others."""
        if fact.base_offset >= 0:
            followed = self._by_node.get(node)
            if followed is not None:
                for each in fact.record_ids:
                    followed.acked_us.setdefault(each, t)
            every = self._acked if followed is None else self._copies
            known = every.setdefault((fact.topic_id, fact.partition), {})
            known.update(enumerate(fact.record_ids, fact.base_offset))

    def on_Polled(self, seq: int, t: int, node: str, fact: facts.Polled) -> None:
        """Take what a mirror has read, and what was gone before it came there."""
        followed = self._by_node.get(node)
        if followed is not None:
            key = fact.topic_id, fact.partition
            known = followed.read.setdefault(key, {})
            if fact.offsets and fact.offsets[0] in known and key not in followed.replays:
                followed.note_replay(key, fact.offsets[0], seq, t)
            known.update(zip(fact.offsets, fact.record_ids, strict=True))
            followed.reads.setdefault(key, {}).update(dict.fromkeys(fact.offsets, t))
            first_reads = followed.first_reads.setdefault(key, {})
            for offset in fact.offsets:
                first_reads.setdefault(offset, t)
            start, cleaned = self._log_starts.get(key, 0), self._cleaned.get(key, {})
            passed = range(followed.positions.get(key, 0), fact.position)
            followed.removed.setdefault(key, {}).update(
                (each, None)
                for each in passed
                if each not in known and (each < start or each in cleaned)
            )
            followed.positions[key] = fact.position

    def on_LogStart(self, _seq: int, _t: int, _node: str, fact: facts.LogStart) -> None:
        """Take what retention or an operator removed."""
        key = fact.topic_id, fact.partition
        self._log_starts[key] = max(fact.offset, self._log_starts.get(key, 0))

    def on_Cleaned(self, _seq: int, _t: int, _node: str, fact: facts.Cleaned) -> None:
        """Take what compaction removed."""
        known = self._cleaned.setdefault((fact.topic_id, fact.partition), {})
        known.update(dict.fromkeys(fact.removed_offsets()))

    def on_OffsetCommitted(self, seq: int, t: int, node: str, fact: facts.OffsetCommitted) -> None:
        """Take a group's committed offset."""
        place = node.partition(".")[0], fact.group, fact.topic, fact.partition
        self._commits[place] = seq, t, fact.offset

    def on_FaultStarted(self, _seq: int, t: int, _node: str, _fact: facts.FaultStarted) -> None:
        """Note that a fault lasts."""
        self._faults += 1
        self._fault_us = t

    def on_FaultEnded(self, _seq: int, t: int, _node: str, _fact: facts.FaultEnded) -> None:
        """Note that a fault is over."""
        self._faults -= 1
        self._fault_us = t

    def on_Phase(self, _seq: int, t: int, _node: str, _fact: facts.Phase) -> None:
        """Take the time, at last that of the end."""
        self._end_us = t

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

    def on_MarkerWritten(self, _seq: int, _t: int, _node: str, fact: facts.MarkerWritten) -> None:
        """Take the end of a transaction in a partition."""
        place = (fact.topic_id, fact.partition), fact.producer_id
        self._markers.setdefault(place, {})[fact.offset] = fact.committed

    def _is_committed(self, key: PartitionKey, producer_id: int, offset: int) -> bool:
        """Return whether the next marker of a producer, if it has any, commits a batch."""
        markers = self._markers.get((key, producer_id), {})
        return markers.get(min([at for at in markers if at > offset], default=-1), True)

    def on_FinalReplica(self, _seq: int, _t: int, _node: str, fact: facts.FinalReplica) -> None:
        """Take a leader's log at the end, without what transactions have aborted or left open."""
        if not fact.leading:
            return
        ids = iter(fact.record_ids)
        key, end = (fact.topic_id, fact.partition), fact.last_stable_offset
        batches = zip(fact.base_offsets, fact.record_counts, fact.producer_ids, strict=True)
        self._final[key] = final = []
        for base, records, producer in batches:
            own = [(base + place, next(ids)) for place in range(records)]
            if base < end and self._is_committed(key, producer, base):
                final += own

    # The end.

    def finish(self) -> list[Finding]:
        """Return all findings."""
        work = [found for each in self._workers for found in each.finish()]
        return [found for mirror in self.mirrors for found in self._of(mirror)] + work

    def _of(self, mirror: MirrorSettings) -> Iterator[Finding]:
        for copied in self._copied(mirror):
            yield from _internal(copied)
            yield from _gaps(copied)
            yield from _disorder(copied)
            yield from self._replay(mirror, copied.key)
        yield from self._translations(mirror)
        yield from self._behind(mirror)
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

    def _replay(self, mirror: MirrorSettings, key: PartitionKey) -> Iterator[Finding]:
        """Yield that a task copies again what its source offsets should have covered."""
        replay = self._by_node[mirror.node].replays.get(key)
        if replay is None or not replay[1] > mirror.replay_us > 0:
            return
        offset, age_us, seq, t = replay
        text = (
            f"a task copies the partition again from offset {offset} on, whose copy was"
            f" acknowledged {age_us / 1e6:.1f} s before the last one; after"
            f" {mirror.replay_us / 1e6:.1f} s its source offset should have been committed"
        )
        yield Finding("mirror-replay", *key, text, offset=offset, seq=seq, t_us=t)

    def figures(self) -> list[str]:
        """Return a line for each mirror, and for each group that has failed over."""
        lines = []
        for mirror, workers in zip(self.mirrors, self._workers, strict=True):
            heartbeats = mirror.naming.is_heartbeats
            every = [each for each in self._copied(mirror) if not heartbeats(each.topic)]
            lost = sum(
                each not in copied.target for copied in every for each in copied.acknowledged
            )
            removed = sum(up in c.removed for c in every for up in c.source)
            copied, gone = sum(len(c.target) for c in every), sum(c.gone for c in every)
            lines.append(
                f"mirror {mirror.source}->{mirror.target}: {copied - gone} records are in"
                f" {mirror.target}, {sum(c.twice for c in every)} of them more than once;"
                f" {lost} that {mirror.source} has acknowledged are not (RPO)"
                + (f"; {mirror.source} had removed {removed} before they were read" * (removed > 0))
                + (f"; {mirror.target} has removed {gone} since they were copied" * (gone > 0))
            )
            lines += [f"workers {mirror.source}->{mirror.target}: {each}" for each in workers.told]
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
        followed = self._by_node[mirror.node]
        read = followed.read
        for (cluster, topic), topic_id in list(self._topics.items()):
            remote_id = self._topics.get((mirror.target, mirror.remote(topic)))
            if cluster != mirror.source or remote_id is None:
                continue
            numbers = sorted({key[1] for key in (*self._acked, *read) if key[0] == topic_id})
            for number in numbers:
                key, remote = (topic_id, number), (remote_id, number)
                acked, seen = self._acked.get(key, {}), read.get(key, {})
                final, first = self._final.get(remote, []), self._removed_copies(remote)
                left = dict.fromkeys([record for _, record in final])
                for offset, record in final:
                    first.setdefault(record, offset)
                last = first | {record: offset for offset, record in final}
                whole = dict(sorted({**acked, **seen}.items()))
                own = {record: first[record] for record in whole.values() if record in first}
                gone = sum(record not in left for record in own)
                twice = sum(record in own for _, record in final) - len(own) + gone
                removed = followed.removed.get(key, {})
                told = tuple(acked.values())
                yield Copied(topic, key, remote, whole, told, own, last, twice, gone, removed)

    def _removed_copies(self, remote: PartitionKey) -> dict[int, int]:
        """Return the offsets that mirrored records had before the target removed them, by id."""
        start, cleaned = self._log_starts.get(remote, 0), self._cleaned.get(remote, {})
        found: dict[int, int] = {}
        for offset, record in self._copies.get(remote, {}).items():
            if offset < start or offset in cleaned:
                found.setdefault(record, offset)
        return found

    def _translations(self, mirror: MirrorSettings) -> Iterator[Finding]:
        """Yield the checkpoints that skip records, and those that go back."""
        copied = {each.key: each for each in self._copied(mirror)}
        last: dict[tuple[str, PartitionKey], facts.CheckpointEmitted] = {}
        for seq, t, fact in self._by_node[mirror.node].checkpoints:
            key = (self._topics[mirror.source, fact.topic], fact.partition)
            made = partial(Finding, group=fact.group, seq=seq, t_us=t)
            of = copied.get(key)
            passed = [] if of is None else of.passed(fact.offset, fact.downstream)
            if passed:
                text = (
                    f"a checkpoint takes group {fact.group} from offset {fact.offset} to"
                    f" {fact.downstream}, behind {len(passed)} records that it has not read"
                )
                yield made("translated-past", *key, text, count=len(passed), offset=passed[0])
            pairs = [] if of is None else of.pairs
            again = [u for u, d in pairs if u < fact.offset and d >= fact.downstream]
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

    def _behind(self, mirror: MirrorSettings) -> Iterator[Finding]:
        """Yield the groups that stand still, and would read more again than they have to.

        Once all offset syncs are sent, a group at the end of what is mirrored reads nothing again.
        For another one the nearest sync is offset.lag.max away, or as far as OffsetSyncStore has
        thinned them out: at most four times as far as the group is behind the newest one.
        """
        if not mirror.settled_us or self._faults:
            return
        followed = self._by_node[mirror.node]
        last = {(c.group, c.topic, c.partition): c.downstream for _, _, c in followed.checkpoints}
        for copied in self._copied(mirror):
            topic, number = copied.topic, copied.key[1]
            for (cluster, group, *place), (_, t, offset) in self._commits.items():
                if [cluster, *place] != [mirror.source, topic, number] or not mirror.follows(group):
                    continue
                reads = followed.reads.get(copied.key, {})
                since = max([t, self._fault_us, *reads.values()])
                if since + mirror.settled_us > self._end_us:
                    continue
                down = last.get((group, topic, number), -1)
                again = [up for up, at in copied.pairs if up < offset and at >= down]
                behind = sum(up >= offset for up, _ in copied.pairs)
                most = mirror.offset_lag_max + 4 * behind if behind else 0
                if len(again) > most:
                    text = (
                        f"group {group} stands at offset {offset} and would read {len(again)}"
                        f" records again in {mirror.target}, where its checkpoint is"
                        f" {'missing' if down < 0 else down}; {most} are allowed"
                    )
                    yield Finding(
                        "checkpoint-behind", *copied.key, text, count=len(again), offset=again[0],
                        group=group,
                    )  # fmt: skip

    def _most_again(self, mirror: MirrorSettings, key: PartitionKey, t: int, offset: int) -> int:
        """Return how many records a group may read again that is translated from an offset.

        The newest sync is at most ``offset.lag.max`` records old, and what is written and read on
        the way to the store (OffsetSyncWriter). Of older ones the store keeps syncs so that two
        neighbours are at most four times as far apart as they are away from the newest one
        (OffsetSyncStore: 2^i against 2^(i−2)).
        """
        followed = self._by_node[mirror.node]
        reads, first_reads = followed.reads.get(key, {}), followed.first_reads.get(key, {})
        on_the_way = sum(t - ON_THE_WAY_US < at <= t for at in reads.values())
        behind = sum(up >= offset and at <= t for up, at in first_reads.items())
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
                    if done < 0:
                        done = self._committed_by(mirror.source, group, copied.key, seq)
                    if done > before:
                        own = self._done_by((group, remote), seq)
                        ahead = range(max(own, 0), start)
                        first = max(done, self._log_starts.get(copied.key, 0))
                        skipped = [up for up, down in copied.pairs if up >= first and down in ahead]
                        again = sum(up < done and down >= start for up, down in copied.pairs)
                        yield group, copied, skipped, again
                    before = done

    def _committed_by(self, cluster: str, group: str, key: PartitionKey, seq: int) -> int:
        """Return a group's committed offset by a row of the trace, −1 for none."""
        topic = next(name for (_, name), each in self._topics.items() if each == key[0])
        at, _, offset = self._commits.get((cluster, group, topic, key[1]), (seq, 0, -1))
        return offset if at < seq else -1


def _internal(copied: Copied) -> Iterator[Finding]:
    """Yield a topic of Connect's or MirrorMaker's own that was copied."""
    if copied.pairs and MirrorRules().is_internal(copied.topic):
        text = f"{copied.topic} is internal, and {len(copied.pairs)} of its records were copied"
        yield Finding("internal-mirrored", *copied.key, text, count=len(copied.pairs))


def _gaps(copied: Copied) -> Iterator[Finding]:
    """Yield what is missing in the target although something behind it was copied."""
    end = max([up for up, _ in copied.pairs], default=0)
    missing = [
        up
        for up, each in copied.source.items()
        if up < end and each not in copied.target and up not in copied.removed
    ]
    if missing:
        text = f"{len(missing)} records of the source were not copied, the first at {missing[0]}"
        yield Finding("mirror-gap", *copied.key, text, count=len(missing), offset=missing[0])


def _disorder(copied: Copied) -> Iterator[Finding]:
    """Yield the records that stand in the target before one that the source has before them."""
    wrong = [later for (_, one), (later, other) in pairwise(copied.pairs) if other < one]
    if wrong:
        text = f"{len(wrong)} records are in the target before their predecessors"
        yield Finding("mirror-disorder", *copied.key, text, count=len(wrong), offset=wrong[0])
