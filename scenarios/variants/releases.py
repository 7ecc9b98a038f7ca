"""What a ``kafka-version`` selects: defaults and rules of releases other than 4.0.

The model's own defaults and rules are those of 4.0 with later fixes (KAFKA.md, 0.1). The tables
list only the differences of each release. ``4.0`` includes all of those fixes, also KAFKA-18991,
which Kafka 4.0.0 lacks. Without it a follower uses responses of an older leader epoch; the judges
do not know the consequences yet (for example a gap in its epoch cache), and each such run would
fail. Rules of a release are subclasses, as variants are; a
variant of the same rule takes precedence over the release.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kafkasim.model.broker.kraft.rules import LifecycleRules
from kafkasim.model.client.rules import ClientRules
from kafkasim.model.config.clients import ASSIGNOR_CLASSES
from kafkasim.model.controller.kraft.feature_levels import SUPPORTED, Ranges
from kafkasim.model.controller.kraft.rules import ControllerRules
from kafkasim.model.errors import Errors
from kafkasim.model.group.modern.assignors.spec import Assignor
from kafkasim.model.group.modern.assignors.uniform import uniform_assign_4_1
from kafkasim.model.group.rules import GroupRules
from kafkasim.model.messages import FetchPartition
from kafkasim.model.raft.rules import RaftRules
from kafkasim.model.replication.rules import LeaderView, ReplicationRules
from kafkasim.model.storage.rules import StorageRules
from kafkasim.model.streams.rules import StreamsRules
from kafkasim.model.transaction.rules import TransactionRules
from kafkasim.scenarios.variants.rules import PARTS, Rules

NO_REBOOTSTRAP = {"metadata.recovery.strategy": "none"}
"""KIP-899 came with 3.8, and 4.0 made rebootstrap the default (KIP-1102)."""

PRODUCER: dict[str, dict[str, Any]] = {
    "2.8-zk": {
        "linger.ms": 0,
        "acks": "1",  # KIP-679 came with 3.0
        "enable.idempotence": False,
        **NO_REBOOTSTRAP,
    },
    "3.9": {"linger.ms": 0, **NO_REBOOTSTRAP},  # KIP-1030
}
"""Release to the producer's defaults that differ from 4.0's."""

CONSUMER: dict[str, dict[str, Any]] = {
    "2.8-zk": {
        "session.timeout.ms": 10000,  # KIP-735
        "partition.assignment.strategy": [ASSIGNOR_CLASSES["range"]],  # KIP-726
        **NO_REBOOTSTRAP,
    },
    "3.9": NO_REBOOTSTRAP,
}
"""Release to the consumer's defaults that differ from 4.0's."""

ADMIN: dict[str, dict[str, Any]] = {
    "2.8-zk": NO_REBOOTSTRAP,
    "3.9": NO_REBOOTSTRAP,
}
"""Release to the admin client's defaults that differ from 4.0's."""

CLASSIC_GROUPS = {
    "group.coordinator.rebalance.protocols": "classic",
    "group.consumer.migration.policy": "disabled",
    "group.coordinator.append.linger.ms": 0,
    "group.coordinator.threads": 1,
}
"""KIP-848 was a preview in 3.9, whose default coordinator, the Scala one, appends at once."""

BROKER: dict[str, dict[str, Any]] = {
    "2.8-zk": {
        "log.message.timestamp.after.max.ms": 2**63 - 1,  # KIP-1030
        "inter.broker.protocol.version": "2.8",  # the newest that 2.8 has
        "producer.id.expiration.ms": 604_800_000,  # transactional.id.expiration.ms; KIP-854
        **CLASSIC_GROUPS,
    },
    "3.9": {"log.message.timestamp.after.max.ms": 2**63 - 1, **CLASSIC_GROUPS},
}
"""Release to the servers' defaults that differ from 4.0's."""


class Raft39(RaftRules):
    """KRaft before 4.0."""

    def pre_vote(self) -> bool:
        """Return False: a voter whose fetch timeout ends becomes a candidate at once (KIP-996)."""
        return False

    def lost_candidate_backs_off(self, timed_out: bool) -> bool:
        """Return True: it waits for a random time, also when its election timed out."""
        return True

    def follower_keeps_vote(self) -> bool:
        """Return False: its election state has the leader only (FollowerState.election)."""
        return False


class Raft41(RaftRules):
    """KRaft since 4.1."""

    def high_watermark_completes_fetch(self) -> bool:
        """Return True: followers learn at once what is committed (KIP-1166)."""
        return True

    def updates_fixed_voters(self) -> bool:
        """Return True: a leader notes the address and directory of a voter (KAFKA-16538)."""
        return True

    def lost_candidate_backs_off(self, timed_out: bool) -> bool:
        """Return False: it waits for the rest of its election timeout.

        (KafkaRaftClient.maybeHandleElectionLoss)
        """
        return False


class Controller39(ControllerRules):
    """The KRaft controller of 3.9."""

    def supported_features(self) -> Ranges:
        """Support 3.9's metadata versions, and no eligible leader replicas (KIP-966)."""
        return SUPPORTED["3.9"]

    def tracks_fenced_brokers(self) -> bool:
        """Return False: the session of a broker ends when the broker is fenced."""
        return False


