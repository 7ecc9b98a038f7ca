"""Partitions as the active controller changes them (ReplicationControlManager).

Every method returns the records of an event, and for a request also its response. Nothing here
changes the image. ``partition_change.py`` computes the next state of one partition, and
``rules.py`` decides which elections are allowed.

Partition creation is in ``topics.py``, reassignment in ``reassignments.py``, and log directories
are in ``log_dirs.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kafkasim.model.config import BrokerConfig
from kafkasim.model.controller.common.image import (
    EVERY_BROKER,
    BrokerImage,
    MetadataImage,
    PartitionRegistration,
    TopicImage,
)
from kafkasim.model.controller.common.records import (
    NO_LEADER,
    RECOVERED,
    RECOVERING,
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    UnregisterBrokerRecord,
)
from kafkasim.model.controller.kraft.managers.heartbeats import BrokerHeartbeatManager
from kafkasim.model.controller.kraft.partition_change import Election, PartitionChangeBuilder
from kafkasim.model.controller.kraft.rules import ControllerRules
from kafkasim.model.directories import is_online, went_with_disk
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResult,
    BrokerHeartbeatRequest,
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from kafkasim.model.records import TopicPartition

UNCLEAN = "unclean.leader.election.enable"
MIN_ISR = "min.insync.replicas"
PREFERRED_TYPE, UNCLEAN_TYPE = 0, 1
MAX_ELECTIONS = 1000  # in one event of a periodic task (MAX_ELECTIONS_PER_IMBALANCE)

Partitions = Iterator[tuple[TopicImage, int, PartitionRegistration]]


class ReplicationControlManager:
    """Returns partition changes for the active controller's image; changes nothing itself."""

    def __init__(
        self,
        image: MetadataImage,
        config: BrokerConfig,
        rules: ControllerRules,
        default_directory: Callable[[int], str],
    ) -> None:
        self.image = image
        self.config = config
        self.rules = rules
        self.default_directory = default_directory

    # A broker changes its state.

    def fence(self, broker_id: int, reason: str = "fenced") -> list[Any]:
        """Return the records that fence a broker and take it out of ISRs and leaderships
        (handleBrokerFenced).

        There is a fence record even if the broker is fenced already, as at the end of the session
        of a broker that has shut down.
        """
        broker = self.image.brokers[broker_id]
        fenced = BrokerRegistrationChangeRecord(broker_id, broker.epoch, fenced=1)
        return [*self.leave(broker_id, reason), fenced]

    def fence_stale(self, broker_id: int, epoch: int) -> list[Any]:
        """Return the records that fence a broker because its session ended, none if the session was
        a previous incarnation's (maybeFenceStaleBroker)."""
        broker = self.image.brokers.get(broker_id)
        return [] if broker is None or broker.epoch != epoch else self.fence(broker_id)

    def unfence(self, broker_id: int) -> list[Any]:
        """Return the records that unfence a broker and elect leaders for leaderless partitions
        (handleBrokerUnfenced)."""
        broker = self.image.brokers[broker_id]
        is_active = self.image.is_active
        records: list[Any] = [
            BrokerRegistrationChangeRecord(broker_id, broker.epoch, fenced=-1),
        ]
        for topic, number, partition in self.partitions():
            if partition.leader == NO_LEADER:
                builder = self.builder(
                    topic, partition, lambda each: each == broker_id or is_active(each)
                )
                _add(records, builder.build(topic.topic_id, number, "unfenced"))
        return records

    def unregister(self, broker_id: int) -> list[Any]:
        """Return the records that unregister a broker and take it out of ISRs and leaderships
        (handleBrokerUnregistered)."""
        broker = self.image.brokers[broker_id]
        records: list[Any] = self.leave(broker_id, "unregistered")
        records.append(UnregisterBrokerRecord(broker_id, broker.epoch))
        return records

    def start_controlled_shutdown(self, broker_id: int) -> list[Any]:
        """Return the records that move leaderships away from a broker and take it out of ISRs."""
        broker = self.image.brokers[broker_id]
        records: list[Any] = []
        if not broker.in_controlled_shutdown:
            records.append(
                BrokerRegistrationChangeRecord(broker_id, broker.epoch, in_controlled_shutdown=1)
            )
        return records + self.leave(broker_id, "controlled-shutdown")

    def leave(self, broker_id: int, reason: str, unclean: bool = False) -> list[Any]:
        """Return the records that take a broker out of all ISRs and leaderships
        (generateLeaderAndIsrUpdates).

        ``unclean``: the incarnation did not stop cleanly, so the broker leaves the ELR as well.
        """
        is_active = self.image.is_active
        records: list[Any] = []
        for topic, number, partition in self.partitions():
            if broker_id in partition.isr or (unclean and broker_id in partition.elr):
                builder = self.builder(
                    topic, partition, lambda each: each != broker_id and is_active(each)
                )
                builder.target_isr = tuple([each for each in partition.isr if each != broker_id])
                if unclean:
                    builder.unclean_shutdown_replicas = (broker_id,)
                _add(records, builder.build(topic.topic_id, number, reason))
        return records

    def leads(self, broker_id: int) -> bool:
        """Return whether the broker leads a partition."""
        return any(partition.leader == broker_id for _, _, partition in self.partitions())

    def process_heartbeat(
        self,
        broker: BrokerImage,
        request: BrokerHeartbeatRequest,
        heartbeats: BrokerHeartbeatManager,
    ) -> tuple[list[Any], bool, bool]:
        """Return the records of a heartbeat, whether the broker is fenced then, and whether it may
        shut down (BrokerHeartbeatManager.calculateNextBrokerState).

            fenced ──► active ──► controlled shutdown ──► fenced, may shut down
        """
        if broker.fenced:
            if request.want_shut_down:
                return [], True, True
            offset, image = request.current_metadata_offset, self.image
            registered = image.registration_offsets[broker.id]
            if self.rules.may_unfence(request.want_fence, offset, registered, image.offset + 1):
                return self.unfence(broker.id), False, False
            return [], True, False
        if request.want_fence:
            return self.fence(broker.id), True, request.want_shut_down
        shutdown_offset = heartbeats.shutdown_offset(broker.id)
        if shutdown_offset < 0 and not request.want_shut_down:
            return [], False, False
        leads = self.leads(broker.id)
        if shutdown_offset < 0:
            if leads:
                return self.start_controlled_shutdown(broker.id), False, False
            return self.fence(broker.id, "controlled-shutdown"), True, True
        lowest = heartbeats.lowest_active_offset(self.image)
        if self.rules.may_shut_down(leads, shutdown_offset, lowest):
            return self.fence(broker.id, "controlled-shutdown"), True, True
        return [], False, False

    # AlterPartition.

    def alter_partition(
        self, request: AlterPartitionRequest
    ) -> tuple[list[PartitionChangeRecord], AlterPartitionResponse]:
        """Return the records of the ISR changes that are accepted, and the response.

        Each partition is judged on its own. The caller has checked the broker epoch.
        """
        records: list[PartitionChangeRecord] = []
        results = tuple(
            [self._alter(request.broker_id, data, records) for data in request.partitions]
        )
        return records, AlterPartitionResponse(Errors.NONE, results)

    def _alter(
        self, broker_id: int, data: AlterPartitionData, records: list[PartitionChangeRecord]
    ) -> AlterPartitionResult:
        topic = self.image.topics.get(data.topic_id)
        if topic is None:
            return _refused(data, Errors.UNKNOWN_TOPIC_ID)
        partition = topic.partitions.get(data.partition)
        if partition is None:
            return _refused(data, Errors.UNKNOWN_TOPIC_OR_PARTITION)
        error = self._validate(broker_id, data, partition)
        if error != Errors.NONE:
            return _refused(data, error)
        builder = self.builder(topic, partition, self.image.is_active)
        builder.target_isr = tuple([member for member, _ in data.new_isr])
        builder.target_recovery_state = data.leader_recovery_state
        shrinks = len(data.new_isr) < len(partition.isr)
        reason = data.reason or ("lag" if shrinks else "caught-up")
        record = builder.build(data.topic_id, data.partition, reason)
        after = partition
        if record is not None:
            records.append(record)
            after = partition.merge(record)
            if after.leader != broker_id:  # the change completed a reassignment without the leader
                return _refused(data, Errors.NEW_LEADER_ELECTED)
        return AlterPartitionResult(
            data.topic_id,
            data.partition,
            Errors.NONE,
            after.leader,
            after.leader_epoch,
            after.isr,
            after.partition_epoch,
            after.leader_recovery_state,
        )

    def _validate(
        self, broker_id: int, data: AlterPartitionData, partition: PartitionRegistration
    ) -> Errors:
        error = self.rules.alter_partition_epoch_order(broker_id, data, partition)
        if error != Errors.NONE:
            return error
        isr = [member for member, _ in data.new_isr]
        if (
            len(dict.fromkeys(isr)) != len(isr)
            or any(member not in partition.replicas for member in isr)
            or partition.leader not in isr
        ):
            return Errors.INVALID_REQUEST
        if data.leader_recovery_state == RECOVERING:
            if len(isr) > 1 or partition.leader_recovery_state == RECOVERED:
                return Errors.INVALID_REQUEST
        for member, broker_epoch in data.new_isr:
            if not self.rules.eligible_for_isr(self.image.brokers.get(member), broker_epoch):
                return Errors.INELIGIBLE_REPLICA
        return Errors.NONE

    # Elections on request and on time.

    def elect_leaders(
        self, request: ElectLeadersRequest
    ) -> tuple[list[PartitionChangeRecord], ElectLeadersResponse]:
        """Return the records of the elections that a request asks for, and the response.

        A request for all partitions gets no results for those that need no election.
        """
        wanted = request.partitions
        if request.election_type not in (PREFERRED_TYPE, UNCLEAN_TYPE):
            unknown = Errors.INVALID_REQUEST
            refused = tuple([(tp, unknown) for tp in wanted or ()])
            return [], ElectLeadersResponse(unknown, refused)
        if wanted is None:
            wanted = tuple(TopicPartition(t.name, number) for t, number, _ in self.partitions())
        records: list[PartitionChangeRecord] = []
        results = []
        for tp in wanted:
            error = self._elect_leader(tp, request.election_type == PREFERRED_TYPE, records)
            if request.partitions is not None or error != Errors.ELECTION_NOT_NEEDED:
                results.append((tp, error))
        return records, ElectLeadersResponse(Errors.NONE, tuple(results))

    def _elect_leader(
        self, tp: TopicPartition, preferred: bool, records: list[PartitionChangeRecord]
    ) -> Errors:
        topic = self.image.topic_by_name(tp.topic)
        partition = None if topic is None else topic.partitions.get(tp.partition)
        if topic is None or partition is None:
            return Errors.UNKNOWN_TOPIC_OR_PARTITION
        needless = (
            partition.leader == partition.replicas[0]
            if preferred
            else partition.leader != NO_LEADER
        )
        if needless:
            return Errors.ELECTION_NOT_NEEDED
        builder = self.builder(topic, partition, self.image.is_active)
        builder.election = Election.PREFERRED if preferred else Election.UNCLEAN
        reason = "preferred" if preferred else "unclean"
        record = builder.build(topic.topic_id, tp.partition, reason)
        if record is None:
            return (
                Errors.PREFERRED_LEADER_NOT_AVAILABLE
                if preferred
                else Errors.ELIGIBLE_LEADERS_NOT_AVAILABLE
            )
        records.append(record)
        return Errors.NONE

    def balance_leaders(self) -> list[PartitionChangeRecord]:
        """Return the elections of preferred leaders for the partitions that another broker leads,
        at most MAX_ELECTIONS (maybeBalancePartitionLeaders).

        There is no tolerated imbalance: leader.imbalance.per.broker.percentage is ZooKeeper mode's.
        """
        records: list[PartitionChangeRecord] = []
        for topic, number, partition in self.partitions():
            if len(records) == MAX_ELECTIONS:
                break
            if partition.leader != partition.replicas[0]:
                builder = self.builder(topic, partition, self.image.is_active)
                builder.election = Election.PREFERRED
                _add(records, builder.build(topic.topic_id, number, "preferred"))
        return records

    def elect_unclean(self) -> list[PartitionChangeRecord]:
        """Return the unclean elections for leaderless partitions whose topics allow them, at most
        MAX_ELECTIONS (maybeElectUncleanLeaders, the task of unclean.leader.election.interval.ms).
        """
        records: list[PartitionChangeRecord] = []
        for topic, number, partition in self.partitions():
            if len(records) == MAX_ELECTIONS:
                break
            if partition.leader == NO_LEADER:
                builder = self.builder(topic, partition, self.image.is_active)
                if builder.unclean_enabled:
                    _add(records, builder.build(topic.topic_id, number, "unclean"))
        return records

    # Shared by the events.

    def builder(
        self, topic: TopicImage, partition: PartitionRegistration, is_active: Callable[[int], bool]
    ) -> PartitionChangeBuilder:
        """Return the builder of a change of a partition, under its topic's settings.

        ``is_active(broker)`` says which brokers may lead. A replica in an offline log directory may
        not.
        """
        own = self.image.configs.get(topic.name, {})
        every = self.image.broker_configs.get(EVERY_BROKER)
        if every:
            own = {**every, **own}
        unclean = own.get(UNCLEAN)
        if partition.directories or self._has_new_disk(partition):
            is_active = self._acceptor(partition, is_active)
        builder = PartitionChangeBuilder(
            partition,
            is_active,
            self.rules,
            min_isr=int(own.get(MIN_ISR, self.config.min_insync_replicas)),
            metadata_version=self.image.metadata_version,
            elr_enabled=self.image.elr_enabled,
            unclean_enabled=(
                self.config.unclean_leader_election_enable if unclean is None else unclean == "true"
            ),
        )
        builder.default_directory = self.default_directory
        return builder

    def _has_new_disk(self, partition: PartitionRegistration) -> bool:
        """Return whether a replica's broker may have another disk than when it was placed."""
        brokers = self.image.brokers
        return any(each in brokers and brokers[each].directories for each in partition.replicas)

    def _acceptor(
        self, partition: PartitionRegistration, is_active: Callable[[int], bool]
    ) -> Callable[[int], bool]:
        """Return ``is_active`` restricted to replicas whose log directory is online
        (LeaderAcceptor)."""
        brokers = self.image.brokers

        def accepts(replica: int) -> bool:
            if not is_active(replica) or replica not in partition.replicas:
                return is_active(replica)
            place = partition.directory(replica), brokers[replica].directories
            return is_online(*place) and not went_with_disk(*place)

        return accepts

    def partitions(self) -> Partitions:
        """Yield every partition with its topic and number."""
        for topic in self.image.topics.values():
            for number, partition in topic.partitions.items():
                yield topic, number, partition


def _add(records: list[Any], record: PartitionChangeRecord | None) -> None:
    if record is not None:
        records.append(record)


def _refused(data: AlterPartitionData, error: Errors) -> AlterPartitionResult:
    return AlterPartitionResult(data.topic_id, data.partition, error)
