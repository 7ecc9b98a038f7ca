"""Servers and clients together: order, sessions, watches, leaders that come and go."""

import pytest

from kafkasim.model.facts import ZooKeeperRole
from kafkasim.model.zookeeper.client import SessionState
from kafkasim.model.zookeeper.config import ZooKeeperConfig
from kafkasim.model.zookeeper.ops import (
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Multi,
    SetData,
    Sync,
    ZkError,
)
from kafkasim.model.zookeeper.rules import ZooKeeperRules
from tests.model.zookeeper_cluster import Ensemble

SECOND = 1_000_000


@pytest.fixture
def ensemble():
    world = Ensemble()
    world.ready()
    return world


def test_requests_are_answered_in_order_and_a_read_waits_for_the_writes_before_it(ensemble):
    follower = ensemble.others(ensemble.leader())[0]
    client = ensemble.attach("a", follower)
    for op in (Create("/a", 0), GetData("/a"), SetData("/a", 1), SetData("/a", 2), GetData("/a")):
        last = ensemble.ask_client("a", op)
    ensemble.result("a", last)

    results = [entry[2] for entry in client.log if entry[0] == "result"]
    assert [r.error for r in results] == [ZkError.OK] * 5
    assert [r.data for r in results] == [None, 0, None, None, 2]
    assert [r.stat.version for r in results] == [0, 0, 1, 2, 2]
    assert [r.zxid for r in results] == sorted(r.zxid for r in results)


def test_a_compare_and_set_is_won_once(ensemble):
    for name in ("a", "b", "c"):
        ensemble.client(name)
    for name in ("a", "b", "c"):
        ensemble.connected(name)
    ensemble.ok("a", Create("/a", "nobody"))

    tags = {name: ensemble.ask_client(name, SetData("/a", name, 0)) for name in ("a", "b", "c")}
    errors = [ensemble.result(name, tags[name]).error for name in tags]

    assert sorted(e.name for e in errors) == ["BADVERSION", "BADVERSION", "OK"]


def test_reads_are_local_and_sync_flushes(ensemble):
    leader = ensemble.leader()
    slow, fast = ensemble.others(leader)
    ensemble.attach("reader", slow)
    ensemble.attach("writer", fast)
    ensemble.ok("writer", Create("/a", 1))
    ensemble.ok("reader", Sync("/a"))
    ensemble.cut(slow, leader)
    ensemble.ok("writer", SetData("/a", 2))

    assert ensemble.ok("reader", GetData("/a")).data == 1
    tag = ensemble.ask_client("reader", Sync("/a"))
    ensemble.step(SECOND)
    ensemble.heal()
    assert ensemble.result("reader", tag).error is ZkError.OK
    assert ensemble.ok("reader", GetData("/a")).data == 2


def test_a_session_ends_with_its_client_and_takes_its_ephemeral_znodes(ensemble):
    ensemble.client("dies", timeout_ms=6000)
    ensemble.client("sees")
    ensemble.connected("dies")
    ensemble.connected("sees")
    session = ensemble.processes["dies"].zk.session_id
    ensemble.ok("dies", Create("/brokers", None))
    ensemble.ok("dies", Create("/brokers/1", "endpoint", ephemeral=True))
    ensemble.ok("sees", Sync("/"))
    ensemble.ok("sees", GetChildren("/brokers", watch=True))
    crashed = ensemble.now
    ensemble.crash("dies")

    log = ensemble.processes["sees"].log
    ensemble.until(lambda: log[-1] == ("watch", "NodeChildrenChanged", "/brokers"))

    took = ensemble.now - crashed
    assert 6 * SECOND <= took <= 9 * SECOND  # the timeout, up to its tick and half a report
    assert ensemble.session_events()[-1] == (session, "expired", "dies")
    assert ensemble.ok("sees", GetChildren("/brokers")).children == ()


def test_a_closed_session_ends_at_once(ensemble):
    client = ensemble.client("a")
    ensemble.client("b")
    ensemble.connected("a")
    ensemble.connected("b")
    ensemble.ok("a", Create("/e", 1, ephemeral=True))
    done = []
    client.zk.close(ensemble.now, done.append)
    asked = ensemble.now
    ensemble.drain("a")
    ensemble.step(SECOND)

    assert client.zk.state is SessionState.CLOSED
    assert asked < done[0] < asked + 50_000
    assert ensemble.told("a") == ["CONNECTED", "CLOSED"]
    assert client.log[-1][0] == "result"  # the listener hears nothing of it
    assert ensemble.ok("b", Sync("/")).error is ZkError.OK
    assert ensemble.do("b", Exists("/e")).error is ZkError.NONODE
    assert ensemble.do("a", Exists("/e")).error is ZkError.SESSIONEXPIRED


