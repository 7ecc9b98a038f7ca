"""Progress: a healed cluster comes to rest; if it does not, a known root holds it back.

A run that stands still has waits (``wait.py``). Each is followed to what it depends on:

    a group          its partition of __consumer_offsets; its members
    a share group    its partitions of __consumer_offsets and __share_group_state
    a client         its groups; its transactional id
    a producer id    its transactional id
    a transactional id  its partition of __transaction_state; the partitions of its last transaction
    a partition      the transactions that are open in it; the members of its ISR that are down, and
                     the replicas out of the ISR if nobody leads or min.insync.replicas is not met
    a broker         the metadata quorum; so does a controller that has lost its disk

The walk ends at a root: a hole (``holes.py``), a loss, a broker that ended itself, a quorum that
lost its voters. A wait whose walk finds no root is a finding that nothing covers (``no-progress``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafkasim.analysis.judging.finding import NO_PROGRESS, Finding
from kafkasim.analysis.judging.history.history import History
from kafkasim.analysis.judging.history.topics import coordinator_partition, offsets_partition
from kafkasim.analysis.judging.holes import Place
from kafkasim.analysis.judging.progress import Progress
from kafkasim.analysis.judging.promise import FactSource, follow
from kafkasim.analysis.judging.settings import Settings
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.analysis.judging.wait import DOWN, FENCED, NOT_LED, OPEN, READ, SHORT, Wait
from kafkasim.model import facts
from kafkasim.model.facts.names import broker_of, node_of
from kafkasim.model.records import TRANSACTION_STATE_TOPIC


class Node(NamedTuple):
    """What may wait or be waited for: its kind, and its names."""

    kind: str  # group | share | client | producer | id | partition | broker | quorum
    name: str = ""  # of a group, a client or a transactional id
    key: PartitionKey = ("", -1)
    number: int = -1  # broker id, producer id


QUORUM = Node("quorum")

LATE_SESSION = "late-session"
"""The root of a broker that ended itself, because no controller registered it in time.

