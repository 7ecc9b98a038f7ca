"""Which fetch sessions a broker keeps (FetchSessionCacheShard), and what a fetcher asks for in one.

The eviction cases are those of FetchSessionTest.testPrivilegedSessionHandling and of KAFKA-9137.
"""

from __future__ import annotations

from kafkasim.model.errors import Errors
from kafkasim.model.fetch_session import INITIAL_EPOCH, FetchSessionHandler
from kafkasim.model.messages import FetchPartition, FetchPartitionResponse, FetchRequest
from kafkasim.model.messages import FetchResponse as Answer
from kafkasim.model.records import TopicPartition
from kafkasim.model.replication.requests.fetch_sessions import FetchSession, FetchSessionCache
from kafkasim.model.replication.rules import ReplicationRules

NONE = Errors.NONE
SECOND = 1_000_000
T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
CONSUMER, FOLLOWER = -1, 2


def asked(tp: TopicPartition, offset: int = 0, topic_id: str = "id-t") -> FetchPartition:
    return FetchPartition(tp, topic_id, offset, -1, 0, -1, 1 << 20)


class OneShard(ReplicationRules):
    """A broker before KAFKA-9401."""

    def fetch_session_shards(self) -> int:
        return 1


def cache(slots: int) -> FetchSessionCache:
    return FetchSessionCache(slots, OneShard(), 0)


def full(of: int, *tps: TopicPartition) -> FetchRequest:
    return FetchRequest(of, of, 0, 1, 1, 0, tuple([asked(tp) for tp in tps]), 0, INITIAL_EPOCH)


def opened(sessions: FetchSessionCache, of: int, now: int, *tps: TopicPartition) -> FetchSession:
    """Open a session as a full fetch does; its id is 0 if there is no room."""
    session, _ = sessions.open(full(of, *tps), now)
    assert session is not None
    sessions.offer(session, now)
    return session


def used(sessions: FetchSessionCache, session: FetchSession, now: int) -> Errors:
    request = FetchRequest(-1, -1, 0, 1, 1, 0, (), session.id, session.epoch)
    return sessions.open(request, now)[1]


def test_a_consumer_finds_no_room_among_sessions_in_use() -> None:
    sessions = cache(2)
    kept = [opened(sessions, CONSUMER, 0, T0).id, opened(sessions, CONSUMER, 0, T0).id]
    assert opened(sessions, CONSUMER, SECOND, T0, T1).id == 0
    assert list(sessions.sessions) == kept


def test_a_follower_pushes_out_the_smallest_session_of_a_consumer() -> None:
    sessions = cache(3)
    follower = opened(sessions, FOLLOWER, 0, T0)
    large, small = opened(sessions, CONSUMER, 0, T0, T1), opened(sessions, CONSUMER, 0, T0)
    new = opened(sessions, FOLLOWER, SECOND, T0)
    assert list(sessions.sessions) == [follower.id, large.id, new.id]
    assert used(sessions, small, SECOND) is Errors.FETCH_SESSION_ID_NOT_FOUND


def test_a_follower_pushes_out_no_young_session_of_a_follower() -> None:
    sessions = cache(1)
    first = opened(sessions, FOLLOWER, 0, T0)
    assert opened(sessions, FOLLOWER, 119 * SECOND, T0, T1).id == 0
    assert list(sessions.sessions) == [first.id]


def test_a_session_of_two_minutes_without_a_fetch_makes_room_for_anybody() -> None:
    sessions = cache(2)
    stale, live = opened(sessions, FOLLOWER, 0, T0, T1), opened(sessions, CONSUMER, 0, T0)
    assert used(sessions, live, 100 * SECOND) is NONE
    new = opened(sessions, CONSUMER, 121 * SECOND, T0)
    assert (list(sessions.sessions), stale.entries) == ([live.id, new.id], {})


