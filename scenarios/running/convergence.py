"""Whether a healed cluster has come to rest: what each of its hosts still waits for.

A cluster has converged when every process runs, every broker is unfenced, every partition has a
leader and its full ISR, no transaction is open, every producer has its answers, and every group has
read to the high watermark of what it subscribes to. Processors must have committed what they were
given, and share groups must have done all records.

This decides how long a run lasts. It looks at the hosts' own state (logs of leaders, positions of
consumers, caches of share partitions, what applications say), and at what controllers have told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from kafkasim.analysis.judging.history.topics import offsets_partition
from kafkasim.analysis.judging.progress import Progress
from kafkasim.analysis.judging.promise import FactSource, follow
from kafkasim.analysis.judging.source import RESETS, PartitionKey
from kafkasim.analysis.judging.wait import (
    COMMIT,
    DOWN,
    FENCED,
    LEADERLESS,
    NOT_LED,
    OPEN,
    OWNER,
    POLL,
    READ,
    RECORD,
    SENDS,
    SHARES,
    SHORT,
    Wait,
)
from kafkasim.model import facts
from kafkasim.model.client.process import ClientProcess
from kafkasim.model.client.producer.producer import KafkaProducer
from kafkasim.model.facts.names import node_of
from kafkasim.model.records import GROUP_METADATA_TOPIC, TopicPartition
from kafkasim.model.replication.partitions.partition import Partition
from kafkasim.model.replication.share.partition.share_partition import SharePartition
from kafkasim.model.replication.share.partition.states import FINAL
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.running.client_hosts import subscribed_topics
from kafkasim.scenarios.running.cluster import Cluster
from kafkasim.sim.host.lifecycle import Host

NOTED_US = 1_000_000
"""How often all waits are noted, to say since when each lasts."""

Place = tuple[str, PartitionKey]
"""A group and a partition."""


class Convergence:
    """Looks at the hosts of one run."""

    def __init__(
        self, trace: FactSource, scenario: Scenario, cluster: Cluster, progress: Progress
    ) -> None:
        self._scenario = scenario
        self._cluster = cluster
        self._control = cluster.clients.control
        self._progress = progress
        self._since: dict[Wait, int] = {}  # when each wait was first seen, in µs
        self._noted_us = -NOTED_US
        self._read = ReadSoFar(trace)
        self._given = GivenSoFar(trace, progress)

    def waits(self) -> list[Wait]:
        """Return what the cluster still lacks, nothing once it has converged."""
        now = self._cluster.world.now
        found = dict.fromkeys(self._all())
        since = {each.identity(): now for each in found}
        self._since = since | {each: at for each, at in self._since.items() if each in since}
        return [replace(each, since_us=self._since[each.identity()]) for each in found]

    def is_reached(self) -> bool:
        """Return whether nothing is lacking; looks at everything once a second only."""
        now = self._cluster.world.now
        if now >= self._noted_us + NOTED_US:
            self._noted_us = now
            return not self.waits()
        return next(self._all(), None) is None

    def _all(self) -> Iterator[Wait]:
        yield from self._of_servers()
        yield from self._of_clients()
        yield from self._of_readers()

    def unread(self, waits: Iterable[Wait]) -> dict[str, int]:
        """Return how many offsets each group has not done; nothing if anything else is missing.

        A processor that has only to read on handles a poll, and has a transaction open, any time.
        """
        records: dict[str, int] = {}
        for wait in waits:
            if wait.what in (READ, SHARES, COMMIT):
                count = wait.end - max(wait.offset, 0)
                records[wait.group] = records.get(wait.group, 0) + count
            elif not self._given.is_in_a_poll(wait):
                return {}
        return records

    def sends_done(self, before_us: int) -> bool:
        """Return whether all producers have the results of what they were given before a time.

        What comes later is not asked for, since an application may go on sending for ever.
        """
        world = self._cluster.world
        return not any(
            client.oldest_send_us <= host.local_now() - (world.now - before_us)
            for host in world.hosts.values()
            if isinstance(host.process, ClientProcess)
            for client in host.process.clients.values()
            if isinstance(client, KafkaProducer)
        )

    def unanswered(self) -> list[str]:
        """Return the share groups of which a leader answers no acknowledgement (KAFKA.md, 3.6)."""
        found = [share for host in self._cluster.brokers for share in self._shares_on(host)]
        return [share.group_id for share in found if share.active and share.cache.start_lacks_state]

    # Servers.

    def _of_servers(self) -> Iterator[Wait]:
        hosts = [host for host in self._cluster.world.hosts.values() if host.incarnation >= 0]
        down = [host.name for host in hosts if not host.alive]
        control = self._control  # applications have ended these
        over = (*control.ended, *control.returned, *control.restarting)
        yield from [Wait(DOWN, name) for name in down if name not in over]
        alive = [host.name for host in hosts if host.alive]
        awaited = [node_of(broker) for broker in self._progress.awaited]
        yield from [Wait(FENCED, name) for name in awaited if name in alive]
        yield from [self._unsettled(key) for key in self._progress.unsettled()]
        for key, partition in self._led():
            for offset, producer_id in partition.log.transactions.undecided.items():
                yield replace(self._at(OPEN, key), producer_id=producer_id, offset=offset)

    def _unsettled(self, key: PartitionKey) -> Wait:
        change = self._progress.partitions[key]
        if change.leader == -1:
            return self._at(LEADERLESS, key)
        if self._progress.leading.get(key, (-1, ""))[0] < change.leader_epoch:
            epoch = change.leader_epoch
            return replace(self._at(NOT_LED, key), host=node_of(change.leader), end=epoch)
        return replace(
            self._at(SHORT, key), detail=f"ISR {list(change.isr)} of {list(change.replicas)}"
        )

    def _at(self, what: str, key: PartitionKey) -> Wait:
        return Wait(what, topic_id=key[0], partition=key[1], name=self._progress.name(key))

    def _led(self) -> Iterator[tuple[PartitionKey, Partition]]:
        """Yield the leaders of users' partitions."""
        for key in self._progress.partitions:
            created = self._progress.topics.get(key[0])
            if created is not None and not created.topic.startswith("__"):
                partition = self._leader_of(key)
                if partition is not None:
                    yield key, partition

    def _leader_of(self, key: PartitionKey) -> Partition | None:
        """Return the replica that leads a partition in its newest leader epoch, or None."""
        _, node = self._progress.leading.get(key, (-1, ""))
        process = None if not node else self._cluster.broker_process(node)
        if process is None or key[0] not in self._progress.topics:
            return None
        tp = TopicPartition(self._progress.topics[key[0]].topic, key[1])
        hosted = process.replicas.partitions.get(tp)
        return hosted if hosted is not None and hosted.leading else None

    # Clients.

    def _of_clients(self) -> Iterator[Wait]:
        control = self._control
        flushed = control.flushed.items()
        yield from [Wait(SENDS, node) for node, done in flushed if not done and self._runs(node)]
        for node, text in control.stumbling.items():
            yield Wait(RECORD, node, detail=text)
        busy = control.busy.items()
        yield from [Wait(POLL, node) for node, polls in busy if polls and self._runs(node)]

    def _runs(self, node: str) -> bool:
        return node not in self._control.ended

    # Readers.

    def _of_readers(self) -> Iterator[Wait]:
        known = self._control.topic_ids
        for workload, nodes in self._cluster.clients.readers:
            if not any(self._runs(node) for node in nodes):
                continue  # nobody asks for its topics, or another workload of the group does
            names = subscribed_topics(workload, self._scenario, list(known))
            topic_ids = [known[name] for name in names]
            if workload.kind == "share-group":
                yield from self._of_share_group(workload.group, topic_ids)
                continue
            old = workload.kind == "consumer-group" and workload.protocol == "zookeeper"
            yield from self._behind(workload.group, topic_ids, self._read.resets if old else {})
            if old:
                yield from self._unowned(workload.group, topic_ids)
            if workload.kind == "processor":
                yield from self._given.uncommitted(workload.group, topic_ids)
        for group, names in self._cluster.clients.streams_inputs.items():
            if any(self._runs(node) for node in self._cluster.clients.members[group]):
                topic_ids = [known[name] for name in names if name in known]
                yield from self._behind(group, topic_ids, {})
                yield from self._given.uncommitted(group, topic_ids)

    def _behind(
        self, group: str, topic_ids: list[str], resets: Mapping[tuple[Place, str], int]
    ) -> Iterator[Wait]:
        """Yield where a group has not read on.

        An old consumer that was reset goes on there, but is given first what it had fetched before
        (ConsumerFetcherThread.handleOffsetOutOfRange leaves the queue), so ``resets`` count.
        """
        held = self._held(group)
        for key, end in self._progress.exposed_of(topic_ids).items():
            position, node = held.get(key) or self._read.last.get((group, key), (0, "nobody"))
            if max(position, resets.get(((group, key), node), -1)) < end:
                wait = replace(self._at(READ, key), group=group, host=node)
                wait = replace(wait, detail=self._read.why_unread(node))
                yield replace(wait, offset=position, end=end)

    def _held(self, group: str) -> dict[PartitionKey, tuple[int, str]]:
        """Return the highest position of a running consumer in each partition that one holds."""
        held: dict[PartitionKey, tuple[int, str]] = {}
        for node in self._cluster.clients.members.get(group, ()):
            for fact in self._positions(self._cluster.world.hosts[node]):
                if fact.group == group:
                    key = (fact.topic_id, fact.partition)
                    held[key] = max(held.get(key, (-1, "")), (fact.position, node))
        return held

    def _positions(self, host: Host) -> list[facts.FinalPosition]:
        found = [] if host.process is None else host.process.ground_truth()
        return [fact for fact in found if isinstance(fact, facts.FinalPosition)]

    def _unowned(self, group: str, topic_ids: list[str]) -> Iterator[Wait]:
        for key in [key for key in self._progress.partitions if key[0] in topic_ids]:
            wait = replace(self._at(OWNER, key), group=group)
            if (group, wait.name) not in self._read.owners:
                yield wait

    # Share groups.

    def _of_share_group(self, group: str, topic_ids: list[str]) -> Iterator[Wait]:
        for key, end in self._progress.exposed_of(topic_ids).items():
            share = self._share(group, key)
            start = 0 if share is None else share.cache.start_offset
            if start < end and not (share and self._is_done(share, key, end)):
                yield replace(self._at(SHARES, key), group=group, offset=start, end=end)

    def _share(self, group: str, key: PartitionKey) -> SharePartition | None:
        _, node = self._progress.leading.get(key, (-1, ""))
        host = self._cluster.world.hosts[node] if node else None
        found = [] if host is None else self._shares_on(host)
        return next(
            (
                share
                for share in found
                if share.active
                and (share.group_id, share.topic_id, share.tp.partition) == (group, *key)
            ),
            None,
        )

    def _shares_on(self, host: Host) -> list[SharePartition]:
        process = self._cluster.broker_process(host.name)
        return [] if process is None else list(process.kafka.shares.shares.values())

    def _is_done(self, share: SharePartition, key: PartitionKey, end: int) -> bool:
        """Return whether nothing is left of what the log has below ``end``.

        The start offset may stay in front of records that are all done, until a new one comes
        (KAFKA.md, 3.6). Nobody waits for anything there.
        """
        partition = self._leader_of(key)
        states = [
            (first, last, state.state in FINAL and not state.in_transition)
            for batch in share.cache
            for first, last, state in batch.states()
        ]
        if partition is None or not all(done for _, _, done in states):
            return False
        done = {offset for first, last, _ in states for offset in range(first, last + 1)}
        batches = [batch for segment in partition.log.segments for batch in segment.batches]
        return all(
            offset in done
            for batch in batches
            for offset in range(
                max(batch.base_offset, share.cache.start_offset), min(batch.last_offset + 1, end)
            )
        )


