"""Mutations that reduce availability without a reason, or make a wait too long; no data is lost."""

from __future__ import annotations

from typing import Any

from kafkasim.model.broker.kraft.rules import LifecycleRules
from kafkasim.model.controller.kraft.rules import ControllerRules
from kafkasim.model.controller.zk.rules import ZkControllerRules
from kafkasim.model.replication.rules import ReplicationRules
from kafkasim.model.zookeeper.rules import ZooKeeperRules
from kafkasim.scenarios.variants.variant import Variant


class ShrinksWhoeverLags(ReplicationRules):
    """A member whose log is shorter than the leader's at the check leaves the ISR."""

    def out_of_sync(self, leader: Any, now: int) -> tuple[int, ...]:
        end = leader.log.log_end_offset
        remotes = leader.remotes
        return tuple([m for m in leader.isr if m in remotes and remotes[m].leo < end])


class HalfASession(ControllerRules):
    """The controller gives up a broker after half of its session."""

    def session_has_ended(self, silent_us: int, session_timeout_us: int) -> bool:
        return silent_us >= session_timeout_us // 2


class HalfAZooKeeperSession(ZooKeeperRules):
    """The ensemble's leader ends a session after half of its timeout."""

    def session_deadline_us(self, now: int, timeout_us: int, tick_us: int) -> int:
        return super().session_deadline_us(now, timeout_us // 2, tick_us)


class TwoSessions(ControllerRules):
    """The controller gives up a broker after two sessions."""

    def session_has_ended(self, silent_us: int, session_timeout_us: int) -> bool:
        return silent_us >= 2 * session_timeout_us


class TwoZooKeeperSessions(ZooKeeperRules):
    """The ensemble's leader ends a session after two of its timeouts."""

    def session_deadline_us(self, now: int, timeout_us: int, tick_us: int) -> int:
        return super().session_deadline_us(now, 2 * timeout_us, tick_us)


class LeadsOn(ReplicationRules):
    """A leader goes on to lead when metadata names another one."""

    def steps_down(self) -> bool:
        return False


class KeepsLostReplicas(ReplicationRules):
    """A broker goes on with a replica that metadata gives to others."""

    def deletes_replicas(self) -> bool:
        return False


class TellsOnlyTheOthers(ZkControllerRules):
    """The controller tells every replica of an election but the leader that was deposed."""

    def told_of_leader(self, replicas: tuple[int, ...], former: int) -> tuple[int, ...]:
        return tuple([replica for replica in replicas if replica != former])


class GathersMetadata(LifecycleRules):
    """A broker publishes metadata every five seconds."""

    def gathers_metadata(self, published_us: int) -> bool:
        return published_us < 5_000_000


class NeverLetsGo(ControllerRules):
    """The controller never tells a broker that it may stop."""

    def may_shut_down(self, leads: bool, shutdown_offset: int, lowest_active_offset: int) -> bool:
        return False


class WaitsForEveryReplica(ReplicationRules):
    """The high watermark waits for all replicas, in the ISR or not."""

    def high_watermark(self, leader: Any, now: int) -> int:
        ends = [int(remote.leo) for remote in leader.remotes.values()]
        return min([super().high_watermark(leader, now), *ends])


class WaitsForOneMore(ReplicationRules):
    """acks=all is answered when one more record than the batch's is committed."""

    def required_offset(self, last_offset: int, duplicate: bool) -> int:
        return last_offset + 2


class KeepsLeaderships(ZkControllerRules):
    """The controller answers a broker that wants to stop without electing successors."""

    def moves_leaderships(self) -> bool:
        return False


HARM: tuple[Variant, ...] = (
    Variant(
        "M30-shrinks-whoever-lags", "ReplicaState.isCaughtUp", (ShrinksWhoeverLags,),
        "LAGREASON", "slow-follower",
        "A member leaves the ISR for lag when it was behind for replica.lag.time.max.ms.",
    ),
    Variant(
        "M31-half-a-session", "BrokerHeartbeatTracker.isExpired", (HalfASession,),
        "FENCEREASON", "gc-pause-isr-flapping",
        "A broker is fenced after a silence of broker.session.timeout.ms.",
    ),
    Variant(
        "M32-zk-half-a-session", "ExpiryQueue.update", (HalfAZooKeeperSession,),
        "FENCEREASON", "zk-gc-pause-leader",
        "A session ends after a silence of its whole timeout.",
    ),
    Variant(
        "M47-two-sessions", "BrokerHeartbeatTracker.isExpired", (TwoSessions,),
        "DEADINISR", "gc-pause-fenced",
        "A broker leaves the ISRs when it is silent for broker.session.timeout.ms.",
    ),
    Variant(
        "M48-zk-two-sessions", "ExpiryQueue.update", (TwoZooKeeperSessions,),
        "DEADINISR", "zk-silent-follower",
        "A broker leaves the ISRs when its session's timeout is over.",
    ),
    Variant(
        "M33-leads-on", "Partition.makeFollower", (LeadsOn,),
        "STALESERVE", "one-misplaced-leader",
        "A leader that has heard of its successor serves no more.",
    ),
    Variant(
        "M38-reads-on", "Partition.makeFollower", (LeadsOn,),
        "STALESERVE", "quiet-deposed-leader",
        "A leader that has heard of its successor answers no reads, also if nobody writes.",
    ),
    Variant(
        "M39-keeps-lost-replicas", "ReplicaManager.stopPartitions", (KeepsLostReplicas,),
        "missing:log-deleted", "zk-replica-moves",
        "A broker deletes a replica that the controller has given to another one.",
    ),
    Variant(
        "M46-gathers-metadata", "MetadataLoader.maybePublishMetadata", (GathersMetadata,),
        "STALESERVE", "quiet-deposed-leader",
        "A broker publishes metadata as soon as it has it.",
    ),
    Variant(
        "M29-zk-tells-only-the-others", "PartitionStateMachine", (TellsOnlyTheOthers,),
        "STALESERVE", "zk-leader-moves",
        "The controller tells the leader that it deposed of its successor.",
    ),
    Variant(
        "M34-never-lets-go", "BrokerHeartbeatManager", (NeverLetsGo,),
        "missing:controlled-shutdown", "rolling-restart",
        "A broker in controlled shutdown stops once the others have taken over.",
    ),
    Variant(
        "M35-waits-for-every-replica", "Partition.maybeIncrementLeaderHW", (WaitsForEveryReplica,),
        "HWSTALL", "gc-pause-fenced",
        "The high watermark waits for the maximal ISR and for nobody else.",
    ),
    Variant(
        "M36-waits-for-one-more", "DelayedProduce.tryComplete", (WaitsForOneMore,),
        "ACKLATE", "steady",
        "acks=all is answered once the high watermark has passed the batch.",
    ),
    Variant(
        "M37-zk-keeps-leaderships", "KafkaController.doControlledShutdown", (KeepsLeaderships,),
        "missing:leader-change:controlled-shutdown", "zk-rolling-restart",
        "A broker in controlled shutdown hands its leaderships over with its first request.",
    ),
)  # fmt: skip