def test_a_client_that_is_cut_off_learns_of_its_expiry_when_it_is_back(ensemble):
    client = ensemble.client("cut", timeout_ms=6000)
    ensemble.client("sees")
    ensemble.connected("cut")
    ensemble.connected("sees")
    ensemble.ok("cut", Create("/controller", 1, ephemeral=True))
    ensemble.ok("sees", Sync("/"))
    ensemble.ok("sees", Exists("/controller", watch=True))
    ensemble.isolate("cut")
    ensemble.step(30 * SECOND)

    assert ("watch", "NodeDeleted", "/controller") in ensemble.processes["sees"].log
    assert [e for e in client.log if e[0] == "state"] == [
        ("state", "CONNECTED"),
        ("state", "DISCONNECTED"),
    ]
    assert ensemble.do("cut", Exists("/controller")).error is ZkError.CONNECTIONLOSS
    ensemble.heal()
    ensemble.until(lambda: client.zk.state is SessionState.EXPIRED)
    assert client.log[-1] == ("state", "EXPIRED")
    assert ensemble.do("cut", Exists("/controller")).error is ZkError.SESSIONEXPIRED
    old = client.zk.session_id
    ensemble.call("cut", "reinitialise")
    ensemble.connected("cut")
    assert client.zk.session_id > old
    assert ensemble.ok("cut", Create("/controller", 1, ephemeral=True))


def test_a_short_cut_keeps_the_session(ensemble):
    client = ensemble.client("a", timeout_ms=6000)
    ensemble.connected("a")
    session = client.zk.session_id
    ensemble.ok("a", Create("/e", 1, ephemeral=True))
    ensemble.isolate("a")
    ensemble.step(4_500_000)  # two thirds of the timeout: the client gives up the server
    assert client.zk.state is SessionState.CONNECTING
    ensemble.heal()
    ensemble.connected("a")

    assert client.zk.session_id == session
    assert ensemble.ok("a", Exists("/e")).stat.ephemeral_owner == session


def test_what_is_unanswered_when_the_connection_goes_may_have_happened(ensemble):
    client = ensemble.client("a")
    ensemble.connected("a")
    ensemble.ok("a", Create("/a", 0))
    tag = ensemble.ask_client("a", SetData("/a", 1, 0))
    ensemble.step(900)
    ensemble.reset("a")

    assert ensemble.result("a", tag).error is ZkError.CONNECTIONLOSS
    assert client.log[-1] == ("state", "DISCONNECTED")
    ensemble.connected("a")
    ensemble.ok("a", Sync("/a"))
    assert ensemble.ok("a", GetData("/a")).data == 1


def test_a_watch_event_comes_before_the_new_data_and_once(ensemble):
    follower = ensemble.others(ensemble.leader())[0]
    client = ensemble.attach("reader", follower)
    ensemble.client("writer")
    ensemble.connected("writer")
    ensemble.ok("writer", Create("/a", 0))
    ensemble.ok("reader", Sync("/a"))
    ensemble.ok("reader", GetData("/a", watch=True))
    ensemble.ask_client("writer", SetData("/a", 1))
    while not any(e[0] == "result" and e[2].data == 1 for e in client.log):
        ensemble.result("reader", ensemble.ask_client("reader", GetData("/a")))
    ensemble.ok("writer", SetData("/a", 2))
    ensemble.step(SECOND)

    seen = [e[2].data if e[0] == "result" else e[1] for e in client.log if e[0] != "state"]
    assert seen.count("NodeDataChanged") == 1
    assert seen.index("NodeDataChanged") == seen.index(1) - 1