class ReadSoFar:
    """Follows where consumers were: a partition that nobody holds was read by its last one."""

    def __init__(self, trace: FactSource) -> None:
        self.last: dict[Place, tuple[int, str]] = {}  # position, and the host that told it
        self.owners: dict[tuple[str, str], str] = {}  # (group, topic-partition) -> old consumer
        self.resets: dict[tuple[Place, str], int] = {}  # by host: where its last reset led to
        self._without: str = ""  # why no group has a coordinator
        follow(trace, self)

    def why_unread(self, node: str) -> str:
        """Return who has read a partition last, or why nobody could."""
        if node == "nobody" and self._without:
            return f"no group has a coordinator: {self._without}"
        return f"last read by {node}"

    def on_CreationRefused(self, _s: int, _t: int, _n: str, fact: facts.CreationRefused) -> None:
        """Take why there is no topic of offsets."""
        if fact.topic == GROUP_METADATA_TOPIC:
            self._without = f"{fact.topic} cannot be created, {fact.error} ({fact.reason})"

    def on_TopicCreated(self, _s: int, _t: int, _n: str, fact: facts.TopicCreated) -> None:
        """Note that groups can have coordinators."""
        if fact.topic == GROUP_METADATA_TOPIC:
            self._without = ""

    def on_Positioned(self, _seq: int, _t: int, node: str, fact: facts.Positioned) -> None:
        """Take a position that a consumer begins at."""
        place = (fact.group, (fact.topic_id, fact.partition))
        self.resets.pop((place, node), None)
        if fact.reason in RESETS:
            self.resets[place, node] = fact.offset
        if fact.reason != "none":
            self.last[place] = (fact.offset, node)

    def on_Polled(self, _seq: int, _t: int, node: str, fact: facts.Polled) -> None:
        """Take the position after a poll."""
        self.last[fact.group, (fact.topic_id, fact.partition)] = (fact.position, node)

    def on_PartitionOwner(self, _seq: int, _t: int, _n: str, fact: facts.PartitionOwner) -> None:
        """Take the owner that an old consumer writes into ZooKeeper."""
        place = (fact.group, f"{fact.topic}-{fact.partition}")
        if fact.event == "claimed":
            self.owners[place] = fact.member_id
        elif fact.event == "released":
            self.owners.pop(place, None)


