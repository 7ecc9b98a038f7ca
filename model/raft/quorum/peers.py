"""The other replicas that this one talks to, each with its address and two connections.

Models the voter connections of KafkaRaftClient's RequestManager and NetworkChannel. A peer is a
voter, or a leader that is in no set that this replica has yet. A request that expires before its
connection is open fails alone, and the attempt to connect goes on, up to ten seconds
(InterBrokerSendThread.failExpiredRequests).

In Kafka votes and fetches share one connection, and a request to a node waits for the one before,
whatever it is, unless the role has changed in between (RequestManager.isReady). Here there are two
connections, so that a fault can cut one kind alone; when one of them opens, a long attempt to open
the other begins anew. Left out: what waits for a request of the other kind. Within one role none
does but ApiVersions, and the new voter that it goes to is told of no leader before. A new role also
forgets the Fetch in flight, whose late answer it ignores, and every backoff
(KafkaRaftClient.resetConnections, 2.8 to 4.2); here an unattached replica waits for that answer and
learns from it who leads, for all replicas would fetch at other moments otherwise.
"""

from __future__ import annotations

from kafkasim.model.channel import Channel
from kafkasim.model.raft.context import LANE, RaftContext
from kafkasim.model.raft.quorum.voters import VoterSets

RECONNECT_BACKOFF_MS = (50, 500)  # KafkaRaftManager.buildNetworkClient


class Peer:
    """Another replica. ``fetching`` says that a Fetch to it is not answered yet.

    After a Fetch that failed it gets none before ``not_before`` (RequestManager.isBackingOff).
    """

    __slots__ = ("address", "fetch", "fetching", "id", "not_before", "vote")

    def __init__(self, context: RaftContext, peer_id: int, address: str) -> None:
        timeout_ms = context.config.controller_quorum_request_timeout_ms
        process = context.process
        self.id = peer_id
        self.address = address
        self.vote, self.fetch = [
            Channel(
                process,
                address,
                purpose,
                LANE,
                timeout_ms,
                queued=True,
                on_open=self._on_open,
                reconnect_backoff_ms=RECONNECT_BACKOFF_MS,
            )
            for purpose in ("raft-vote", "raft-fetch")
        ]
        self.fetching = False
        self.not_before = 0

    def _on_open(self, now: int) -> None:
        self.vote.hurry(now)
        self.fetch.hurry(now)

    def free(self, now: int) -> bool:
        """Return whether a Fetch can be sent to it now."""
        return not self.fetching and now >= self.not_before and self.fetch.ready(now)


class Peers:
    """The peers by id."""

    __slots__ = ("_context", "_observer", "_peers", "_voters")

    def __init__(self, context: RaftContext, voters: VoterSets, observer: bool) -> None:
        self._context = context
        self._voters = voters
        self._observer = observer
        self._peers: dict[int, Peer] = {}
        self.voters_changed()

    def __getitem__(self, peer_id: int) -> Peer:
        return self._peers[peer_id]

    def __contains__(self, peer_id: int) -> bool:
        return peer_id in self._peers

    def voters(self) -> list[Peer]:
        """Return the other voters of the latest set."""
        return [self._peers[voter] for voter in self._voters.others]

    def voters_changed(self) -> None:
        """Take the addresses of the latest voter set."""
        for voter in self._voters.others:
            self.note_endpoint(voter, self._voters.voters[voter])

    def note_endpoint(self, replica: int, address: str) -> None:
        """Remember the address of a replica that may lead; "" says nothing."""
        known = self._peers.get(replica)
        other = replica != self._context.node_id or self._observer
        if address and other and (known is None or known.address != address):
            self._peers[replica] = Peer(self._context, replica, address)

    def endpoint(self, replica: int) -> str:
        """Return the address of a replica; "" if it is not known."""
        if replica == self._context.node_id:
            return self._context.process.name
        peer = self._peers.get(replica)
        return "" if peer is None else peer.address