class Controller41(ControllerRules):
    """The KRaft controller of 4.1."""

    def supported_features(self) -> Ranges:
        """Support 4.1's metadata versions, whose newest has eligible leader replicas on."""
        return SUPPORTED["4.1"]

    def has_internal_segment_bytes(self) -> bool:
        """Return True: LogConfig.INTERNAL_SEGMENT_BYTES_CONFIG."""
        return True

    def begins_sessions_of_fenced_brokers(self) -> bool:
        """Return False: a fenced broker has no session at a new active controller."""
        return False


class Lifecycle39(LifecycleRules):
    """The BrokerLifecycleManager of 3.9."""

    def longest_retry_delay_us(self, session_timeout_us: int) -> int:
        """Return a whole session (BrokerLifecycleManager.resendExponentialBackoff)."""
        return session_timeout_us


class Lifecycle41(LifecycleRules):
    """The BrokerLifecycleManager of 4.1."""

    def request_timeout_ms(self, session_timeout_ms: int, interval_ms: int) -> int:
        """Return broker.heartbeat.interval.ms (BrokerServer.startup)."""
        return interval_ms

    def retry_delay_us(
        self, attempts: int, draw: float, session_timeout_us: int, interval_us: int
    ) -> int:
        """Return broker.heartbeat.interval.ms, however often it failed.

        (BrokerLifecycleManager.scheduleNextCommunicationAfterFailure)
        """
        return interval_us


class Transaction39(TransactionRules):
    """The transaction coordinator of releases without transaction.version 2."""

    def pending_is_asked_first(self) -> bool:
        """Return False: no completion brings another producer id (KIP-890)."""
        return False


class Transaction28(Transaction39):
    """The transaction coordinator of 2.8."""

    def answers_verification(self) -> bool:
        """Return False: AddPartitionsToTxn 4, which asks, came with 3.6 (KIP-890)."""
        return False


class Transaction41(TransactionRules):
    """The transaction coordinator of 4.1."""

    def fence_is_in_memory_first(self) -> bool:
        """Return False: the record raises the epoch, once (KAFKA-19367)."""
        return False


class Client39(ClientRules):
    """The clients of 3.9."""

    def partitions_again_for_new_batch(self) -> bool:
        """Return True: Partitioner.onNewBatch was removed in 4.0."""
        return True

    def spares_nodes_of_buffered(self) -> bool:
        """Return False: buffered partitions leave a fetch session and come back (KAFKA-17182)."""
        return False


class Client41(ClientRules):
    """The clients of 4.1."""

    def exhausted_retries_abort(self) -> bool:
        """Return True: KIP-1050 tells errors that only an abort can follow."""
        return True


class Client28(Client39):
    """The clients of 2.8: without KIP-794 of 3.3, and KIP-580 and KIP-951 of 3.7."""

    def backs_off_exponentially(self) -> bool:
        """Return False: each retry waits retry.backoff.ms, there is no retry.backoff.max.ms."""
        return False

    def sticks_by_bytes(self) -> bool:
        """Return False: each batch of records without a key is of another partition."""
        return False

    def takes_named_leader(self) -> bool:
        """Return False: brokers of 2.8 name no leader in their responses."""
        return False

    def skips_backoff(self, attempt_epoch: int, leader_epoch: int) -> bool:
        """Return False: a retry waits for retry.backoff.ms, however new the leader is."""
        return False

    def stops_drain_at_held_back(self) -> bool:
        """Return False: the one drain index of all nodes goes on behind such a batch."""
        return False

    def knows_abortable(self) -> bool:
        """Return False: Produce 11 and TxnOffsetCommit 4 came with 3.8."""
        return False

    def recovers_from_authorization(self) -> bool:
        """Return False: a producer that is refused a producer id fails for good."""
        return False


class Group39(GroupRules):
    """The group coordinators before 4.0."""

    def has_own_threads(self, protocols: tuple[str, ...], new_coordinator: bool) -> bool:
        """Return whether KIP-848 is on (KafkaConfig.isNewGroupCoordinatorEnabled)."""
        return new_coordinator and "consumer" in protocols

    def counts_racks(self) -> bool:
        """Return True: in the preview of KIP-848."""
        return True

    def needs_group_version(self) -> bool:
        """Return False: the setting alone decides (KafkaApis.isConsumerGroupProtocolEnabled)."""
        return False

    def find_share_coordinator(self) -> Errors:
        """Return COORDINATOR_NOT_AVAILABLE: KIP-932 was begun (KafkaApis.getCoordinator)."""
        return Errors.COORDINATOR_NOT_AVAILABLE


class Group28(Group39):
    """The group coordinators of 2.8."""

    def find_share_coordinator(self) -> Errors:
        """Return INVALID_REQUEST: no such type (FindCoordinatorRequest.CoordinatorType.forId)."""
        return Errors.INVALID_REQUEST

    def skips_assignment_of_returning_leader(self) -> bool:
        """Return False: KIP-814 came in 3.2."""
        return False

    def updates_timeouts(self) -> bool:
        """Return False: KAFKA-14009 was mended in 3.3.2 and 3.4."""
        return False


