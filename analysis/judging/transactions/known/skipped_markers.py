"""Markers that a coordinator does not send, because it takes the partition for deleted.

A coordinator that knows no leader of a partition skips it and completes the transaction
(TransactionMarkerChannelManager.addTxnMarkersToBrokerQueue, case None). A broker of ZooKeeper mode
knows nothing when it starts. A controller that is elected tells it of no partition at first, then,
by the UpdateMetadata behind LeaderAndIsr, of those with a live replica (KafkaController
.onControllerFailover, ReplicaStateMachine.startup, sendRequestsToBrokers), and of the others when
their leaders are taken from them. LeaderAndIsr begins the load of coordinators. If that ends before
the second UpdateMetadata comes, a decided transaction in the log gets no marker anywhere; if it
ends after it, none where all replicas were down. It stays open there.
"""

from __future__ import annotations

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts
from kafkasim.model.facts.names import broker_of

SKIPPED_MARKER = "skipped-marker"
"""The excuse of what :class:`SkippedMarkers` explains."""

ELECTION = "/controller_epoch"
NEVER = (-1, -1)
"""Row and zxid of what has not been."""


class SkippedMarkers:
    """Follows what ZooKeeper controllers have told coordinators that skip a marker."""

    def __init__(self, trace: FactSource) -> None:
        self._topics: dict[str, str] = {}  # name -> id
        self._begun: dict[tuple[str, int], int] = {}
        """By transactional id and producer id the row in which the last transaction began"""
        self._started: dict[str, int] = {}  # node -> row
        self._elections = (-1, -1)  # the rows of the last two of a controller
        self._elected = -1  # the zxid of the last one
        self._changed: dict[PartitionKey, int] = {}  # the row of the last change
        self._replicas: dict[PartitionKey, tuple[int, ...]] = {}
        self._registered: dict[int, tuple[int, int]] = {}  # broker -> row, zxid
        self._updates: dict[str, int] = {}  # node -> how many UpdateMetadata its process has had
        self._skipped: dict[tuple[int, PartitionKey], None] = {}  # with the begin of a transaction
        self._open: dict[tuple[int, PartitionKey], None] = {}  # with the producer id
        for kind, handler in (
            (facts.TopicCreated, self._on_topic),
            (facts.TransactionBegun, self._on_begun),
            (facts.HostStarted, self._on_started),
            (facts.ZkControllerWrite, self._on_write),
            (facts.PartitionChanged, self._on_partition),
            (facts.BrokerRegistration, self._on_broker),
            (facts.ControlRequest, self._on_request),
            (facts.MarkerSkipped, self._on_skipped),
            (facts.MarkerWritten, self._on_marker),
        ):
            trace.subscribe(kind, handler)

    def excuse(self, begun: int, key: PartitionKey) -> str:
        """Return :data:`SKIPPED_MARKER` if the transaction that began in a row got no marker in a
        partition that its coordinator had not been told of, else ""."""
        return SKIPPED_MARKER if (begun, key) in self._skipped else ""

    def excuse_open(self, key: PartitionKey, producer_id: int) -> str:
        """Return the same of a transaction that a producer has open in a partition."""
        return SKIPPED_MARKER if (producer_id, key) in self._open else ""

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        self._topics[fact.topic] = fact.topic_id

    def _on_begun(self, seq: int, _t: int, _node: str, fact: facts.TransactionBegun) -> None:
        self._begun[fact.transactional_id, fact.producer_id] = seq

    def _on_started(self, seq: int, _t: int, node: str, _fact: facts.HostStarted) -> None:
        self._started[node] = seq
        self._updates[node] = 0

    def _on_write(self, seq: int, _t: int, _node: str, fact: facts.ZkControllerWrite) -> None:
        if fact.path == ELECTION:
            self._elections = (self._elections[1], seq)
            self._elected = fact.offset

    def _on_partition(self, seq: int, _t: int, _node: str, fact: facts.PartitionChanged) -> None:
        key = (fact.topic_id, fact.partition)
        self._replicas[key] = fact.replicas
        if fact.reason != "loaded":
            self._changed[key] = seq

    def _on_broker(self, seq: int, _t: int, _node: str, fact: facts.BrokerRegistration) -> None:
        if fact.change == "registered":
            self._registered[fact.broker] = (seq, fact.offset)

    def _on_request(self, _seq: int, _t: int, node: str, fact: facts.ControlRequest) -> None:
        if fact.api == "UpdateMetadata" and fact.error == "NONE":
            self._updates[node] = self._updates.get(node, 0) + 1

    def _on_skipped(self, seq: int, _t: int, node: str, fact: facts.MarkerSkipped) -> None:
        """Note a marker if nobody can have told this process of the partition.

        It has had one controller, which was elected after it started. Either that one has not
        changed the partition, and no replica of it was live; or the process has had one
        UpdateMetadata, and was registered at the election: that UpdateMetadata was empty.
        """
        before, elected = self._elections
        key = (self._topics.get(fact.topic, ""), fact.partition)
        begun = self._begun.get((fact.transactional_id, fact.producer_id))
        told = [self._changed.get(key, -1)]
        told += [self._registered.get(each, NEVER)[0] for each in self._replicas.get(key, ())]
        _, registered = self._registered.get(broker_of(node), NEVER)
        first = self._updates.get(node) == 1 and 0 <= registered < self._elected
        alone = before < self._started.get(node, -1) < elected
        if begun is not None and alone and (elected > max(told) or first):
            self._skipped[begun, key] = None
            self._open[fact.producer_id, key] = None

    def _on_marker(self, _seq: int, _t: int, _node: str, fact: facts.MarkerWritten) -> None:
        self._open.pop((fact.producer_id, (fact.topic_id, fact.partition)), None)
