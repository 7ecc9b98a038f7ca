"""The clock of sessions, their timeouts, and the configuration."""

import pytest

from kafkasim.model.config import ConfigError
from kafkasim.model.zookeeper.config import ZooKeeperConfig
from kafkasim.model.zookeeper.rules import ZooKeeperRules
from kafkasim.model.zookeeper.server.sessions import SessionTracker

TICK = 2_000_000


def tracker():
    return SessionTracker(ZooKeeperRules(), TICK)


def test_sessions_expire_in_buckets_of_a_tick():
    sessions = tracker()
    sessions.add(1, 4000, 0)  # would end at 4.0 s: the tick that ends at 6 s
    sessions.add(2, 4000, 1_900_000)  # at 5.9 s: the same tick
    sessions.add(3, 4000, 2_000_001)

    assert sessions.expired(5_999_999) == []
    assert sessions.expired(6_000_000) == [1, 2]
    assert sessions.expired(6_000_000) == []
    assert sessions.expired(8_000_000) == [3]


def test_a_touch_moves_a_session_on_and_never_back():
    sessions = tracker()
    sessions.add(1, 4000, 0)

    assert sessions.touch(1, 5_000_000)
    assert sessions.touch(1, 4_000_000)  # reported late
    assert sessions.expired(9_999_999) == []
    assert sessions.expired(10_000_000) == [1]


def test_an_expired_session_cannot_be_touched_though_its_end_is_not_yet_committed():
    sessions = tracker()
    sessions.add(1, 4000, 0)
    sessions.expired(6_000_000)

    assert not sessions.touch(1, 6_000_001)
    assert not sessions.close(1)
    sessions.remove(1)
    assert sessions.sessions == {}
    assert sessions.expired(100_000_000) == []


def test_a_leader_that_slept_expires_the_longest_overdue_first():
    sessions = tracker()
    sessions.add(1, 10_000, 0)
    sessions.add(2, 4000, 0)

    assert sessions.expired(60_000_000) == [2, 1]


@pytest.mark.parametrize(
    ("asked", "got"), [(1000, 4000), (6000, 6000), (18000, 18000), (90000, 40000)]
)
def test_a_timeout_is_clamped_to_2_to_20_ticks(asked, got):
    assert ZooKeeperRules().session_timeout_ms(asked, ZooKeeperConfig()) == got


def test_bounds_of_the_timeout_can_be_set():
    config = ZooKeeperConfig.from_properties({"minSessionTimeout": 1000, "maxSessionTimeout": 2000})

    assert ZooKeeperRules().session_timeout_ms(500, config) == 1000
    with pytest.raises(ConfigError, match="minSessionTimeout"):
        ZooKeeperConfig(minSessionTimeout=5000, maxSessionTimeout=4000)


def test_the_quorum_gives_up_a_silent_peer_after_sync_limit_ticks():
    quorum = ZooKeeperConfig(tickTime=500, syncLimit=4).quorum()

    assert quorum.controller_quorum_fetch_timeout_ms == 2000
    rules = ZooKeeperRules().raft()
    assert rules.check_quorum_us(2_000_000) == 2_000_000
