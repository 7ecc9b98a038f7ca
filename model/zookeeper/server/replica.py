"""The ensemble's replicated log: the Raft core in the place of ZAB, and where they differ.

Timings: the follower's fetch timeout and the leader's check quorum are syncLimit × tickTime (ZAB:
either side gives up a peer unheard of for syncLimit ticks), the election timeout is 200–400 ms
(FastLeaderElection waits 200 ms for better votes), appends do not linger. initLimit has nothing to
bound: a follower that catches up does not hold up its leader.

What differs, and what it means:

- ZAB elects the server with the newest log; Raft any server with all that is committed. In both,
  nothing committed is lost, and what was proposed and not committed may survive or not.
- A ZAB leader counts a proposal once a majority logged it and tells them; a Raft follower learns
  that with the next fetch. A follower's clients see a commit up to a round trip later.
- A ZAB follower whose connection to the leader breaks looks for a leader at once. A Raft follower
  waits for its fetch timeout, so :meth:`Replica.suspect_leader` ends it early, with a jitter.
- Raft asks before it raises the epoch (pre-vote): a server that alone cannot reach the leader does
  not depose it. ZAB's lone server looks for a leader too, and finds the same one.
- The leader's log is what a follower is synchronised with, from wherever they differ (DIFF, TRUNC);
  no snapshot is taken or sent (SNAP): a server that restarts replays the log from its start.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from kafkasim.model.config import TopicConfig
from kafkasim.model.effects import Process
from kafkasim.model.raft.client import LANE, RaftClient
from kafkasim.model.raft.delivery import Listener
from kafkasim.model.raft.quorum.states import Follower, Role
from kafkasim.model.records import TopicPartition
from kafkasim.model.storage.log.unified_log import UnifiedLog
from kafkasim.model.storage.rules import StorageRules
from kafkasim.model.zookeeper.config import ELECTION_TIMEOUT_MS, ZooKeeperConfig
from kafkasim.model.zookeeper.rules import ZooKeeperRules

LOG = TopicPartition("zookeeper", 0)


class ServerState(Enum):
    """What a server is in an epoch (QuorumPeer.ServerState); the value stands in the trace."""

    LOOKING = "looking"
    FOLLOWING = "following"
    LEADING = "leading"


class ReplicaListener(Listener, Protocol):
    """A listener of the log that also hears when its server follows or looks for a leader."""

    def on_state(self, state: ServerState, leader_id: int, epoch: int, now: int) -> None:
        """Lane ``raft``: this server is LOOKING or FOLLOWING in ``epoch``, perhaps as before."""


class Replica(RaftClient):
    """One server's replica of the ensemble's log."""

    def __init__(
        self,
        process: Process,
        server_id: int,
        servers: dict[int, str],
        config: ZooKeeperConfig,
        rules: ZooKeeperRules,
        listener: ReplicaListener,
        now: int,
    ) -> None:
        self.state_listener = listener
        log = UnifiedLog(
            process.files,
            process.out,
            f"{LOG}",
            LOG,
            "zookeeper",
            TopicConfig(retention_ms=-1),
            StorageRules(),
            clean=False,
            now_ms=process.wall_ms(now),
        )
        super().__init__(process, server_id, servers, log, config.quorum(), rules.raft(), listener)

    def _enter(self, role: Role, now: int) -> None:
        """Tell the listener of every role; Raft's own listener hears of leaders only.

        That this server leads, the listener hears by ``on_leader_change``, after every commit of
        earlier epochs.
        """
        super()._enter(role, now)
        following = isinstance(role, Follower)
        state = ServerState.FOLLOWING if following else ServerState.LOOKING
        self.state_listener.on_state(state, role.leader, role.epoch, now)

    def suspect_leader(self, epoch: int, now: int) -> None:
        """Lane ``raft``: the connection to the leader broke, do not wait for the fetch timeout."""
        if isinstance(self.state, Follower) and self.state.epoch == epoch and not self.halted:
            jitter_us = int(self.process.rng.random() * ELECTION_TIMEOUT_MS * 1000)
            deadline = self.process.timers.deadline((LANE, "election"))
            if deadline is None or deadline > now + jitter_us:
                self.await_fetch(now, jitter_us)