def test_events_missed_while_cut_off_are_told_on_return(ensemble):
    client = ensemble.client("reader", timeout_ms=10_000)
    ensemble.client("writer")
    ensemble.connected("reader")
    ensemble.connected("writer")
    for path in ("/data", "/same", "/dir", "/gone"):
        ensemble.ok("writer", Create(path, 0))
    ensemble.ok("reader", Sync("/"))
    for op in (
        GetData("/data", True),
        GetData("/same", True),
        GetChildren("/dir", True),
        Exists("/new", True),
        GetData("/gone", True),
    ):
        ensemble.do("reader", op)
    ensemble.isolate("reader")
    ops = (SetData("/data", 1), Create("/dir/x", 1), Create("/new", 1), Delete("/gone"))
    ensemble.ok("writer", Multi(ops))
    ensemble.step(8 * SECOND)
    ensemble.heal()
    ensemble.connected("reader")
    ensemble.ok("reader", SetData("/same", 1))
    ensemble.step(100_000)

    assert [e[1:] for e in client.log if e[0] == "watch"] == [
        ("NodeDataChanged", "/data"),
        ("NodeDeleted", "/gone"),
        ("NodeCreated", "/new"),
        ("NodeChildrenChanged", "/dir"),
        ("NodeDataChanged", "/same"),
    ]


def apply_nothing(batches, leading, now):
    del batches, leading, now


class GoesBack(ZooKeeperRules):
    def may_attach(self, last_zxid_seen, last_zxid):
        return True


@pytest.mark.parametrize("rules", [ZooKeeperRules(), GoesBack()])
def test_a_session_never_moves_to_a_server_behind_its_last_zxid(rules):
    ensemble = Ensemble(rules=rules)
    ensemble.ready()
    leader = ensemble.leader()
    behind, other = ensemble.others(leader)
    client = ensemble.attach("a", other, timeout_ms=20_000)
    ensemble.ok("a", Create("/a", 0))
    ensemble.ok("a", Sync("/a"))
    ensemble.step(SECOND)
    # It applies nothing more, and can still ask whether a session is open: the worst case.
    ensemble.processes[behind]._apply = apply_nothing
    ensemble.ok("a", SetData("/a", 1))
    for name in (leader, other):
        ensemble.cut("a", name)
    ensemble.reset("a")
    ensemble.step(5 * SECOND)

    if type(rules) is GoesBack:  # what the rule is for
        assert ensemble.server_of("a") == behind
        assert ensemble.ok("a", GetData("/a")).data == 0
    else:
        assert client.zk.state is SessionState.CONNECTING
        ensemble.heal()
        ensemble.connected("a")
        assert ensemble.ok("a", GetData("/a")).data == 1


def test_a_leader_without_a_quorum_sends_its_clients_away(ensemble):
    old = ensemble.leader()
    client = ensemble.attach("a", old, timeout_ms=18_000)
    for other in ensemble.others(old):
        ensemble.cut(old, other)
    ensemble.step(9 * SECOND)
    assert ensemble.server_of("a") == old  # syncLimit is 10 s
    ensemble.until(
        lambda: client.zk.state is SessionState.CONNECTED and ensemble.server_of("a") != old
    )

    assert ensemble.leader() != old
    assert not ensemble.processes[old].serving
    assert ensemble.roles(old)[-1] == "looking"
    assert client.zk.session_id in ensemble.processes[ensemble.leader()].database.sessions
    ensemble.heal()
    ensemble.until(lambda: ensemble.processes[old].serving)
    assert ensemble.roles(old) == ["leading", "looking", "following"]


def test_no_quorum_no_service(ensemble):
    client = ensemble.client("a", timeout_ms=6000)
    ensemble.connected("a")
    for name in ensemble.others(ensemble.leader()):
        ensemble.crash(name)
    ensemble.step(60 * SECOND)

    assert client.zk.state is SessionState.CONNECTING
    assert ensemble.leader() is None
    events = [event for _, event, *_ in ensemble.session_events() if event != "touched"]
    assert [event for event in events if event != "moved"] == ["created"]  # nobody can end it


def test_the_clock_of_sessions_starts_anew_after_an_election(ensemble):
    ensemble.client("dies", timeout_ms=6000)
    ensemble.client("sees", timeout_ms=20_000)
    ensemble.connected("dies")
    ensemble.connected("sees")
    ensemble.ok("dies", Create("/e", 1, ephemeral=True))
    ensemble.ok("sees", Sync("/"))
    ensemble.ok("sees", Exists("/e", watch=True))
    log = ensemble.processes["sees"].log
    ensemble.crash("dies")
    ensemble.step(5 * SECOND)
    old = ensemble.leader()
    ensemble.crash(old)
    ensemble.until(lambda: ensemble.leader() not in (None, old))
    elected = ensemble.now
    assert elected - 5 * SECOND < 5 * SECOND
    ensemble.until(lambda: ("watch", "NodeDeleted", "/e") in log)

    assert ensemble.now - elected >= 6 * SECOND