def test_a_session_in_use_is_never_stale_but_an_old_one_may_be_too_small() -> None:
    """KAFKA-9137: sessions in use were evicted. An old session makes room for a larger one."""
    sessions = cache(1)
    old = opened(sessions, CONSUMER, 0, T0, T1)
    for at in (60, 119, 178):
        assert used(sessions, old, at * SECOND) is NONE
    assert opened(sessions, CONSUMER, 180 * SECOND, T0).id == 0
    larger = opened(sessions, CONSUMER, 180 * SECOND, T0, T1, T2)
    assert list(sessions.sessions) == [larger.id]


def test_shards_are_filled_in_turn_and_each_has_its_share_of_the_slots() -> None:
    """KAFKA-9401: with 16 slots in eight shards the seventeenth session finds its shard full."""
    sessions = FetchSessionCache(16, ReplicationRules(), 0)
    ids = [opened(sessions, CONSUMER, 0, T0).id for _ in range(17)]
    assert ids == [*range(1, 17), 0]


def test_fewer_slots_than_shards_are_none() -> None:
    sessions = FetchSessionCache(7, ReplicationRules(), 0)
    assert opened(sessions, FOLLOWER, 0, T0).id == 0


def test_a_consumers_partitions_with_news_are_read_in_the_order_of_the_session() -> None:
    session = opened(cache(1), -1, 0, *[TopicPartition("t", each) for each in range(4)])
    first, second, third, fourth = session.entries.values()
    session.move_to_tail(first)  # it was served
    for entry in session.entries.values():
        entry.clean = True
    session.dirty.clear()
    for entry in (first, fourth, second):
        entry.mark_dirty()
    assert session.to_read() == [second, fourth, first]
    assert third.clean


def test_a_session_with_topic_ids_takes_no_request_without() -> None:
    sessions = cache(2)
    session = opened(sessions, CONSUMER, 0, T0)
    without = (asked(T1, topic_id=""),)
    request = FetchRequest(-1, -1, 0, 1, 1, 0, without, session.id, session.epoch)
    assert sessions.open(request, 0) == (None, Errors.FETCH_SESSION_TOPIC_ID_ERROR)


# ------------------------------------------------------------------------- the fetching side


def continued(*partitions: FetchPartition) -> FetchSessionHandler:
    """A handler in session 7, whose node knows ``partitions``."""
    handler = FetchSessionHandler()
    handler.next_request({each.tp: each for each in partitions})
    rows = [FetchPartitionResponse(each.tp, NONE, 0, 0, 0, ()) for each in partitions]
    assert handler.accept(Answer(NONE, tuple(rows), 7))
    return handler


def test_a_request_names_what_is_new_moved_or_gone() -> None:
    handler = continued(asked(T0), asked(T1))
    wanted = {T0: asked(T0), T2: asked(T2)}
    assert handler.next_request(wanted) == ((asked(T2),), (("id-t", T1),))
    moved = {T0: asked(T0, 5), T2: asked(T2)}
    assert handler.next_request(moved) == ((asked(T0, 5),), ())
    assert handler.next_request(dict(moved)) == ((), ())


def test_a_topic_that_was_created_again_replaces_its_partition() -> None:
    """Builder.build: toReplace; the old topic id leaves the session as the new one comes."""
    handler = continued(asked(T0))
    again = asked(T0, topic_id="id-2")
    assert handler.next_request({T0: again}) == ((again,), (("id-t", T0),))


def test_a_full_answer_that_lacks_partitions_is_not_used() -> None:
    """handleResponse: a throttled broker answers with none (KIP-219)."""
    handler = FetchSessionHandler()
    handler.next_request({T0: asked(T0)})
    assert not handler.accept(Answer(NONE, (), 7))
    assert (handler.id, handler.epoch) == (0, INITIAL_EPOCH)


def test_what_a_refused_session_says_of_the_next_request() -> None:
    """Only an id that the node does not know is dropped; another is named, to be closed."""
    found = []
    for error in (Errors.FETCH_SESSION_ID_NOT_FOUND, Errors.INVALID_FETCH_SESSION_EPOCH):
        handler = continued(asked(T0))
        assert not handler.accept(Answer(error, ()))
        found.append((handler.id, handler.epoch))
    assert found == [(0, INITIAL_EPOCH), (7, INITIAL_EPOCH)]
