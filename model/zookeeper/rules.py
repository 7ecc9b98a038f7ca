"""The decisions of ZooKeeper that its guarantees rest on; some of them were wrong once.

A variant overrides one of these methods to show what the decision is for:

- without ``may_attach`` a session's reads go back in time;
- without ``accepts_forward`` a write that was delayed in the session's old server takes effect
  after the session's next write (ZOOKEEPER-417);
- without ``accepts_write`` an ephemeral znode outlives its session (ZOOKEEPER-1208);
- without ``missed_event`` a client misses the event of a watch while it reconnects.
"""

from __future__ import annotations

from kafkasim.model.raft.rules import RaftRules
from kafkasim.model.zookeeper.config import ZooKeeperConfig


class EnsembleRaftRules(RaftRules):
    """The Raft core's rules in the place of ZAB."""

    def max_fetch_wait_ms(self, fetch_timeout_us: int) -> int:
        """Return half of syncLimit, and 500 ms at most.

        A ZAB leader pings its followers every half tick (Leader.lead), so an idle ensemble is never
        silent for syncLimit. Here the answer to a Fetch is what a follower hears.
        """
        return min(super().max_fetch_wait_ms(fetch_timeout_us), fetch_timeout_us // 2000)

    def check_quorum_us(self, fetch_timeout_us: int) -> int | None:
        """Return how long a leader may go without hearing from a majority (Leader.lead).

        That is syncLimit, which the Raft core has as its fetch timeout.
        """
        return fetch_timeout_us

    def high_watermark_completes_fetch(self) -> bool:
        """Return True: a ZAB leader sends COMMIT to its followers as soon as it commits."""
        return True

    def leader_end_offset(self, log_end_offset: int, flushed_offset: int, alone: bool) -> int:
        """Return what is flushed: SyncRequestProcessor has written what the leader acknowledges."""
        return flushed_offset


class ZooKeeperRules:
    """The rules of ZooKeeper 3.8."""

    def raft(self) -> RaftRules:
        """Return the rules of the ensemble's replicated log."""
        return EnsembleRaftRules()

    def session_timeout_ms(self, requested_ms: int, config: ZooKeeperConfig) -> int:
        """Return the timeout that a session gets (ZooKeeperServer.processConnectRequest)."""
        low, high = config.min_session_timeout_ms, config.max_session_timeout_ms
        return min(max(requested_ms, low), high)

    def session_deadline_us(self, now: int, timeout_us: int, tick_us: int) -> int:
        """Return when a session touched now expires: at the end of a tick (ExpiryQueue)."""
        return ((now + timeout_us) // tick_us + 1) * tick_us

    def may_attach(self, last_zxid_seen: int, last_zxid: int) -> bool:
        """Return whether a server that has applied ``last_zxid`` may serve this client.

        ``last_zxid_seen`` is the newest transaction that the client has seen on any server.
        """
        return last_zxid_seen <= last_zxid

    def accepts_forward(self, owner: int | None, server_id: int) -> bool:
        """Return whether the leader accepts a session's write from this server (ZOOKEEPER-417).

        ``owner`` is the server where the leader last saw the session; None: it has not seen it.
        """
        return owner is None or owner == server_id

    def accepts_write(self, session_open: bool) -> bool:
        """Return whether a write takes effect (ZOOKEEPER-1208).

        ``session_open`` says whether its session is open at the write's place in the log.
        """
        return session_open

    def missed_event(self, changed_zxid: int, relative_zxid: int) -> bool:
        """Return whether a watch would have fired while its client was away (DataTree.setWatches).

        The znode last changed at ``changed_zxid``; the client had seen up to ``relative_zxid``.
        """
        return changed_zxid > relative_zxid