def test_what_is_acknowledged_survives_the_crash_of_all_servers(ensemble):
    client = ensemble.client("a", timeout_ms=20_000)
    ensemble.connected("a")
    session = client.zk.session_id
    ensemble.ok("a", Create("/a", 1))
    ensemble.ok("a", SetData("/a", 2))
    ensemble.ok("a", Create("/e", 1, ephemeral=True))
    for name in ensemble.servers():
        ensemble.crash(name)
    ensemble.step(SECOND)
    for name in ensemble.servers():
        ensemble.restart(name)
    ensemble.connected("a")

    assert client.zk.session_id == session
    read = ensemble.ok("a", GetData("/a"))
    assert (read.data, read.stat.version) == (2, 1)
    assert ensemble.ok("a", Exists("/e")).stat.ephemeral_owner == session
    dumps = []
    ensemble.step(SECOND)
    for name in ensemble.servers():
        nodes = ensemble.processes[name].database.tree.nodes
        dumps.append({path: (nodes[path].data, nodes[path].stat()) for path in sorted(nodes)})
    assert dumps[0] == dumps[1] == dumps[2]


def test_a_leader_that_stops_hands_over(ensemble):
    client = ensemble.client("a", timeout_ms=6000)
    ensemble.connected("a")
    old = ensemble.leader()
    ensemble.processes[old].shutdown(ensemble.now)
    ensemble.drain(old)
    ensemble.step(3 * SECOND)

    assert [(name, e.clean) for name, e in ensemble.exits] == [(old, True)]
    assert ensemble.leader() not in (None, old)
    assert client.zk.state is SessionState.CONNECTED


class TakesLateForwards(ZooKeeperRules):
    def accepts_forward(self, owner, server_id):
        return True


@pytest.mark.parametrize(
    ("rules", "value"), [(ZooKeeperRules(), "second"), (TakesLateForwards(), "first")]
)
def test_a_write_that_lingers_in_the_old_server_does_not_overtake(rules, value):
    """ZOOKEEPER-417: the session has moved, and its first write reaches the leader last."""
    ensemble = Ensemble(rules=rules)
    ensemble.ready()
    leader = ensemble.leader()
    old, new = ensemble.others(leader)
    ensemble.attach("a", old, timeout_ms=20_000)
    ensemble.ok("a", Create("/a", ""))
    ensemble.step(SECOND)
    ensemble.cut(old, leader)
    first = ensemble.ask_client("a", SetData("/a", "first"))
    ensemble.step(SECOND)
    ensemble.reset("a")
    ensemble.prefer("a", new)
    assert ensemble.result("a", first).error is ZkError.CONNECTIONLOSS
    ensemble.connected("a")
    assert ensemble.server_of("a") == new
    ensemble.ok("a", SetData("/a", "second"))
    ensemble.heal()
    ensemble.step(SECOND)
    ensemble.ok("a", Sync("/a"))

    assert ensemble.ok("a", GetData("/a")).data == value


class OutlivesItsSession(ZooKeeperRules):
    def accepts_write(self, session_open):
        return True


@pytest.mark.parametrize("rules", [ZooKeeperRules(), OutlivesItsSession()])
def test_a_write_logged_behind_the_end_of_its_session_is_refused(rules):
    """ZOOKEEPER-1208: else the ephemeral znode stays for ever."""
    ensemble = Ensemble(rules=rules)
    ensemble.ready()
    leader = ensemble.leader()
    follower = ensemble.others(leader)[0]
    ensemble.attach("dies", follower, timeout_ms=4000)
    ensemble.attach("sees", leader, timeout_ms=20_000)
    ensemble.cut(follower, leader)
    ensemble.ask_client("dies", Create("/e", 1, ephemeral=True))
    ensemble.step(100_000)
    ensemble.crash("dies")
    ensemble.until(lambda: ensemble.session_events()[-1][1] == "expired")
    ensemble.heal()
    ensemble.step(SECOND)

    there = ensemble.do("sees", Exists("/e")).error is ZkError.OK
    assert there == (type(rules) is OutlivesItsSession)


@pytest.mark.parametrize("tick_ms", [50, 90, 2000])
def test_an_idle_ensemble_keeps_its_leader(tick_ms):
    """Leader.lead pings every half tick, so that nobody is silent for syncLimit."""
    world = Ensemble(config=ZooKeeperConfig(tickTime=tick_ms))
    world.ready()
    world.run(world.now + SECOND)
    roles = world.seen(ZooKeeperRole)
    world.run(world.now + 10 * SECOND)
    assert world.leader()
    assert world.seen(ZooKeeperRole) == roles