Controllers refuse a new process as long as the one before it has a valid session, and each election
begins that anew (ClusterControlManager.registerBroker, activate). Only an operator starts it again
(BrokerLifecycleManager.RegistrationTimeoutEvent)."""


class Standstill:
    """Follows what the parts of a cluster depend on.

    ``settings`` have the transactional ids of client hosts, and the hosts of each group.
    """

    def __init__(
        self, trace: FactSource, history: History, progress: Progress, settings: Settings
    ) -> None:
        self._history, self._progress = history, progress
        self._ids, self._members = settings.transactional_ids, settings.members
        self.waits: list[Wait] = []  # at the end of the run
        self._holes = history.holes
        self._ended: dict[str, None] = {}  # hosts whose process ended itself and is down
        self._full: dict[str, None] = {}  # hosts whose disk is full since their process started
        self._failed: dict[tuple[PartitionKey, str], None] = {}  # replicas that fetch no more
        self._owners: dict[int, str] = {}  # producer id -> transactional id
        self._touched: dict[str, dict[PartitionKey, None]] = {}  # by id, of its last transaction
        self._minima: dict[str, int] = {}  # topic -> the highest min.insync.replicas
        self._roles: dict[str, facts.RaftRole] = {}
        self._epoch = -1  # the highest one of the quorum
        self._lost_disks: dict[str, None] = {}  # controllers with another disk
        self._voters_changed = False
        self._open: dict[PartitionKey, dict[int, None]] = {}  # producer ids, from the waits
        follow(trace, self)

    def finish(self) -> list[Finding]:
        """Return a finding for each wait at the end of a run, with its root if one is known."""
        return [
            Finding(
                NO_PROGRESS, wait.topic_id, wait.partition, str(wait), 1, self.root(wait),
                offset=wait.offset, group=wait.group,
            )
            for wait in self.waits
        ]  # fmt: skip

    @property
    def excuse(self) -> str:
        """The root of a run that stands still, "" if one of its waits has none."""
        roots = [self.root(wait) for wait in self.waits]
        return roots[0] if roots and all(roots) else ""

    def unread(self) -> dict[tuple[str, PartitionKey], int]:
        """Return where the groups are that have not read on, by group and partition."""
        return {(each.group, each.key): each.offset for each in self.waits if each.what == READ}

    def left_open(self) -> dict[PartitionKey, int]:
        """Return from which offset on partitions have open transactions."""
        first: dict[PartitionKey, int] = {}
        for wait in [each for each in self.waits if each.what == OPEN]:
            first[wait.key] = min(wait.offset, first.get(wait.key, wait.offset))
        return first

    def root(self, wait: Wait) -> str:
        """Return the root of a wait, "" if the walk finds none."""
        todo = list(self._begin(wait))
        seen = dict.fromkeys(todo)
        while todo:
            node = todo.pop(0)
            found = self._root_of(node)
            if found:
                return found
            new = [each for each in self._needs(node) if each not in seen]
            seen.update(dict.fromkeys(new))
            todo += new
        return ""

    # The walk.

    def _begin(self, wait: Wait) -> Iterator[Node]:
        if wait.topic_id:
            yield _partition(wait.key)
            if wait.what == SHORT:
                change = self._progress.partitions[wait.key]
                yield from [_broker(each) for each in change.replicas if each not in change.isr]
        if wait.group:
            yield Node("group", wait.group)
            yield Node("share", wait.group, wait.key)
        if wait.producer_id >= 0:
            yield Node("producer", number=wait.producer_id)
        if wait.what in (DOWN, FENCED, NOT_LED) and wait.host.startswith("broker-"):
            yield _broker(broker_of(wait.host))
        elif wait.what == DOWN:
            yield from [QUORUM] if wait.host in self._lost_disks else []
        elif wait.host:
            yield Node("client", wait.host)

    def _needs(self, node: Node) -> Iterator[Node]:
        topics = self._progress.topics
        if node.kind == "group":
            yield _partition(offsets_partition(node.name, topics))
            yield from [Node("client", each) for each in self._members.get(node.name, ())]
        elif node.kind == "share":
            topic_id, number = node.key
            name = f"{node.name}:{topic_id}:{number}"  # SharePartitionKey.asCoordinatorKey
            yield _partition(coordinator_partition("__share_group_state", name, topics))
        elif node.kind == "client":
            if node.name in self._ids:
                yield Node("id", self._ids[node.name])
            for group, hosts in self._members.items():
                if node.name in hosts:
                    yield Node("group", group)
        elif node.kind == "producer" and node.number in self._owners:
            yield Node("id", self._owners[node.number])
        elif node.kind == "id":
            yield _partition(coordinator_partition(TRANSACTION_STATE_TOPIC, node.name, topics))
            yield from [_partition(key) for key in self._touched.get(node.name, ())]
        elif node.kind == "partition":
            yield from self._of_partition(node.key)
        elif node.kind == "broker":
            yield QUORUM

    def _of_partition(self, key: PartitionKey) -> Iterator[Node]:
        yield from [Node("producer", number=each) for each in self._open.get(key, ())]
        change = self._progress.partitions.get(key)
        if change is None:
            return
        brokers = dict.fromkeys([*change.isr, *change.elr, *change.replicas])
        minimum = min(self._minimum(key), len(change.replicas))
        if change.leader >= 0 and len(change.isr) >= minimum:
            brokers = {each: None for each in change.isr if node_of(each) in self._ended}
        yield from [_broker(each) for each in brokers]

    def _minimum(self, key: PartitionKey) -> int:
        created = self._progress.topics[key[0]]
        return max(created.min_isr, self._minima.get(created.topic, 0), self._minima.get("", 0))

    # Roots.

    def _root_of(self, node: Node) -> str:
        if node.kind == "partition":
            return self._root_of_partition(node.key)
        if node.kind == "quorum":
            return self._root_of_quorum()
        if node.kind == "broker":
            ended = node_of(node.number) in self._ended
            gave_up = (self._root_of_quorum() or LATE_SESSION) if ended else ""
            return self._covered(Place(broker=node.number)) or gave_up
        if node.kind == "producer":
            return self._covered(Place(producer_id=node.number))
        if node.kind == "id":
            return self._covered(Place(transactional_id=node.name))
        return self._covered(Place(*node.key, group=node.name))

    def _root_of_partition(self, key: PartitionKey) -> str:
        losses = self._history.losses(key)
        if losses and (self._is_internal(key) or key in self._open):
            return losses[0].reason
        failed = any(place[0] == key for place in self._failed)
        return (failed and self._history.excuse(key)) or self._covered(Place(*key))

    def _is_internal(self, key: PartitionKey) -> bool:
        """Return whether coordinators keep their state in a partition: what is lost of it, nobody
        writes again. Of users' partitions that is the marker of an open transaction."""
        return self._progress.name(key).startswith("__")

    def _root_of_quorum(self) -> str:
        leads = [role for role in self._roles.values() if role.role == "leader"]
        leads = [role for role in leads if role.epoch == self._epoch]
        if leads or not (self._lost_disks or self._voters_changed):
            return ""
        return "lost-voters"

    def _covered(self, place: Place) -> str:
        return self._holes.covering(NO_PROGRESS, place)

    # Following.

    def on_Waiting(self, _seq: int, t: int, _node: str, fact: facts.Waiting) -> None:
        """Take a wait."""
        key = fact.topic_id, fact.partition
        name = self._progress.name(key) if fact.topic_id else ""
        of = fact.what, fact.host, *key, name, fact.group, fact.producer_id
        wait = Wait(*of, fact.offset, fact.end_offset, fact.detail, t - fact.waited_us)
        self.waits.append(wait)
        if wait.producer_id >= 0:
            self._open.setdefault(key, {})[wait.producer_id] = None

    def on_HostStarted(self, _seq: int, _t: int, node: str, _fact: facts.HostStarted) -> None:
        """Take back that a host is down; its replicas begin anew."""
        self._ended.pop(node, None)
        self._full.pop(node, None)
        for each in [each for each in self._failed if each[1] == node]:
            del self._failed[each]

    def on_HostStopped(self, _seq: int, _t: int, node: str, fact: facts.HostStopped) -> None:
        """Note a process that ended itself: only an operator starts it again.

        One that a full disk has ended has no excuse: the disk is too small for the retention.
        """
        self._roles.pop(node, None)
        if fact.reason == "halt" and node not in self._full:
            self._ended[node] = None

    def on_DiskFilled(self, _seq: int, _t: int, node: str, _fact: facts.DiskFilled) -> None:
        """Note a disk that has no room."""
        self._full[node] = None

    def on_ReplicaFailed(self, _seq: int, _t: int, node: str, fact: facts.ReplicaFailed) -> None:
        """Note a follower that has given a partition up (markPartitionFailed)."""
        self._failed[(fact.topic_id, fact.partition), node] = None

    def on_BecameFollower(self, _seq: int, _t: int, node: str, fact: facts.BecameFollower) -> None:
        """Note that a replica fetches again, in a newer leader epoch."""
        self._failed.pop(((fact.topic_id, fact.partition), node), None)

    def on_TransactionBegun(
        self, _seq: int, _t: int, _node: str, fact: facts.TransactionBegun
    ) -> None:
        """Take the owner of a producer id."""
        self._owners[fact.producer_id] = fact.transactional_id

    def on_TransactionState(
        self, _seq: int, _t: int, _node: str, fact: facts.TransactionState
    ) -> None:
        """Take the owner of a producer id, and the partitions of its transaction."""
        self._owners[fact.producer_id] = fact.transactional_id
        if fact.assignment:
            names = {self._progress.name(key): key for key in self._progress.partitions}
            found = [names[name] for name in fact.assignment if name in names]
            self._touched[fact.transactional_id] = dict.fromkeys(found)

    def on_ConfigChanged(self, _seq: int, _t: int, _node: str, fact: facts.ConfigChanged) -> None:
        """Take a min.insync.replicas; "" stands for all topics."""
        if fact.config == "min.insync.replicas" and fact.value is not None:
            kind, _, name = fact.resource.partition(":")
            topic = name if kind == "topic" else ""
            self._minima[topic] = max(self._minima.get(topic, 0), int(fact.value))

    def on_RaftRole(self, _seq: int, _t: int, node: str, fact: facts.RaftRole) -> None:
        """Take the role of a controller."""
        self._roles[node] = fact
        self._epoch = max(self._epoch, fact.epoch)

    def on_DiskReplaced(self, _seq: int, _t: int, node: str, fact: facts.DiskReplaced) -> None:
        """Note a controller that is another replica of the quorum from now on."""
        if fact.directory_ids:
            self._lost_disks[node] = None

    def on_VotersChanged(self, _seq: int, _t: int, _node: str, fact: facts.VotersChanged) -> None:
        """Note that the set of voters was changed (KIP-853)."""
        self._voters_changed = self._voters_changed or fact.offset > 0


def _partition(key: PartitionKey) -> Node:
    return Node("partition", key=key)


def _broker(broker: int) -> Node:
    return Node("broker", number=broker)
