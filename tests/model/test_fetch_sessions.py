"""Incremental fetch sessions (KIP-227) against their slow twin, full fetches, and their errors.

One schedule of appends, fetches, elections, ISR changes and time runs twice: once with followers
that keep sessions, once with followers whose every fetch is full (session epoch −1). Logs, high
watermarks, ISRs and what a leader knows of its followers must agree after every step.

In a session a leader records an idle follower's fetches late (requests/fetch_sessions.py), so
"caught up" is compared as ReplicationRules.is_caught_up sees it.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from kafkasim.model.controller.common.deltas.metadata_delta import MetadataDelta
from kafkasim.model.controller.common.image import TopicImage
from kafkasim.model.effects import Request, Respond, Then
from kafkasim.model.errors import Errors
from kafkasim.model.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, FetchSessionHandler
from kafkasim.model.messages import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ProducePartition,
    ProduceRequest,
)
from kafkasim.model.records import Record, batch_of
from kafkasim.model.replication.fetching.replica_fetcher import ReplicaFetcher
from kafkasim.model.replication.partitions.leader_state import LeaderState
from kafkasim.model.replication.requests.fetch_sessions import FetchSession, FetchSessionCache
from kafkasim.model.replication.rules import ReplicationRules
from tests.model.replica_harness import TOPIC_ID, TP, Node, Trio, registration

NONE = Errors.NONE
LAG_US = 1_000_000


# ------------------------------------------------------------------------------------ the twin


def fetch_in_full(trio: Trio) -> None:
    """Strip the sessions off every fetch on its way."""
    for key, queue in trio.requests.items():
        fetcher = _fetcher(trio, key)
        for index, sent in enumerate(queue):
            message = sent.message
            if fetcher is None or not isinstance(message, FetchRequest):
                continue
            if message.session_epoch == FINAL_EPOCH:
                continue
            asked = tuple(fetcher.session.partitions.values())
            queue[index] = type(sent)(
                sent.connection,
                sent.correlation,
                FetchRequest(
                    message.replica_id,
                    message.replica_epoch,
                    message.max_wait_ms,
                    message.min_bytes,
                    message.max_bytes,
                    0,
                    asked,
                ),
            )


def _fetcher(trio: Trio, key: tuple[int, int]) -> ReplicaFetcher | None:
    for fetcher in trio.nodes[key[0]].replicas.fetchers.threads.values():
        if fetcher.leader.channel.connection == key[1]:
            return fetcher
    return None


class Twins:
    """The same verbs for a trio with sessions and for one without."""

    def __init__(self) -> None:
        self.fast = Trio(replica_lag_time_max_ms=LAG_US // 1000, min_insync_replicas=2)
        self.slow = Trio(replica_lag_time_max_ms=LAG_US // 1000, min_insync_replicas=2)
        self.values = 0
        self.each("tell")

    def each(self, verb: str, *arguments: Any) -> None:
        """Do the same to both."""
        for trio in (self.fast, self.slow):
            fetch_in_full(self.slow)
            getattr(trio, verb)(*arguments)
        fetch_in_full(self.slow)

    def settle(self) -> None:
        """Deliver until all fetches wait."""
        self.fast.settle()
        for _ in range(40):
            fetch_in_full(self.slow)
            links = self.slow.links()
            if not links:
                return
            for key in links:
                fetch_in_full(self.slow)
                if key in self.slow.requests and (
                    self.slow.requests[key] or self.slow.replies[key]
                ):
                    self.slow.deliver(key)

    def controllers(self) -> None:
        """Let the controllers serve what the leaders propose."""
        for number in (1, 2, 3):
            for trio in (self.fast, self.slow):
                while trio.nodes[number].link.queue:
                    trio.controller(number)

    def compare(self) -> None:
        """Everything that Kafka's rules can see is the same."""
        assert observed(self.fast) == observed(self.slow)


