"""Historical bugs of the metadata quorum (KAFKA.md, 8.3)."""

from __future__ import annotations

from typing import Any

from kafkasim.model.raft.rules import RaftRules, RoleName
from kafkasim.scenarios.variants.variant import Variant


class NoCheckQuorum(RaftRules):
    """A leader leads as long as it runs, even if no voter fetches from it."""

    def check_quorum_us(self, fetch_timeout_us: int) -> int | None:
        return None


class LeadsOnAfterRestart(RaftRules):
    """A voter that led when it stopped goes on leading in the same epoch."""

    def restart_role(self, stored: Any, node_id: int, last_log_epoch: int) -> RoleName:
        if stored.leader == node_id and stored.epoch >= last_log_epoch:
            return RoleName.LEADER
        return super().restart_role(stored, node_id, last_log_epoch)


class FetchesOnUnflushed(RaftRules):
    """A voter's next fetch does not wait until its log is flushed."""

    def must_flush_before_fetch(self, voter: bool) -> bool:
        return False


class NoPreVote(RaftRules):
    """A voter whose fetch timeout ends raises the epoch at once."""

    def pre_vote(self) -> bool:
        return False


RAFT: tuple[Variant, ...] = (
    Variant(
        "B39-raft-no-check-quorum", "KAFKA-15489", (NoCheckQuorum,),
        "LIVE", "B39-raft-no-check-quorum",
        "A Raft leader that no majority fetches from resigns, so that the brokers look for the "
        "next one.",
    ),
    Variant(
        "B41-raft-leader-same-epoch", "KAFKA-10527", (LeadsOnAfterRestart,),
        "META", "B41-raft-leader-same-epoch",
        "A Raft leader that restarts does not lead again in its old epoch.",
    ),
    Variant(
        "B42-raft-no-fsync-before-fetch", "KIP-595", (FetchesOnUnflushed,),
        "META", "B42-raft-no-fsync-before-fetch",
        "Records that a Raft voter acknowledged by its next fetch survive a power loss of that "
        "voter.",
    ),
    Variant(
        "B43-no-pre-vote", "KIP-996", (NoPreVote,),
        "LIVE", "B43-no-pre-vote",
        "A voter that was cut off comes back as a follower and does not depose a healthy "
        "leader.",
    ),
)  # fmt: skip
