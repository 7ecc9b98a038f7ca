"""Where judges get their facts from, and how they ask which losses are excused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.model import facts

PartitionKey = tuple[str, int]
"""Topic id and partition number."""

Excuse = Callable[[PartitionKey, str], str]
"""``excuse(partition, node)``: return why a node may lead without all committed records, or "".

It may if it lost data, is in the ISR since, and no other replica was left to save the records
(KAFKA.md, 0.1)."""

LAST_REPLICA = "last-replica-standing"
"""The reason of a loss through faults outside the no-loss budget."""

FORGOTTEN = "forgotten-expansion"
"""The reason of a loss that follows when a leader does not wait for a member of the ISR.

Metadata that repeated a change replaced the expansion that it had proposed (KAFKA.md, 1.6)."""

UNCLEAN = "unclean-election"
"""The reason of a loss that the topic's configuration allows."""


LEADER_ACKS = "acks"
"""The cause of what happens to records that were acknowledged with acks=0 or 1."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Committed records that a new leader does not have, for a reason that Kafka allows."""

    first: int  # the lowest lost offset
    end: int  # the offset after the last one
    seq: int  # the row of the trace in which that leader was elected
    t_us: int  # when that was
    reason: str  # last-replica-standing | forgotten-expansion | unclean-election

    def covers(self, offset: int) -> bool:
        """Return whether the record at ``offset`` was lost; −1 stands for any record."""
        return offset < 0 or self.first <= offset < self.end


Losses = Callable[[PartitionKey], Sequence[Loss]]
"""``losses(partition)``: return what a partition has legally lost, the earliest loss first."""

AllowsUnclean = Callable[[str], bool]
"""``allows_unclean(topic)``: return whether unclean elections of a topic may be held.

Its configuration allows them, now or later in the run, or an operator asks for one."""


RESETS = ("earliest", "latest", "truncation")
"""Why a consumer's position is set to another one than its group has committed."""

DELETING = ("delete-records", "retention")
"""Reasons of a log start that say who deleted the records below it; other reasons follow these."""


@dataclass(frozen=True, slots=True)
class BrokerLimits:
    """What the brokers' configuration says of what judges limit; times in µs."""

    retention_us: int = 604_800_000_000  # offsets.retention.minutes
    producer_us: int = 86_400_000_000  # producer.id.expiration.ms


def instance_of(member_id: str) -> str:
    """Return the group.instance.id with which a classic group's member id begins.

    The coordinator gives a static member that joins without an id its group.instance.id and a
    random part (ClassicGroup.generateMemberId); of others this is the client.id.
    """
    return member_id.rpartition("-")[0]


def final_leaders(trace: FactSource) -> dict[PartitionKey, facts.FinalReplica]:
    """Return the leaders' logs at the end of a run; it is empty until then.

    Of two replicas that believe to lead, the one of the higher epoch does.
    """
    leaders: dict[PartitionKey, facts.FinalReplica] = {}

    def on_final(_seq: int, _t: int, _node: str, fact: facts.FinalReplica) -> None:
        key = (fact.topic_id, fact.partition)
        known = leaders.get(key)
        if fact.leading and (known is None or fact.leader_epoch > known.leader_epoch):
            leaders[key] = fact

    trace.subscribe(facts.FinalReplica, on_final)
    return leaders