class Group41(GroupRules):
    """The group coordinator of 4.1."""

    def assignor(self, name: str) -> Assignor:
        """Return the assignor of a name; uniform spares partitions that 4.0 moves."""
        return uniform_assign_4_1 if name == "uniform" else super().assignor(name)

    def counts_racks(self) -> bool:
        """Return True: the hash of a topic is over them (Utils.computeTopicHash)."""
        return True

    def hashes_topics(self) -> bool:
        """Return True: ConsumerGroupMetadataValue.metadataHash (KAFKA-17747)."""
        return True

    def converts_with_topics(self) -> bool:
        """Return True: ConsumerGroup.fromClassicGroup computes their hash."""
        return True

    def describes_empty_group_id(self) -> bool:
        """Return True: the answer names the group as the request does."""
        return True

    def has_share_groups(self) -> bool:
        """Return True: where an operator has raised share.version to 1 (a preview)."""
        return True


class Replication39(ReplicationRules):
    """The brokers of 3.9."""

    def answers_once(self) -> bool:
        """Return False: KafkaApis.handleListOffsetRequestV1AndAbove answers all that it reads."""
        return False


class Replication28(Replication39):
    """The brokers of 2.8."""

    def accepts_fetch_reply(
        self, sent: FetchPartition, fetch_offset: int, leader_epoch: int
    ) -> bool:
        """Return whether the offset fits, whatever the epoch (KAFKA-18991; 3.9.1, 4.1)."""
        return sent.fetch_offset == fetch_offset

    def high_watermark_needs_min_isr(self) -> bool:
        """Return False: the ISR alone holds it back (KAFKA-15583 came with 3.7)."""
        return False

    def caps_min_isr(self) -> bool:
        """Return False: Partition compares the ISR with the setting itself."""
        return False

    def knows_verification(self) -> bool:
        """Return False: KIP-890's first part came with 3.6."""
        return False

    def fetch_session_shards(self) -> int:
        """Return one: the cache was divided in 3.8 (KAFKA-9401)."""
        return 1

    def out_of_sync(self, leader: LeaderView, now: int) -> tuple[int, ...]:
        """Return nobody while the ISR has a member that is no replica (before KAFKA-9672).

        Partition.getReplicaOrException throws then. That also ends this round of the
        isr-expiration task for partitions that come later, which is left out.
        """
        for member in leader.isr:
            if member != leader.leader_id and member not in leader.remotes:
                return ()
        return super().out_of_sync(leader, now)


class Storage39(StorageRules):
    """The logs of 3.9."""

    def bounds_log_segment_bytes(self) -> bool:
        """Return False: 14 bytes are enough, as for segment.bytes (KIP-1030)."""
        return False


class Storage41(StorageRules):
    """The logs of 4.1."""

    def has_internal_segment_bytes(self) -> bool:
        """Return True: LogConfig.INTERNAL_SEGMENT_BYTES_CONFIG."""
        return True


class Storage28(Storage39):
    """The logs of 2.8."""

    def flushes_renamed_directory(self) -> bool:
        """Return False: directories are flushed since 3.0 (KAFKA-3968)."""
        return False

    def waits_for_truncated_epochs(self) -> bool:
        """Return True: LeaderEpochFileCache.flush writes and syncs under the cache's lock."""
        return True


class Streams39(StreamsRules):
    """Kafka Streams before KIP-1094."""

    def commits_leader_epochs(self) -> bool:
        """Return False: a task looks for offsets only (StreamTask.findOffset)."""
        return False


RULES: dict[str, dict[str, type]] = {
    "2.8-zk": {
        "client": Client28,
        "group": Group28,
        "replication": Replication28,
        "storage": Storage28,
        "streams": Streams39,
        "transaction": Transaction28,
    },
    "3.9": {
        "client": Client39,
        "controller": Controller39,
        "group": Group39,
        "lifecycle": Lifecycle39,
        "raft": Raft39,
        "replication": Replication39,
        "storage": Storage39,
        "streams": Streams39,
        "transaction": Transaction39,
    },
    "4.1": {
        "client": Client41,
        "controller": Controller41,
        "group": Group41,
        "raft": Raft41,
        "lifecycle": Lifecycle41,
        "storage": Storage41,
        "transaction": Transaction41,
    },
}
"""Release to part of the model to the rules of that part that differ from the model's own."""


def with_version(rules: Rules, version: str) -> Rules:
    """Return ``rules`` with those of a release beneath the variants that they already hold."""
    made: dict[str, Any] = {}
    for part, older in RULES.get(version, {}).items():
        chosen = type(getattr(rules, part))
        bases = (older,) if chosen is PARTS[part] else (chosen, older)
        made[part] = type(f"{older.__name__}{chosen.__name__}", bases, {})()
    return replace(rules, **made)
