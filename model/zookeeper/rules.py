"""The decisions of a ZooKeeper ensemble that were wrong once, or that give the guarantees.

Each is a named method, so that a variant can show what it is for: without ``may_attach`` a
session's reads go back in time, without ``accepts_forward`` a write that lingers in the old server
overtakes the session's next one (ZOOKEEPER-417), without ``accepts_write`` an ephemeral znode
outlives its session (ZOOKEEPER-1208), without ``missed_event`` a watch is lost over a reconnect.
"""

from __future__ import annotations

from kafkasim.model.raft.rules import RaftRules
from kafkasim.model.zookeeper.config import ZooKeeperConfig


class EnsembleRaftRules(RaftRules):
    """The Raft core's rules under an ensemble."""

    def check_quorum_us(self, fetch_timeout_us: int) -> int | None:
        """Return how long a leader may hear from no majority: syncLimit (Leader.lead)."""
        return fetch_timeout_us

    def high_watermark_completes_fetch(self) -> bool:
        """Return True: a ZAB leader sends COMMIT to its followers at once."""
        return True


class ZooKeeperRules:
    """The rules of ZooKeeper 3.8."""

    def raft(self) -> RaftRules:
        """Return the rules of the replicated log."""
        return EnsembleRaftRules()

    def session_timeout_ms(self, requested_ms: int, config: ZooKeeperConfig) -> int:
        """Return the timeout a session gets (ZooKeeperServer.processConnectRequest)."""
        low, high = config.min_session_timeout_ms, config.max_session_timeout_ms
        return min(max(requested_ms, low), high)

    def session_deadline_us(self, now: int, timeout_us: int, tick_us: int) -> int:
        """Return when a session touched now expires: the end of a tick (ExpiryQueue)."""
        return ((now + timeout_us) // tick_us + 1) * tick_us

    def may_attach(self, last_zxid_seen: int, last_zxid: int) -> bool:
        """Return whether a server that applied up to ``last_zxid`` takes this client."""
        return last_zxid_seen <= last_zxid

    def accepts_forward(self, owner: int | None, server_id: int) -> bool:
        """Return whether the leader takes a session's write from this server (ZOOKEEPER-417).

        ``owner`` is the server where the session was last seen by this leader.
        """
        return owner is None or owner == server_id

    def accepts_write(self, session_open: bool) -> bool:
        """Return whether a write counts, whose session is or is no longer open at its zxid."""
        return session_open

    def missed_event(self, changed_zxid: int, relative_zxid: int) -> bool:
        """Return whether a znode changed while its watcher was cut off (DataTree.setWatches)."""
        return changed_zxid > relative_zxid
