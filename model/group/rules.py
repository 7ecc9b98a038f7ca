"""Decisions of the group coordinator that Kafka once got wrong or that a KIP changed.

B63 and its like are numbers of KAFKA.md, section 8.
"""

from __future__ import annotations

from kafkasim.model.coordinator.runtime import client_error
from kafkasim.model.errors import Errors
from kafkasim.model.group.classic.group import ClassicGroup, ClassicGroupState
from kafkasim.model.group.modern.assignors.spec import Assignor
from kafkasim.model.group.modern.assignors.uniform import ASSIGNORS
from kafkasim.model.group.modern.state.assignment import Assignment
from kafkasim.model.group.modern.state.current_assignment import PartitionEpoch, reconcile
from kafkasim.model.group.modern.state.member import ConsumerGroupMember
from kafkasim.model.group.modern.state.partition_epochs import PartitionEpochs, update_epochs

_SCALA_COMMIT_ERRORS = {
    Errors.REQUEST_TIMED_OUT: Errors.REQUEST_TIMED_OUT,
    Errors.MESSAGE_TOO_LARGE: Errors.INVALID_COMMIT_OFFSET_SIZE,
    Errors.RECORD_LIST_TOO_LARGE: Errors.INVALID_COMMIT_OFFSET_SIZE,
}
"""Where the Scala coordinator's answers to OffsetCommit differ from those of the new one."""


