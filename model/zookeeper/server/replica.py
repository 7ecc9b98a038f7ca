"""One server's replica of the ensemble's log: the Raft core in the place of ZAB.

Timings. The follower's fetch timeout and the leader's check of its quorum are syncLimit × tickTime:
in ZAB either side gives the other up after syncLimit silent ticks. A Fetch that finds nothing is
answered after half of that or 500 ms, as ZAB pings every half tick. The election timeout is 200 to
400 ms, because FastLeaderElection waits 200 ms for better votes. Appends do not linger. initLimit
has no effect, because a follower that catches up does not block its leader.

Where Raft and ZAB differ, and what that means:

- ZAB elects the server with the newest log; Raft elects any server that has every committed record.
  Neither loses a committed record, and with both an uncommitted one may survive or not.
- A ZAB leader sends COMMIT when a majority has logged a proposal; a Raft follower learns it from
  its next fetch response. A follower's clients see a commit up to a round trip later.
- A ZAB follower whose connection to the leader breaks looks for a leader at once. A Raft follower
  waits for its fetch timeout; :meth:`EnsembleReplica.suspect_leader` shortens that to a jitter.
- Raft asks before it raises the epoch (pre-vote), so a server that alone cannot reach the leader
  does not depose it. Such a server under ZAB looks for a leader, and finds the same one.
- A follower takes over the leader's log from the point where the two differ (DIFF, TRUNC). No
  server takes or sends snapshots (SNAP): one that restarts replays its log from the start.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from kafkasim.model.config import TopicConfig
from kafkasim.model.effects import Process
from kafkasim.model.raft.client import RaftClient
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
    """A listener of the log that is also notified when its server follows or looks for a leader."""

    def on_state(self, state: ServerState, leader_id: int, epoch: int, now: int) -> None:
        """Lane ``raft``: this server is LOOKING or FOLLOWING in ``epoch``, perhaps as before."""


class EnsembleReplica:
    """One server's replica of the ensemble's log: the Raft client ``client`` over that log."""

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
        self._process = process
        self._listener = listener
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
        self.client = RaftClient(
            process,
            server_id,
            servers,
            log,
            config.quorum(),
            rules.raft(),
            listener,
            on_role=self._on_role,
        )

    def _on_role(self, role: Role, now: int) -> None:
        """Notify the listener of every role; Raft itself notifies it of leaders only.

        That this server leads, Raft says by ``on_leader_change``, after every commit of earlier
        epochs.
        """
        following = isinstance(role, Follower)
        state = ServerState.FOLLOWING if following else ServerState.LOOKING
        self._listener.on_state(state, role.leader, role.epoch, now)

    def suspect_leader(self, epoch: int, now: int) -> None:
        """Look for a leader soon: the connection to the leader of ``epoch`` broke. Lane ``raft``.

        The fetch timeout ends after a jitter of up to the election timeout.
        """
        client = self.client
        following = isinstance(client.role, Follower) and client.epoch == epoch
        if following and not client.quorum.halted:
            jitter_us = int(self._process.rng.random() * ELECTION_TIMEOUT_MS * 1000)
            client.shorten_fetch_timeout(jitter_us, now)
