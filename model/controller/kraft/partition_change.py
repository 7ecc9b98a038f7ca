"""Computes the next state of one partition (org.apache.kafka.controller.PartitionChangeBuilder).

A builder is pure: it depends on its arguments only. The caller sets the target ISR and the kind of
election; :meth:`PartitionChangeBuilder.build` returns the record of the change, or None if nothing
changes.

    target ISR, replicas ──► complete a reassignment ──► update the ELR ──► elect ──► record

It covers eligible leader replicas (KIP-966), the leader recovery state (KIP-704) and reassignments:
a change after which all target replicas are in the ISR completes the reassignment
(PartitionReassignmentReplicas). An added replica gets the default log directory of its broker
(KIP-858).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TypeVar

from kafkasim.model.controller.common.image import PartitionRegistration
from kafkasim.model.controller.common.records import (
    NO_LEADER,
    NO_LEADER_CHANGE,
    RECOVERING,
    PartitionChangeRecord,
)
from kafkasim.model.controller.kraft.rules import ControllerRules
from kafkasim.model.directories import UNASSIGNED, named

T = TypeVar("T")


class Election(Enum):
    """The kind of election that a change may hold (PartitionChangeBuilder.Election)."""

    ONLINE = "online"  # the current leader if it is valid, else the first valid replica
    PREFERRED = "preferred"  # the first replica of the assignment if it is valid, else as ONLINE
    UNCLEAN = "unclean"  # as ONLINE, else the first active replica


class PartitionChangeBuilder:
    """One change of one partition. Set the targets, then call :meth:`build` once.

    ``is_active(broker)``: the broker may lead, as far as its state and its log directory go.
    """

    __slots__ = (
        "default_directory",
        "election",
        "elr",
        "elr_enabled",
        "is_active",
        "metadata_version",
        "min_isr",
        "partition",
        "rules",
        "target_adding",
        "target_directory",
        "target_isr",
        "target_recovery_state",
        "target_removing",
        "target_replicas",
        "unclean_enabled",
        "unclean_shutdown_replicas",
    )

    def __init__(
        self,
        partition: PartitionRegistration,
        is_active: Callable[[int], bool],
        rules: ControllerRules,
        *,
        min_isr: int,
        metadata_version: int,
        elr_enabled: bool,
        unclean_enabled: bool,
    ) -> None:
        self.partition = partition
        self.is_active = is_active
        self.rules = rules
        self.min_isr = min_isr
        self.elr_enabled = elr_enabled
        self.metadata_version = metadata_version
        self.unclean_enabled = unclean_enabled
        self.election = Election.UNCLEAN if unclean_enabled else Election.ONLINE
        self.target_isr = partition.isr
        self.target_replicas = partition.replicas
        self.target_adding = partition.adding_replicas
        self.target_removing = partition.removing_replicas
        self.target_recovery_state = partition.leader_recovery_state
        self.unclean_shutdown_replicas: tuple[int, ...] = ()
        self.elr = partition.elr
        self.target_directory: tuple[int, str] | None = None  # (replica, its log directory)
        self.default_directory: Callable[[int], str] = lambda _: UNASSIGNED

    def build(self, topic_id: str, partition: int, reason: str) -> PartitionChangeRecord | None:
        """Return the record of the change, or None if nothing changes.

        ``reason`` goes into the trace. A completed reassignment and an unclean election replace it.
        """
        before = self.partition
        if self._complete_reassignment():
            reason = "reassignment"
        self._populate_elr()
        leader, unclean = self._elect()
        if not self.elr_enabled:
            self.elr = ()  # what is left of a time when ELR was on (maybeUpdateRecordElr)
        leader_change = NO_LEADER_CHANGE
        isr = self.target_isr
        replicas = self.target_replicas
        recovery = self.target_recovery_state
        raises = self.rules.raises_leader_epoch(before, isr, replicas, self.metadata_version)
        if leader != before.leader or raises:
            leader_change = leader
        if leader != NO_LEADER and leader not in isr:
            # Elected uncleanly or from the ELR: the leader is the only member of the new ISR.
            isr = (leader,)
            self.elr = () if unclean else tuple(r for r in self.elr if r != leader)
            if unclean:
                recovery = RECOVERING
        if not isr and not self.elr_enabled:
            isr = before.isr  # without ELR the last member stays, even if it is dead
        last_known = self._next_last_known(leader, isr)
        record = PartitionChangeRecord(
            topic_id,
            partition,
            isr=_changed(isr, before.isr),
            leader=leader_change,
            replicas=_changed(replicas, before.replicas),
            removing_replicas=_changed(self.target_removing, before.removing_replicas),
            adding_replicas=_changed(self.target_adding, before.adding_replicas),
            leader_recovery_state=-1 if recovery == before.leader_recovery_state else recovery,
            elr=_changed(self.elr, before.elr),
            last_known_elr=_changed(last_known, before.last_known_elr),
            reason="unclean" if unclean else reason,
            unclean=unclean,
            directories=self._directories(replicas),
        )
        return None if _is_no_op(record) else record

    def _directories(self, replicas: tuple[int, ...]) -> tuple[str, ...] | None:
        """Return the log directories of the replicas, None if they stay (setAssignmentChanges)."""
        before, target = self.partition, self.target_directory
        if target is None and replicas == before.replicas:
            return None
        known = {replica: before.directory(replica) for replica in before.replicas}
        if target is not None:
            known[target[0]] = target[1]
        directories = named([
            known[each] if each in known else self.default_directory(each) for each in replicas
        ])  # fmt: skip
        return _changed(directories, before.directories)

    def _complete_reassignment(self) -> bool:
        """Drop the replicas being removed if the reassignment is done; return whether it is."""
        removing = self.target_removing
        if not removing and not self.target_adding:
            return False
        isr = _without(self.target_isr, removing)
        replicas = _without(self.target_replicas, removing)
        if not replicas or not self.rules.reassignment_is_complete(replicas, isr):
            return False
        self.target_isr, self.target_replicas = isr, replicas
        self.target_removing = self.target_adding = ()
        return True

    def _populate_elr(self) -> None:
        """Move replicas that leave the ISR into the ELR while the ISR is below min.insync.replicas
        (KIP-966)."""
        if not self.elr_enabled:
            return
        before = self.partition
        isr = self.target_isr
        if len(isr) >= min(self.min_isr, len(self.target_replicas)):
            self.elr = ()
            return
        out = (*isr, *self.unclean_shutdown_replicas)
        candidates = dict.fromkeys((*before.elr, *before.isr))
        self.elr = tuple(
            replica
            for replica in sorted(candidates)  # as Kafka's HashSet of small numbers has them
            if replica not in out and replica in self.target_replicas
        )

    def _next_last_known(self, leader: int, isr: tuple[int, ...]) -> tuple[int, ...]:
        """Return the last known leader after the change (maybeUpdateLastKnownLeader).

        Any change that gives or leaves the partition a leader clears the note, also an election
        from the ELR.
        """
        if not self.elr_enabled:
            return self.partition.last_known_elr
        if leader != NO_LEADER:
            return ()
        return self.rules.next_last_known_leader(self.partition, isr)

    def _elect(self) -> tuple[int, bool]:
        """Return the leader, −1 for none, and whether its election is unclean."""
        replicas = self.target_replicas
        current = self.partition.leader
        if self.election is Election.PREFERRED and self._is_valid(replicas[0]):
            return replicas[0], False
        if self._is_valid(current):
            return current, False
        for replica in replicas:
            if self._is_valid(replica):
                return replica, False
        last_known = self._last_known_leader()
        if last_known is not None:
            return last_known, True
        if self.rules.may_elect_unclean(self.election is Election.UNCLEAN, self.target_isr):
            for replica in replicas:
                if self.is_active(replica):
                    return replica, True
        return NO_LEADER, False

    def _is_valid(self, replica: int) -> bool:
        return replica != NO_LEADER and self.rules.is_valid_leader(
            replica, self.target_isr, self.elr, self.is_active(replica)
        )

    def _last_known_leader(self) -> int | None:
        """Return the last known leader if ISR and ELR are empty and it may be elected, else None
        (KIP-966, balanced recovery)."""
        known = self.partition.last_known_elr
        if not self.elr_enabled or self.target_isr or self.elr or len(known) != 1:
            return None
        return known[0] if self.rules.may_elect_last_known(self.is_active(known[0])) else None


def _without(replicas: tuple[int, ...], others: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([replica for replica in replicas if replica not in others])


def _changed(new: tuple[T, ...], old: tuple[T, ...]) -> tuple[T, ...] | None:
    return None if new == old else new


def _is_no_op(record: PartitionChangeRecord) -> bool:
    return (
        record.isr is None
        and record.leader == NO_LEADER_CHANGE
        and record.replicas is None
        and record.removing_replicas is None
        and record.adding_replicas is None
        and record.leader_recovery_state == -1
        and record.elr is None
        and record.last_known_elr is None
        and record.directories is None
    )
