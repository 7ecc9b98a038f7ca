"""The follower's side of replication: one Fetch at a time, from the leader or to find it.

Models maybeSendFetchToBestNode and handleFetchResponse of KafkaRaftClient. A follower fetches from
its leader, or, while the connection to that one backs off, asks a random voter who leads; so does
an unattached replica. The offset of a voter's Fetch acknowledges what it has, so its log is made
durable by a Barrier before the next one. Observers flush nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from model.channel import Channel, Failed
from model.effects import Barrier
from model.errors import Errors
from model.messages import RaftFetchRequest, RaftFetchResponse
from model.raft.states import Follower, Unattached
from model.storage.files import DiskError

if TYPE_CHECKING:
    from model.raft.client import RaftClient

LANE = "raft"
MAX_WAIT_MS = 500
RETRY_TIMER = (LANE, "fetch")


class Peer:
    """Another voter, with a connection for votes and one for fetches."""

    __slots__ = ("busy", "client", "epoch", "fetch", "id", "on_fetch", "vote")

    def __init__(self, client: RaftClient, voter: int) -> None:
        timeout_ms = client.config.controller_quorum_request_timeout_ms
        address = client.voters[voter]
        self.client = client
        self.id = voter
        self.vote = Channel(client.process, address, "raft-vote", LANE, timeout_ms)
        self.fetch = Channel(client.process, address, "raft-fetch", LANE, timeout_ms)
        self.busy = False  # a Fetch is on its way
        self.epoch = -1  # the epoch of that Fetch
        self.on_fetch = self._on_fetch  # bound once

    def _on_fetch(self, answer: Any, now: int) -> None:
        self.client.fetcher.on_answer(self, answer, now)


class Fetcher:
    """Keeps one Fetch on its way while the role asks for it."""

    __slots__ = ("active", "client", "following")

    def __init__(self, client: RaftClient) -> None:
        self.client = client
        self.active: Peer | None = None
        self.following = False  # the active Fetch was sent by a follower of its epoch

    def poll(self, now: int) -> None:
        """Send the next Fetch, unless the one on its way serves the present role."""
        client = self.client
        role = client.state
        if client.halted:
            return
        if isinstance(role, Follower):
            peer = client.peers[role.leader]
            active = self.active
            if active is not None and (
                active is peer or (self.following and active.epoch == role.epoch)
            ):
                return
            if peer.busy or not peer.fetch.ready(now):
                other = self._any_voter(now)
                if other is None:
                    self._later(now)
                    return
                peer = other
        elif isinstance(role, Unattached) and self.active is None:
            found = self._any_voter(now)
            if found is None:
                self._later(now)
                return
            peer = found
        else:
            return
        client.process.timers.cancel(RETRY_TIMER)
        self.active = peer
        self.following = isinstance(role, Follower)
        peer.busy = True
        peer.epoch = role.epoch
        log = client.log
        last_epoch = log.epochs.latest_epoch
        request = RaftFetchRequest(
            client.replica_id,
            role.epoch,
            log.log_end_offset,
            last_epoch if last_epoch > 0 else 0,
            MAX_WAIT_MS,
            high_watermark=client.high_watermark,
        )
        peer.fetch.send(request, now, peer.on_fetch)

    def on_answer(self, peer: Peer, answer: Any, now: int) -> None:
        """Take the answer to a Fetch and go on."""
        client = self.client
        epoch = peer.epoch
        peer.busy = False
        consumed = client.halted or type(answer) is Failed
        if not consumed:  # while this Fetch still counts as active: a new leader may be this peer
            consumed = client.handle_common(
                answer.error, answer.leader_id, answer.leader_epoch, now
            )
        if self.active is not peer:
            return
        self.active = None
        role = client.state
        if isinstance(role, Follower) and not consumed:
            if role.leader == peer.id and role.epoch == epoch:
                self._apply(role, answer, now)
            if not client.process.timers.armed(RETRY_TIMER):
                self.poll(now)
        elif isinstance(role, Follower) and role.epoch > epoch:
            self.poll(now)
        else:
            self._later(now)

    def _apply(self, role: Follower, response: RaftFetchResponse, now: int) -> None:
        client = self.client
        log = client.log
        try:
            if response.diverging_epoch is not None:
                self._truncate(*response.diverging_epoch, now)
            elif response.batches:
                result = log.append_as_follower(
                    response.batches, role.epoch, client.process.wall_ms(now)
                )
                if result.error is Errors.CORRUPT_MESSAGE:
                    self._later(now)  # read again; the fetch timeout goes on
                    return
                if result.error is not Errors.NONE:
                    client.halt(f"append at {log.log_end_offset}: {result.error.name}")
                    return
                if client.rules.must_flush_before_fetch(client.is_voter):
                    client.process.out.append(Barrier(log.flush_files()))
                    log.flushed(log.log_end_offset)
        except DiskError as error:
            client.halt(str(error))
            return
        end_offset = client.log_end_offset = log.log_end_offset
        role.has_fetched = True
        client.await_fetch(now)
        high_watermark = response.high_watermark
        if high_watermark > client.high_watermark:
            client.raise_high_watermark(
                high_watermark if high_watermark < end_offset else end_offset, now
            )

    def _truncate(self, epoch: int, end_offset: int, now: int) -> None:
        """Cut the log where it leaves the leader's (truncateToEndOffset)."""
        client = self.client
        log = client.log
        known, own_end = log.epochs.end_offset_for(epoch, log.log_end_offset)
        offset = min(own_end, end_offset) if known == epoch else max(own_end, log.log_start_offset)
        if offset < client.high_watermark:
            client.halt(f"truncation to {offset}, below {client.high_watermark}")
            return
        log.truncate_to(offset)

    def _any_voter(self, now: int) -> Peer | None:
        free = [p for p in self.client.peers.values() if not p.busy and p.fetch.ready(now)]
        return free[int(self.client.process.rng.random() * len(free))] if free else None

    def _later(self, now: int) -> None:
        """Poll again after the retry backoff."""
        if self.active is None:
            client = self.client
            backoff_us = client.config.controller_quorum_retry_backoff_ms * 1000
            client.process.timers.arm(RETRY_TIMER, now + backoff_us, LANE, self.poll)
