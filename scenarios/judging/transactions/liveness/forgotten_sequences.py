"""Stalls of a processor whose sequence numbers a leader has forgotten.

A leader forgets a producer that has appended nothing for producer.id.expiration.ms, and then takes
any sequence number of it. But if the producer's next batch is a marker, of a transaction that
brought no record to this partition, the leader knows the producer's epoch again and no sequence
(ProducerAppendInfo.appendEndTxnMarker). The next record has to have sequence 0
(ProducerAppendInfo.checkSequence) and gets OUT_OF_ORDER_SEQUENCE_NUMBER, as the producer counts on.

A producer asks for a new epoch after that, which begins at 0, but not while it is committing or
aborting (TransactionManager.maybeTransitionToErrorState, isCompleting). An application that commits
right after it has sent is always committing when the answer comes. It aborts, begins again under
the same epoch, and fails for ever. With transaction.version 2 each transaction has a new epoch.

A refusal makes a processor stuck only if it wanted to commit. One that it gets while it aborts, as
it chose to, leaves it as stuck as it was: the next commit would be refused as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kafkasim.model import facts
from kafkasim.scenarios.judging.source import FactSource, PartitionKey

FORGOTTEN_SEQUENCES = "forgotten-sequences"

_GROUP = re.compile(r"group (\S+) is at \d+ of \d+ in \S+ \(last read by (\S+)\)$")
_GIVEN = re.compile(r"group (\S+) was given records below \d+ of (\S+)-(\d+) and has committed ")
_BUSY = re.compile(r"(\S+) handles what it was given$")
_OPEN = re.compile(r"\S+ has an open transaction of producer id (\d+) from offset ")

Producer = tuple[int, int]  # (producer id, epoch)
Place = tuple[PartitionKey, Producer]


class ForgottenSequences:
    """Follows what leaders remember of transactional producers, and what these get for it.

    ``expiration_us`` is producer.id.expiration.ms. ``positions`` says where each group is in each
    partition, and which member read there last.
    """

    def __init__(
        self,
        trace: FactSource,
        expiration_us: int,
        positions: Mapping[tuple[str, PartitionKey], tuple[int, str]],
    ) -> None:
        self._trace = trace
        self._expiration_us = expiration_us
        self._positions = positions
        self._names: dict[str, str] = {}  # topic id -> topic
        self._producers: dict[str, Producer] = {}  # node -> of its last transaction
        self._ending: dict[str, bool] = {}  # node -> its transaction's end was asked for, a commit?
        self._appended: dict[Place, int] = {}  # when the last batch or marker was
        self._forgotten: dict[Place, None] = {}  # a marker is the first that the leader knows
        self._stuck: dict[str, PartitionKey] = {}  # node -> where it was refused
        trace.subscribe(facts.TopicCreated, self._on_topic)
        trace.subscribe(facts.TransactionBegun, self._on_begun)

    def excuse(self, line: str) -> str:
        """Return why Kafka would miss for ever what a line of a stalled run tells of, or ""."""
        if not self._stuck:
            return ""
        group, given, busy, opened = (each.match(line) for each in (_GROUP, _GIVEN, _BUSY, _OPEN))
        if opened is not None:
            stuck = any(self._producers[node][0] == int(opened[1]) for node in self._stuck)
        elif given is not None:
            stuck = self._reader(given[1], given[2], int(given[3])) in self._stuck
        else:
            found = group[2] if group is not None else busy[1] if busy is not None else ""
            stuck = found in self._stuck
        return FORGOTTEN_SEQUENCES if stuck else ""

    def _reader(self, group: str, topic: str, partition: int) -> str:
        """Return which member of a group read a partition last."""
        keys = [(id_, partition) for id_, name in self._names.items() if name == topic]
        return next(
            (node for key in keys for _, node in [self._positions.get((group, key), (0, ""))]), ""
        )

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        self._names[fact.topic_id] = fact.topic

    def _on_begun(self, _seq: int, _t: int, node: str, fact: facts.TransactionBegun) -> None:
        """Follow what is appended from the first transaction on: without one it costs nothing."""
        if not self._producers:
            self._trace.subscribe(facts.Appended, self._on_appended)
            self._trace.subscribe(facts.TransactionEnding, self._on_ending)
            self._trace.subscribe(facts.TransactionEnded, self._on_ended)
            self._trace.subscribe(facts.SendFailed, self._on_failed)
            self._trace.subscribe(facts.HostStopped, self._on_stopped)
        producer = (fact.producer_id, fact.producer_epoch)
        if self._producers.get(node) != producer:
            self._stuck.pop(node, None)
        self._producers[node] = producer
        self._ending.pop(node, None)

    def _on_appended(self, _seq: int, t: int, _node: str, fact: facts.Appended) -> None:
        if fact.producer_id < 0:
            return
        place = (fact.topic_id, fact.partition), (fact.producer_id, fact.producer_epoch)
        last = self._appended.get(place, t)
        self._appended[place] = t
        if fact.record_ids:
            self._forgotten.pop(place, None)
        elif t - last > self._expiration_us:
            self._forgotten[place] = None

    def _on_ending(self, _seq: int, _t: int, node: str, fact: facts.TransactionEnding) -> None:
        self._ending[node] = self._ending.get(node, False) or fact.committing

    def _on_ended(self, _seq: int, _t: int, node: str, fact: facts.TransactionEnded) -> None:
        if fact.outcome != "aborted":
            self._stuck.pop(node, None)

    def _on_failed(self, _seq: int, _t: int, node: str, fact: facts.SendFailed) -> None:
        key = (fact.topic_id, fact.partition)
        if node not in self._producers:
            return
        refused = fact.error == "OUT_OF_ORDER_SEQUENCE_NUMBER"
        forgotten = (key, self._producers[node]) in self._forgotten
        if not (refused and forgotten and node in self._ending):
            self._stuck.pop(node, None)
        elif self._ending[node]:
            self._stuck[node] = key

    def _on_stopped(self, _seq: int, _t: int, node: str, _fact: facts.HostStopped) -> None:
        self._stuck.pop(node, None)
