"""Bugs of classic groups, of their coordinator and their members (KAFKA.md, 8.5)."""

from __future__ import annotations

from kafkasim.model.client.rules import ClientRules
from kafkasim.model.group.classic.group import ClassicGroupState
from kafkasim.model.group.rules import GroupRules
from kafkasim.scenarios.variants.variant import Variant


class RetriesAsyncCommits(ClientRules):
    """A failed async commit is sent again, whatever was committed meanwhile."""

    def retries_async_commit(self) -> bool:
        """Return True: it is sent until it succeeds or default.api.timeout.ms is over."""
        return True


class FetchesDuringRevocation(ClientRules):
    """poll() goes on to return records while the commit before a rebalance is under way."""

    def pauses_pending_revocation(self) -> bool:
        """Return False: partitions about to be revoked are like others."""
        return False


class StaticMemberBesideItself(GroupRules):
    """A second process of a group.instance.id becomes a member of its own in a rebalance."""

    def replaces_static_member(self, state: ClassicGroupState) -> bool:
        """Return whether no rebalance is under way."""
        return state is ClassicGroupState.STABLE


class StaticRejoinKeepsRebalance(GroupRules):
    """A static member that comes back while the leader assigns gets no new rebalance."""

    def static_rejoin_rebalances(self, state: ClassicGroupState) -> bool:
        """Return False: the leader's assignment names the old member id."""
        return False


class StaticSwapInMemory(GroupRules):
    """The new member id of a static member is in the coordinator's memory only."""

    def persists_static_replacement(self) -> bool:
        """Return False: no record is written."""
        return False


class OffsetsExpireInRebalance(GroupRules):
    """Offsets of subscribed topics expire while a group rebalances."""

    def offsets_may_expire(
        self, state: ClassicGroupState, protocol_type: str | None, subscribed: bool
    ) -> bool:
        """Return True unless the group is stable and subscribes to the topic."""
        if state in (ClassicGroupState.STABLE, ClassicGroupState.EMPTY):
            return super().offsets_may_expire(state, protocol_type, subscribed)
        return True


CLASSIC_GROUPS: tuple[Variant, ...] = (
    Variant(
        "B63-async-commit-retried", "KafkaConsumer.commitAsync", (RetriesAsyncCommits,),
        "offset-regression", "B63-async-commit-retried",
        "A committed offset does not go back: an async commit that fails is not sent again, since"
        " a later one may have succeeded.",
    ),
    Variant(
        "B65-fetch-during-pending-revocation", "KAFKA-14196", (FetchesDuringRevocation,),
        "handover-redelivery", "B65-fetch-during-pending-revocation",
        "What a member's commit before a rebalance does not cover is not returned by poll().",
    ),
    Variant(
        "B68-static-duplicate-instance", "KAFKA-8500", (StaticMemberBesideItself,),
        "EXCL", "B68-static-duplicate-instance",
        "A group has one member for a group.instance.id: a second process fences the first, in a"
        " rebalance too.",
    ),
    Variant(
        "B69-static-rejoin-in-completing", "KAFKA-9801", (StaticRejoinKeepsRebalance,),
        "changed-generation", "B69-static-rejoin-in-completing",
        "A static member that restarts while the leader assigns gets partitions, and all of them"
        " are read.",
    ),
    Variant(
        "B70-static-id-swap-not-persisted", "KAFKA-10284", (StaticSwapInMemory,),
        "EXCL", "B70-static-id-swap-not-persisted",
        "The member id that a restarted static member was given is valid after a failover of the"
        " coordinator.",
    ),
    Variant(
        "B71-offsets-expire-during-rebalance", "KAFKA-13636", (OffsetsExpireInRebalance,),
        "OFFSET", "B71-offsets-expire-during-rebalance",
        "Offsets of a group with members do not expire while it rebalances, however long.",
    ),
)  # fmt: skip