def observed(trio: Trio) -> list[Any]:
    """What the replication of a trio has come to."""
    found: list[Any] = [trio.registration]
    for number, node in trio.nodes.items():
        partition = node.partition
        log = partition.log
        found += [number, trio.log(number), log.high_watermark, log.epochs.entries]
        leader = partition.role if isinstance(partition.role, LeaderState) else None
        found += [partition.leading, leader and leader.isr, leader and leader.maximal_isr]
        # What the leader would decide at every moment from here on.
        for later in (0, LAG_US // 2, LAG_US, 2 * LAG_US):
            at = trio.now + later
            out = trio.rules.out_of_sync(leader, at) if leader and leader.leading else ()
            found.append((later, out))
        for remote in leader.remotes.values() if leader else ():
            taken_over = [remote.last_caught_up_us]
            for entry in partition.delayed.session_entries:
                session = entry.session
                if entry.clean and session.replica_id == remote.id:
                    taken_over.append(session.last_fetch_us)
            found += [remote.id, remote.leo, remote.log_start_offset, remote.broker_epoch]
            found.append(max(taken_over))
    return found


@pytest.mark.parametrize("seed", range(25))
def test_sessions_come_to_the_same_as_full_fetches(seed: int) -> None:
    rng = random.Random(seed)
    twins = Twins()
    for _ in range(60):
        verb = rng.choice(
            ("produce", "produce", "settle", "settle", "wait", "wait", "elect", "isr")
        )
        if verb == "produce":
            twins.values += 1
            leader = twins.fast.registration.leader
            twins.each("produce", leader, twins.values, rng.choice((1, -1)))
        elif verb == "settle":
            twins.settle()
        elif verb == "wait":
            twins.each("advance", rng.choice((1_000, 50_000, 510_000, 1_100_000)))
        elif verb == "elect":
            twins.each("elect", rng.choice(twins.fast.registration.isr))
            for number in rng.sample((1, 2, 3), rng.choice((1, 2, 3, 3))):
                twins.each("tell", number)
        else:
            twins.each("shrink", twins.fast.registration.leader)
            twins.controllers()
            twins.each("tell")
        twins.compare()
    assert any(node.replicas.sessions.sessions for node in twins.fast.nodes.values())
    assert not any(node.replicas.sessions.sessions for node in twins.slow.nodes.values())


def test_an_idle_follower_counts_as_caught_up_at_its_last_fetch() -> None:
    """The follower's fetches leave no trace on a clean partition until its log grows."""
    twins = Twins()
    twins.settle()
    for _ in range(6):
        twins.each("advance", 510_000)
        twins.settle()
    twins.each("produce", 1, 7, 1)  # nobody fetches it
    twins.compare()
    twins.each("advance", 490_000)
    twins.each("shrink", 1)
    twins.compare()
    assert twins.fast.nodes[1].leader.maximal_isr == (1, 2, 3)
    twins.each("advance", 600_000)
    twins.each("shrink", 1)
    twins.compare()
    assert twins.fast.nodes[1].leader.state.proposed == (1,)


# ------------------------------------------------------------------- one leader, fetched by hand


class Leader:
    """Node 1 leads; requests of follower 2, or of a consumer (−1), are written by hand."""

    def __init__(self) -> None:
        self.trio = Trio()
        self.trio.tell(1)
        self.correlation = 0
        self.node: Node = self.trio.nodes[1]

    def ask(self, offset: int = 0, epoch: int = 1, topic_id: str = TOPIC_ID) -> FetchPartition:
        return FetchPartition(TP, topic_id, offset, 0, epoch, 1 if offset else -1, 1 << 20)

    def fetch(
        self,
        session_id: int,
        session_epoch: int,
        *asked: FetchPartition,
        forgotten: tuple[Any, ...] = (),
        wait_ms: int = 0,
        replica: int = 2,
    ) -> FetchResponse | None:
        """Send a fetch; None while it is parked."""
        self.correlation += 1
        request = FetchRequest(
            replica,
            replica,
            wait_ms,
            1,
            1 << 20,
            0,
            asked,
            session_id,
            session_epoch,
            "",
            forgotten,
        )
        trio = self.trio
        for effect in [e for e in self.node.out if type(e) is Then]:  # the disk is done
            self.node.out.remove(effect)
            effect.handler(trio.now)
        self.node.handle(Request(77, self.correlation, request, trio.now), trio.now)
        return self.answered()

    def answered(self) -> FetchResponse | None:
        """Take the answer out of the outbox."""
        effects, self.node.out[:] = list(self.node.out), []
        found = [e for e in effects if isinstance(e, Respond) and e.connection == 77]
        assert len(found) < 2, found
        return found[0].message if found else None

    def expire(self) -> None:
        """Let the wait of parked fetches end."""
        self.trio.now += 600_000
        timers = self.node.timers
        while (popped := timers.pop_due(self.trio.now)) is not None:
            timers.fire(popped[0], popped[1], self.trio.now)

    def open(self, offset: int = 0) -> int:
        """Open a session and return its id."""
        answer = self.fetch(0, INITIAL_EPOCH, self.ask(offset))
        assert answer is not None
        return answer.session_id

    def told(self, answer: FetchResponse | None) -> list[tuple[Errors, int, int]]:
        """(error, high watermark, number of batches) of each partition in an answer."""
        assert answer is not None
        assert answer.error is NONE, answer
        return [(p.error, p.high_watermark, len(p.batches)) for p in answer.partitions]


@pytest.fixture
def leader() -> Leader:
    return Leader()


def test_a_full_fetch_tells_everything_and_the_next_only_what_changed(leader: Leader) -> None:
    first = leader.fetch(0, INITIAL_EPOCH, leader.ask())
    assert leader.told(first) == [(NONE, 0, 0)]
    assert first is not None
    assert leader.told(leader.fetch(first.session_id, 1)) == []
    leader.trio.produce(1, 5)
    assert leader.told(leader.fetch(first.session_id, 2)) == [(NONE, 0, 1)]


def test_a_consumers_idle_partition_is_read_again_when_it_has_news(leader: Leader) -> None:
    trio = leader.trio
    trio.tell()
    trio.settle()
    first = leader.fetch(0, INITIAL_EPOCH, leader.ask(), replica=-1)
    assert leader.told(first) == [(NONE, 0, 0)]
    assert first is not None
    session = leader.node.replicas.sessions.sessions[first.session_id]
    assert (session.to_read(), len(session.entries)) == ([], 1)
    trio.produce(1, 5)
    assert leader.told(leader.fetch(session.id, 1, replica=-1)) == []  # not yet committed
    trio.settle()
    assert leader.told(leader.fetch(session.id, 2, replica=-1)) == [(NONE, 1, 1)]


def test_an_unknown_session_is_refused(leader: Leader) -> None:
    leader.open()
    answer = leader.fetch(99, 1)
    assert answer is not None
    assert (answer.error, answer.partitions) == (Errors.FETCH_SESSION_ID_NOT_FOUND, ())


def test_a_session_epoch_out_of_turn_is_refused_and_the_session_stays(leader: Leader) -> None:
    session = leader.open()
    for epoch in (2, 7):
        answer = leader.fetch(session, epoch)
        assert answer is not None
        assert (answer.error, answer.partitions) == (Errors.INVALID_FETCH_SESSION_EPOCH, ())
    assert leader.told(leader.fetch(session, 1)) == []


def test_a_full_fetch_under_an_old_session_closes_it(leader: Leader) -> None:
    """FetchMetadata.nextCloseExistingAttemptNew: no session of a lost connection is left behind."""
    session = leader.open()
    answer = leader.fetch(session, INITIAL_EPOCH, leader.ask())
    assert answer is not None
    assert list(leader.node.replicas.sessions.sessions) == [answer.session_id]
    assert len(leader.node.partition.delayed.session_entries) == 1
    refused = leader.fetch(session, 1)
    assert refused is not None
    assert refused.error is Errors.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_id_of_an_earlier_process_is_unknown(leader: Leader) -> None:
    """Else a fetcher that comes back after a restart closes the session of another one."""
    first_id = leader.node.started_us
    assert leader.open() > first_id
    restarted = FetchSessionCache(1000, ReplicationRules(), first_id + 1_000)
    session = FetchSession(-1, True, 0)
    restarted.offer(session, 0)
    assert session.id not in leader.node.replicas.sessions.sessions


def test_a_parked_fetch_of_a_closed_session_attaches_nothing(leader: Leader) -> None:
    session = leader.open()
    assert leader.fetch(session, 1, wait_ms=500) is None
    leader.fetch(session, INITIAL_EPOCH, leader.ask())
    leader.expire()
    assert leader.told(leader.answered()) == []
    assert len(leader.node.partition.delayed.session_entries) == 1


def test_a_forgotten_partition_is_not_told_of(leader: Leader) -> None:
    session = leader.open()
    assert leader.told(leader.fetch(session, 1, forgotten=((TOPIC_ID, TP),))) == []
    leader.trio.produce(1, 5)
    assert not leader.node.partition.delayed.session_entries


def test_a_session_ends_with_its_last_partition(leader: Leader) -> None:
    """FetchManager.newContext answers without a session then, and the follower begins anew."""
    session = leader.open()
    answer = leader.fetch(session, 1, forgotten=((TOPIC_ID, TP),))
    assert answer is not None
    assert (answer.error, answer.session_id) == (NONE, 0)
    refused = leader.fetch(session, 2, leader.ask())
    assert refused is not None
    assert refused.error is Errors.FETCH_SESSION_ID_NOT_FOUND
    handler = FetchSessionHandler()
    handler.id, handler.epoch = session, 1
    assert handler.accept(answer)
    assert (handler.id, handler.epoch) == (0, INITIAL_EPOCH)


def test_a_full_fetch_without_a_session_closes_the_one_it_names(leader: Leader) -> None:
    session = leader.open()
    answer = leader.fetch(session, FINAL_EPOCH, leader.ask())
    assert answer is not None
    assert (leader.told(answer), answer.session_id) == ([(NONE, 0, 0)], 0)
    assert not leader.node.replicas.sessions.sessions


class Consumer:
    """A consumer that fetches in a session."""

    def __init__(self, leader: Leader) -> None:
        self.leader = leader
        self.last = 0

    def fetch(
        self, session: int, epoch: int, *asked: FetchPartition, wait_ms: int = 500
    ) -> list[tuple[int, list[tuple[Errors, int, int]]]]:
        """Send a fetch; return the (session, partitions) of what is answered now."""
        self.last += 1
        request = FetchRequest(-1, -1, wait_ms, 1, 1 << 20, 0, asked, session, epoch)
        node, now = self.leader.node, self.leader.trio.now
        node.handle(Request(88, self.last, request, now), now)
        return self.answered()

    def answered(self) -> list[tuple[int, list[tuple[Errors, int, int]]]]:
        """Return the answers that left since, by session and partition."""
        effects, self.leader.node.out[:] = list(self.leader.node.out), []
        found = [e.message for e in effects if isinstance(e, Respond) and e.connection == 88]
        return [(answer.session_id, self.leader.told(answer)) for answer in found]


def test_a_consumers_session_waits_for_the_high_watermark(leader: Leader) -> None:
    """Appends alone are nothing to a consumer: what it may read moves with the high watermark."""
    consumer = Consumer(leader)
    asked = replace(leader.ask(), current_leader_epoch=-1)
    ((session, first),) = consumer.fetch(0, INITIAL_EPOCH, asked, wait_ms=0)
    assert (first, consumer.fetch(session, 1)) == ([(NONE, 0, 0)], [])
    leader.node.out.clear()
    request = ProduceRequest(1, 1000, (ProducePartition(TP, batch_of((Record("k", 1, 9, 0),))),))
    leader.node.handle(Request(90, 1, request, leader.trio.now), leader.trio.now)
    assert consumer.answered() == []
    node, now = leader.node, leader.trio.now
    for follower in (2, 3):
        fetch = FetchRequest(follower, follower, 0, 1, 9, 0, (leader.ask(1),))
        node.handle(Request(91, follower, fetch, now), now)
    assert consumer.answered() == [(session, [(NONE, 1, 1)])]


def test_a_consumers_parked_fetch_is_answered_when_its_partition_goes(leader: Leader) -> None:
    consumer = Consumer(leader)
    asked = replace(leader.ask(), current_leader_epoch=-1)
    ((session, _),) = consumer.fetch(0, INITIAL_EPOCH, asked, wait_ms=0)
    assert consumer.fetch(session, 1) == []
    leader.node.replicas.roles.stop(TP, TOPIC_ID, leader.trio.now)
    ((answered, _),) = consumer.answered()
    assert answered == session
    assert not leader.node.replicas.sessions.sessions[session].entries[TP].partition


def test_a_deleted_and_recreated_partition_needs_the_new_topic_id(leader: Leader) -> None:
    session = leader.open()
    leader.trio.produce(1, 5)
    assert leader.told(leader.fetch(session, 1)) == [(NONE, 0, 1)]
    recreate(leader.node, leader.trio.now)
    assert leader.told(leader.fetch(session, 2)) == [(Errors.INCONSISTENT_TOPIC_ID, -1, 0)]
    again = leader.ask(0, 0, "topic-2")
    assert leader.told(leader.fetch(session, 3, again)) == [(NONE, 0, 0)]
    assert leader.node.leader.remotes[2].leo == 0
    assert leader.told(leader.fetch(session, 4)) == []


def recreate(node: Node, now: int) -> None:
    """Delete topic ``t`` and create it under another id."""
    delta = MetadataDelta(node.image)
    old = node.image.topics.pop(TOPIC_ID)
    delta.deleted_topics[TOPIC_ID] = old
    node.image.topics["topic-2"] = TopicImage("t", "topic-2")
    node.image.topic_names["t"] = "topic-2"
    fresh = registration(1, 0, 0)
    node.image.topics["topic-2"].partitions[0] = fresh
    delta.changed_partitions[("topic-2", 0)] = fresh
    node.replicas.apply_delta(delta, now)
    node.out[:] = [effect for effect in node.out if type(effect) is Then]


def test_a_session_goes_on_after_a_leadership_change(leader: Leader) -> None:
    """The error is told every time; the high watermark anew as soon as the error is gone."""
    leader.trio.produce(1, 5)
    session = leader.open()
    leader.node.adopt(registration(1, 1, 1, (1, 2)), leader.trio.now)
    leader.trio.now += 31_000_000  # follower 3 holds the high watermark back no longer
    assert leader.told(leader.fetch(session, 1, leader.ask(1))) == []  # raises the high watermark
    assert leader.told(leader.fetch(session, 2)) == [(NONE, 1, 0)]
    assert leader.told(leader.fetch(session, 3)) == []
    leader.node.adopt(registration(2, 2, 2, (1, 2)), leader.trio.now)
    assert leader.told(leader.fetch(session, 4)) == [(Errors.FENCED_LEADER_EPOCH, -1, 0)]
    assert leader.told(leader.fetch(session, 5)) == [(Errors.FENCED_LEADER_EPOCH, -1, 0)]
    leader.node.adopt(registration(1, 3, 3, (1, 2)), leader.trio.now)
    assert leader.told(leader.fetch(session, 6, leader.ask(1, 3))) == [(NONE, 1, 0)]
    assert leader.node.leader.remotes[2].leo == 1


def test_a_parked_fetch_is_answered_when_the_leadership_ends(leader: Leader) -> None:
    session = leader.open()
    assert leader.fetch(session, 1, wait_ms=500) is None
    leader.node.adopt(registration(2, 2, 1), leader.trio.now)
    assert leader.told(leader.answered()) == [(Errors.FENCED_LEADER_EPOCH, -1, 0)]


def test_a_re_election_leaves_a_parked_fetch_waiting(leader: Leader) -> None:
    """As DelayedFetch: an append or the end of its wait completes it, and then it is fenced."""
    session = leader.open()
    assert leader.fetch(session, 1, wait_ms=500) is None
    leader.node.adopt(registration(1, 2, 1), leader.trio.now)
    assert leader.answered() is None
    leader.expire()
    assert leader.told(leader.answered()) == [(Errors.FENCED_LEADER_EPOCH, -1, 0)]


def test_a_follower_outside_the_isr_is_looked_at_in_every_fetch(leader: Leader) -> None:
    """It may become eligible by a change of its broker alone, which no partition is told of."""
    brokers = leader.node.image.brokers
    leader.node.adopt(registration(1, 1, 1, (1,)), leader.trio.now)
    eligible = brokers[2]
    brokers[2] = replace(eligible, fenced=True)
    session = leader.open()
    assert leader.told(leader.fetch(session, 1)) == []
    assert not leader.node.link.queue
    brokers[2] = eligible
    assert leader.told(leader.fetch(session, 2)) == []
    ((request, _),) = leader.node.link.queue
    assert request.partitions[0].new_isr == ((1, 1), (2, 2))


def test_a_lost_connection_asks_to_close_the_session_it_had() -> None:
    trio = Trio()
    trio.tell()
    trio.settle()
    trio.advance(600_000)
    trio.settle()
    fetcher = trio.nodes[2].replicas.fetchers.threads[(1, 0)]
    session = fetcher.session.id
    assert session > 0
    fetcher.leader.channel.close(trio.now)
    assert (fetcher.session.id, fetcher.session.epoch) == (session, INITIAL_EPOCH)
