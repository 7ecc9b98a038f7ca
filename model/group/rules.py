"""Decisions of the group coordinator that Kafka once got wrong or that a KIP changed."""

from __future__ import annotations

from kafkasim.model.errors import Errors
from kafkasim.model.group.classic.group import ClassicGroup, State


class GroupRules:
    """What today's Kafka decides; a variant overrides named methods."""

    def check_generation(self, group: ClassicGroup, generation: int) -> Errors:
        """Check the generation of a commit by a known member (B63)."""
        return Errors.NONE if generation == group.generation else Errors.ILLEGAL_GENERATION

    def check_committer(
        self, group: ClassicGroup, member_id: str, instance_id: str | None
    ) -> Errors:
        """Check that whoever commits with a generation is a member, and not a fenced one (B63)."""
        return group.validate_member(member_id, instance_id)

    def accepts_commit_in_state(self, state: State) -> bool:
        """A member may commit before it rejoins, not between JoinGroup and SyncGroup."""
        return state is not State.COMPLETING_REBALANCE

    def session_expires(self, is_new: bool, awaits_join: bool, awaits_sync: bool) -> bool:
        """Whether a session that ran out removes its member.

        A parked join or sync counts as a heartbeat, except for a new member: its client may have
        gone and retried under another id (KAFKA-5512 and KIP-394's five minutes).
        """
        return is_new or not (awaits_join or awaits_sync)

    def replaces_static_member(self, state: State) -> bool:
        """A join without member id under a known instance id fences the old id (B68, KAFKA-8500).

        In every state: during a rebalance too.
        """
        return True

    def static_rejoin_rebalances(self, state: State) -> bool:
        """A static member replaced after the leader was told the old id: again (B69, KAFKA-9801).

        The assignment that is under way names the old member id.
        """
        return state is State.COMPLETING_REBALANCE

    def persists_static_replacement(self) -> bool:
        """A replaced static member id is written to the log before it is used (KAFKA-10284)."""
        return True

    def offsets_may_expire(self, state: State, protocol_type: str | None, subscribed: bool) -> bool:
        """Whether the expiry scan may look at a group's offsets of a topic (B71, KAFKA-13636).

        ``subscribed``: some member subscribes to the topic, or it is not known that none does.
        """
        if protocol_type is None:
            return True  # offsets without members: a simple consumer
        if state is State.EMPTY:
            return True
        return state is State.STABLE and protocol_type == "consumer" and not subscribed

    def retention_starts_ms(
        self,
        state: State,
        protocol_type: str | None,
        current_state_timestamp_ms: int,
        commit_timestamp_ms: int,
    ) -> int:
        """From when retention counts: a group's offsets live as long as it does (KIP-211)."""
        if protocol_type is not None and state is State.EMPTY:
            return current_state_timestamp_ms
        return commit_timestamp_ms

    def offset_expired(self, start_ms: int, now_ms: int, retention_ms: int) -> bool:
        """Whether an offset's retention is over (B71b: the stored start, never a default)."""
        return now_ms - start_ms >= retention_ms