class GroupRules:
    """What Kafka 4.0 decides; a variant overrides single methods."""

    def has_own_threads(self, protocols: tuple[str, ...], new_coordinator: bool) -> bool:
        """Return whether groups have group.coordinator.threads; else request handlers serve them.

        ``protocols`` is group.coordinator.rebalance.protocols. The Scala coordinator has no threads
        of its own.
        """
        return new_coordinator

    def check_generation(self, group: ClassicGroup, generation: int) -> Errors:
        """Return NONE if a commit by a known member has the group's generation (B63)."""
        return Errors.NONE if generation == group.generation else Errors.ILLEGAL_GENERATION

    def commit_to_unknown_group(self, new_coordinator: bool) -> Errors:
        """Return the error of a commit with a generation when nobody knows the group.

        The coordinator of KRaft mode answers GROUP_ID_NOT_FOUND to OffsetCommit of version 9 or
        newer (OffsetMetadataManager.validateOffsetCommit); clients since 3.6 speak that. The Scala
        coordinator of ZooKeeper mode answers as if the generation were old (handleCommitOffsets).
        """
        return Errors.GROUP_ID_NOT_FOUND if new_coordinator else Errors.ILLEGAL_GENERATION

    def commit_append_error(self, error: Errors, new_coordinator: bool) -> Errors:
        """Return what OffsetCommit answers when its records could not be appended or replicated.

        The Scala coordinator tells clients of a timeout and of records that are too large
        (GroupMetadataManager.createPutCacheCallback, convertOffsetCommitError).
        """
        if not new_coordinator and error in _SCALA_COMMIT_ERRORS:
            return _SCALA_COMMIT_ERRORS[error]
        return client_error(error)

    def assignment_append_error(self, error: Errors, new_coordinator: bool) -> Errors:
        """Return what SyncGroup answers when the assignment could not be appended or replicated.

        After a timeout the members of the Scala coordinator join again at once
        (GroupMetadataManager.storeGroup).
        """
        if not new_coordinator and error is Errors.REQUEST_TIMED_OUT:
            return Errors.REBALANCE_IN_PROGRESS
        return client_error(error)

    def sync_while_loading(self, new_coordinator: bool) -> Errors:
        """Return what SyncGroup answers while the group is being loaded.

        The rebalance does not survive the failover. The Scala coordinator says so, and the member
        joins again (GroupCoordinator.handleSyncGroup). The new one makes no exception of SyncGroup
        (GroupCoordinatorService.syncGroup), and consumers do not expect its answer.
        """
        if new_coordinator:
            return Errors.COORDINATOR_LOAD_IN_PROGRESS
        return Errors.REBALANCE_IN_PROGRESS

    def check_committer(
        self, group: ClassicGroup, member_id: str, instance_id: str | None
    ) -> Errors:
        """Return NONE if the member that commits belongs to the group and is not fenced (B63)."""
        return group.validate_member(member_id, instance_id)

    def transactional_commit_to_unknown_group(self, new_coordinator: bool) -> Errors:
        """Return the error of a transaction's commit with a generation to a group nobody knows.

        The Scala coordinator of ZooKeeper mode adds the group first, and then misses the member
        (handleTxnCommitOffsets).
        """
        return Errors.ILLEGAL_GENERATION if new_coordinator else Errors.UNKNOWN_MEMBER_ID

    def skips_assignment_of_returning_leader(self) -> bool:
        """Return whether a static leader that comes back in a Stable group is told so (KIP-814).

        It leads and need not assign. Before 3.2 it is told the member id that it had, so it takes
        itself for a follower (GroupCoordinator.updateStaticMemberAndRebalance).
        """
        return True

    def updates_timeouts(self) -> bool:
        """Return whether a JoinGroup of a known member changes its timeouts.

        Before 3.3.2 and 3.4 it did not (GroupMetadata.updateMember, KAFKA-14009), so a static
        member kept those of its first process.
        """
        return True

    def takes_protocols_back(self, new_coordinator: bool) -> bool:
        """Return whether a static member whose new id cannot be stored has its old protocols again.

        The Scala coordinator notes the old ones after it has taken the new ones over
        (GroupCoordinator.updateStaticMemberAndRebalance).
        """
        return new_coordinator

    def checks_transactional_commit(self) -> bool:
        """Return whether a transaction's commit must come from the group's member (B61, KIP-447).

        If not, a zombie commits what another member processes again.
        """
        return True

    def withholds_pending_offset(self) -> bool:
        """Return whether a stable fetch refuses an offset that a transaction may change (KIP-447).

        It answers UNSTABLE_OFFSET_COMMIT then, and the consumer asks again.
        """
        return True

    def accepts_commit_in_state(self, state: ClassicGroupState) -> bool:
        """Return whether members may commit in this state.

        They may before they rejoin, but not between their JoinGroup and their SyncGroup.
        """
        return state is not ClassicGroupState.COMPLETING_REBALANCE

    def has_share_groups(self) -> bool:
        """Return whether brokers serve share groups if share.version is 1 (KIP-932, Kafka 4.1)."""
        return False

    def find_share_coordinator(self) -> Errors:
        """Return what FindCoordinator says of a share group where no broker serves them.

        3.9 knows the type and has no coordinator yet (KafkaApis.getCoordinator).
        """
        return Errors.INVALID_REQUEST

    def alters_share_offsets(self) -> bool:
        """Return whether AlterShareGroupOffsets does what it is asked.

        The broker of Kafka 4.1.0 adds topics to a collection while they are in another one, which
        takes none, and it drops the coordinator's error: the answer is NONE, and nothing has
        changed. Since 4.2 it adds duplicates (KafkaApis.handleAlterShareGroupOffsetsRequest).
        """
        return True

    def load_continues(self, offset: int, start: int, end: int) -> bool:
        """Return whether a coordinator reads on at ``offset`` of a log from ``start`` to ``end``.

        It does up to the log end, not the high watermark: a new leader's high watermark may be
        below offsets that its predecessor acknowledged (FetchIsolation.LOG_END).
        """
        return start <= offset < end

    def heartbeat_renews_session(self, state: ClassicGroupState) -> bool:
        """Return whether a member's heartbeat of the current generation renews its session.

        It does in every state, while a rebalance is prepared or completed too
        (GroupMetadataManager.classicGroupHeartbeat).
        """
        return True

    def consumer_heartbeat_renews_session(self) -> bool:
        """Return whether a heartbeat of a member that a consumer group has renews its session
        (GroupMetadataManager.consumerGroupHeartbeat)."""
        return True

    def join_timeout_ms(self, rebalance_timeout_ms: int) -> int:
        """Return how long a rebalance waits for the members' JoinGroup (prepareRebalance).

        ``rebalance_timeout_ms`` is the longest rebalance timeout of the members: for a consumer its
        max.poll.interval.ms, since it joins again in poll() (KIP-62).
        """
        return rebalance_timeout_ms

    def rejoin_rebalances(self, leads: bool, same_protocols: bool) -> bool:
        """Return whether a member that joins a stable group again starts a rebalance.

        Of the members with unchanged subscriptions only the leader does: topic metadata has
        changed. The others have missed an answer and get it again
        (GroupMetadataManager.classicGroupJoinExistingMember).
        """
        return leads or not same_protocols

    def resigns_when_deposed(self) -> bool:
        """Return whether a coordinator gives a partition up when another broker leads it.

        Models GroupCoordinatorService.onResignation.
        """
        return True

    def session_expires(self, is_new: bool, awaits_join: bool, awaits_sync: bool) -> bool:
        """Return whether a session that ran out removes its member.

        A parked join or sync counts as a heartbeat. It does not for a new member, because its
        client may be gone or have joined again under another id (KAFKA-5512, KIP-394).
        """
        return is_new or not (awaits_join or awaits_sync)

    def replaces_static_member(self, state: ClassicGroupState) -> bool:
        """Return whether a join without member id, under a known instance id, replaces that member.

        It does in every state, during a rebalance too (B68, KAFKA-8500). The old id is fenced.
        """
        return True

    def static_rejoin_rebalances(self, state: ClassicGroupState) -> bool:
        """Return whether replacing a static member starts a rebalance (B69, KAFKA-9801).

        It must while the leader computes the assignment, because the leader knows the old id.
        """
        return state is ClassicGroupState.COMPLETING_REBALANCE

    def persists_static_replacement(self) -> bool:
        """Return whether the new id of a static member is committed before its client uses it.

        Without the record a failover would bring the old id back (KAFKA-10284, B70).
        """
        return True

    def offsets_may_expire(
        self, state: ClassicGroupState, protocol_type: str | None, subscribed: bool
    ) -> bool:
        """Return whether a group's offsets of a topic may expire at all (B71, KAFKA-13636).

        ``protocol_type`` None is a simple consumer's group. ``subscribed`` is True if a member
        subscribes to the topic, and if that is unknown.
        """
        if protocol_type is None:
            return True
        if state is ClassicGroupState.EMPTY:
            return True
        return state is ClassicGroupState.STABLE and protocol_type == "consumer" and not subscribed

    def retention_starts_ms(
        self,
        state: ClassicGroupState,
        protocol_type: str | None,
        current_state_timestamp_ms: int,
        commit_timestamp_ms: int,
    ) -> int:
        """Return the wall-clock time from which retention counts (KIP-211).

        The offsets of a group with members do not age; they do from the time when it became empty.
        """
        if protocol_type is not None and state is ClassicGroupState.EMPTY:
            return current_state_timestamp_ms
        return commit_timestamp_ms

    def offset_expired(self, start_ms: int, now_ms: int, retention_ms: int) -> bool:
        """Return whether an offset's retention is over (B71b: from the stored start)."""
        return now_ms - start_ms >= retention_ms

    # Consumer groups (KIP-848)

    def assignor(self, name: str) -> Assignor:
        """Return the server-side assignor of a name (group.consumer.assignors)."""
        return ASSIGNORS[name]

    def needs_group_version(self) -> bool:
        """Return whether consumer groups need group.version 1 (isConsumerGroupProtocolEnabled)."""
        return True

    def counts_racks(self) -> bool:
        """Return whether a group's epoch rises when replicas of its topics move to other racks.

        The racks are part of its metadata of the topics in 3.9 (TopicMetadata.partitionRacks) and,
        as part of their hash, since 4.1 (Utils.computeTopicHash). 4.0 left them out.
        """
        return False

    def hashes_topics(self) -> bool:
        """Return whether the record of a group's epoch has a hash of its topics.

        Since 4.1 (KAFKA-17747) it has; before, the topics had a record of their own
        (ConsumerGroupPartitionMetadata).
        """
        return False

    def converts_with_topics(self) -> bool:
        """Return whether a classic group that becomes a consumer group knows its topics at once.

        The group's hash of them is made with it since 4.1 (ConsumerGroup.fromClassicGroup). If a
        static member has only taken its own place, then nothing raises the group's epoch.
        """
        return False

    def describes_empty_group_id(self) -> bool:
        """Return whether ConsumerGroupDescribe can refuse a group without a name.

        4.0 cannot write its own answer then, so the whole request fails.
        """
        return False

    def check_member_epoch(self, received: int, expected: int) -> Errors:
        """Return NONE if a commit or a fetch of offsets has its member's epoch (B63)."""
        return Errors.NONE if received == expected else Errors.STALE_MEMBER_EPOCH

    def reconcile(
        self,
        member: ConsumerGroupMember,
        target_epoch: int,
        target: Assignment,
        partition_epoch: PartitionEpoch,
        owned: Assignment | None,
    ) -> ConsumerGroupMember:
        """Return a member after its next step to its target assignment (CurrentAssignmentBuilder).

        Raises:
            UnknownStateError: the member has to be fenced.
        """
        return reconcile(member, target_epoch, target, partition_epoch, owned)

    def update_partition_epochs(
        self,
        epochs: PartitionEpochs,
        old: ConsumerGroupMember | None,
        new: ConsumerGroupMember | None,
    ) -> None:
        """Change who owns what when a member's state changes; None: it is no member.

        First everything that it owned is freed, and then it gets what it owns now. In another order
        a partition that moves from one of its sets to the other is lost (B67, KAFKA-16147).
        """
        update_epochs(epochs, old, new)
