"""handover-redelivery: a member with auto-commit revokes more than its last commit covers.

Before partitions are revoked, the member commits its positions and waits for the response.
Meanwhile poll() returns no records of these partitions (ConsumerCoordinator.onJoinPrepare with
maybeMarkPartitionsPendingRevocation, KAFKA-14196; ConsumerMembershipManager.maybeReconcile). So if
the commit was acknowledged and the partitions are then revoked, the next owner begins after the
last record that this member's application got.

Kafka promises nothing more. If the commit fails, or max.poll.interval.ms ends the wait for it, the
member gives up the partitions nevertheless. Lost partitions (onPartitionsLost) cannot be committed.
A cooperative member of a classic group continues with its partitions while it commits, and commits
nothing when it revokes them (KIP-429). Only the commits before a revocation have ``revoking`` in
the fact CommitResult. Commits that the application itself makes are not judged.
"""

from __future__ import annotations

from dataclasses import replace

from kafkasim.analysis.judging.finding import Finding
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.readers.passed import Readers
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts

Owned = tuple[str, str, str, int]
"""Group, member, topic name and partition: a client commits positions by name."""


class Redeliveries:
    """Follows one run; :meth:`finish` returns an anomaly for each partition and group."""

    def __init__(self, trace: FactSource, readers: Readers) -> None:
        self._readers = readers
        self._covered: dict[Owned, int] = {}  # what the commit before the rebalance acknowledged
        self._found: dict[tuple[PartitionKey, str], list[Finding]] = {}
        trace.subscribe(facts.CommitResult, self._on_result)
        trace.subscribe(facts.ConsumerRevoked, self._on_revoked)

    def _on_result(self, _seq: int, _t: int, _node: str, fact: facts.CommitResult) -> None:
        if not fact.revoking:
            return
        name = self._readers.topics.name.get(fact.topic_id, "")
        owned = (fact.group, fact.member_id, name, fact.partition)
        if fact.error == "NONE":
            self._covered[owned] = fact.offset
        else:
            self._covered.pop(owned, None)

    def _on_revoked(self, seq: int, _t: int, node: str, fact: facts.ConsumerRevoked) -> None:
        for name in fact.assignment:
            topic, _, number = name.rpartition("-")
            covered = self._covered.pop((fact.group, fact.member_id, topic, int(number)), None)
            for topic_id in self._readers.topics.ids.get(topic, ()):
                key = (topic_id, int(number))
                reader = self._readers.of(fact.group, fact.member_id, key)
                given, reader.given = reader.given, -1
                if covered is not None and given > covered and not fact.lost:
                    self._note(seq, node, fact.group, key, covered, given)

    def _note(
        self, seq: int, node: str, group: str, key: PartitionKey, covered: int, given: int
    ) -> None:
        detail = f"{node} of group {group} got offset {given - 1} and had committed {covered}"
        self._found.setdefault((key, group), []).append(
            Finding("handover-redelivery", *key, f"{detail} when it revoked the partition",
                    offset=covered, group=group, seq=seq)
        )  # fmt: skip

    def finish(self) -> list[Finding]:
        """Return the anomalies of the run, sorted by partition and group."""
        return [
            replace(revocations[0], count=len(revocations))
            for _, revocations in sorted(self._found.items(), key=lambda each: each[0])
        ]