class GivenSoFar:
    """Follows what processors were given and have committed.

    A member's position says what poll() has returned, not what became of it: the transaction may be
    under way, and a process that has just crashed will be given the records again. A coordinator
    that loads its log may find a commit there that its predecessor never told of; what was given
    before is then not asked for.
    """

    def __init__(self, trace: FactSource, progress: Progress) -> None:
        self._progress = progress
        self._nodes: dict[str, str] = {}  # of processors, with their groups
        self._producer_ids: dict[int, None] = {}  # of their transactions
        self._given: dict[Place, int] = {}  # the offset after the last record
        self._committed: dict[tuple[str, str, int], int] = {}
        follow(trace, self)

    def uncommitted(self, group: str, topic_ids: Iterable[str]) -> Iterator[Wait]:
        """Yield the partitions of which a group was given records that it has not committed."""
        for (of, key), end in self._given.items():
            if of == group and key[0] in topic_ids:
                topic, name = self._progress.topics[key[0]].topic, self._progress.name(key)
                committed = self._committed.get((group, topic, key[1]), -1)
                if committed < end:
                    yield Wait(COMMIT, "", *key, name, group, offset=committed, end=end)

    def is_in_a_poll(self, wait: Wait) -> bool:
        """Return whether a processor's poll is all that is waited for."""
        if wait.what == OPEN:
            return wait.producer_id in self._producer_ids
        return wait.what == POLL and wait.host in self._nodes

    def on_ProcessorStarted(self, _s: int, _t: int, n: str, fact: facts.ProcessorStarted) -> None:
        """Follow a processor."""
        self._nodes[n] = fact.group

    def on_StreamsStarted(self, _s: int, _t: int, n: str, fact: facts.StreamsStarted) -> None:
        """Follow an application of Kafka Streams that writes in transactions, as a processor."""
        if fact.guarantee == "exactly_once_v2":
            self._nodes[n] = fact.group

    def on_TransactionBegun(self, _s: int, _t: int, n: str, fact: facts.TransactionBegun) -> None:
        """Take the producer id of a processor."""
        if n in self._nodes:
            self._producer_ids[fact.producer_id] = None

    def on_Polled(self, _seq: int, _t: int, node: str, fact: facts.Polled) -> None:
        """Take what a processor was given."""
        if fact.offsets and self._nodes.get(node) == fact.group:
            self._given[fact.group, (fact.topic_id, fact.partition)] = fact.offsets[-1] + 1

    def on_Positioned(self, _seq: int, _t: int, _node: str, fact: facts.Positioned) -> None:
        """Forget what was given before: what lies behind the new position is given again."""
        if fact.reason != "none":
            self._given.pop((fact.group, (fact.topic_id, fact.partition)), None)

    def on_OffsetCommitted(self, _s: int, _t: int, _n: str, fact: facts.OffsetCommitted) -> None:
        """Take a commit."""
        if self._nodes:
            self._committed[fact.group, fact.topic, fact.partition] = fact.offset

    def on_CoordinatorLoaded(self, _s: int, _t: int, _n: str, f: facts.CoordinatorLoaded) -> None:
        """Forget what was given under another coordinator."""
        topics = self._progress.topics
        for group in dict.fromkeys(self._nodes.values()):
            if offsets_partition(group, topics)[1] == f.partition:
                for place in [each for each in self._given if each[0] == group]:
                    del self._given[place]
