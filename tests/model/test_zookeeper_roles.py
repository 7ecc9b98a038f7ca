"""The parts of one server, each alone: the leader of an epoch, and the service of clients."""

from kafkasim.model.effects import Close, Push, Request, Respond
from kafkasim.model.facts import ZooKeeperSession
from kafkasim.model.messages import (
    ZkConnectRequest,
    ZkForwardRequest,
    ZkLearnerInfoRequest,
    ZkLearnerResponse,
    ZkOperationRequest,
    ZkRevalidateRequest,
)
from kafkasim.model.timers import Timers
from kafkasim.model.zookeeper.config import ZooKeeperConfig
from kafkasim.model.zookeeper.database.transactions import CreateSession, Database, Transaction
from kafkasim.model.zookeeper.ops import Create, Exists
from kafkasim.model.zookeeper.rules import ZooKeeperRules
from kafkasim.model.zookeeper.server.client_service import ClientService
from kafkasim.model.zookeeper.server.leader import REFUSED, EnsembleLeader
from kafkasim.model.zookeeper.server.sessions import SessionTrace

EPOCH, TICK_US = 7, 2_000_000
ADDRESSES = {1: "zookeeper-1", 2: "zookeeper-2", 3: "zookeeper-3"}


class Log:
    """Takes records while ``leads``; the next one gets offset ``end``."""

    def __init__(self, end):
        self.records, self.end, self.leads = [], end, True

    def schedule_append(self, epoch, records, now):
        if not self.leads:
            return None
        self.records += records
        self.end += len(records)
        return self.end - 1


class Refusals:
    def __init__(self):
        self.times = []

    def on_append_refused(self, now):
        self.times.append(now)


class Upstream:
    """Keeps what a server asks of the leader."""

    def __init__(self):
        self.asked = []

    def propose(self, record, now):
        self.asked.append(record)

    def revalidate(self, session_id, now, done):
        self.asked.append(("revalidate", session_id))
        done(6000, now)

    def heard_from(self, session_id, now):
        self.asked.append(("heard", session_id))


def leading():
    """Return a leader whose database has session 5, made by server 2, and its surroundings."""
    rules, out = ZooKeeperRules(), []
    database = Database(rules)
    database.apply(CreateSession(2, "0/1", 6000, "client"), 5)
    log, refusals = Log(6), Refusals()
    trace = SessionTrace(out, ADDRESSES)
    leader = EnsembleLeader(1, EPOCH, TICK_US, rules, database, log, Timers(), trace, refusals, 0)
    return leader, log, refusals, out


def joined(leader, server_id, connection):
    join = Request(connection, 1, ZkLearnerInfoRequest(server_id, EPOCH), 0)
    assert leader.on_request(join, 0).accepted


def test_a_leader_serves_only_the_newest_connection_of_a_follower():
    leader, log, _, _ = leading()
    write = Transaction(5, 1, Create("/a", 1))
    assert leader.on_request(Request(10, 1, ZkForwardRequest(2, write), 0), 0) is REFUSED
    joined(leader, 2, 10)
    joined(leader, 2, 11)

    assert leader.on_request(Request(10, 2, ZkForwardRequest(2, write), 0), 0) is REFUSED
    answer = leader.on_request(Request(11, 2, ZkForwardRequest(2, write), 0), 0)
    assert (answer, log.records) == (ZkLearnerResponse(True, 6), [write])


def test_a_write_from_a_server_that_the_session_left_is_dropped_without_a_refusal():
    leader, log, _, out = leading()
    joined(leader, 2, 10)
    joined(leader, 3, 20)
    moved = leader.on_request(Request(20, 2, ZkRevalidateRequest(3, 5), 0), 0)
    late = ZkForwardRequest(2, Transaction(5, 1, Create("/a", 1)))
    answer = leader.on_request(Request(10, 2, late, 0), 0)

    assert moved == ZkLearnerResponse(True, 5, 6000)
    assert (answer, log.records) == (ZkLearnerResponse(True, 5), [])
    assert out == [ZooKeeperSession(5, "moved", "client", "zookeeper-3", -1)]


def test_a_leader_whose_log_refuses_tells_its_server_for_its_own_clients_only():
    leader, log, refusals, _ = leading()
    joined(leader, 2, 10)
    log.leads = False
    forwarded = ZkForwardRequest(2, Transaction(5, 1, Create("/a", 1)))

    assert leader.on_request(Request(10, 2, forwarded, 30), 30) is REFUSED
    assert refusals.times == []
    leader.propose(CreateSession(1, "0/9", 6000, "other"), 40)
    assert refusals.times == [40]


def test_a_server_without_a_leader_closes_the_connections_of_clients_that_ask():
    out, rules = [], ZooKeeperRules()
    service = ClientService(out, 1, 0, ZooKeeperConfig(), rules, Database(rules))
    upstream = Upstream()
    connect = ZkConnectRequest(5, 6000, -1, "client")
    service.on_request(Request(10, 1, connect, 0), 0)
    service.serve(upstream)
    service.on_request(Request(11, 1, connect, 0), 0)
    service.stop()
    service.on_request(Request(11, 2, ZkOperationRequest(Exists("/")), 0), 0)

    assert [e for e in out if not isinstance(e, Push)] == [
        Respond(10, 1, None),
        Close(10),
        Respond(11, 1, None),
        Close(11),
        Respond(11, 2, None),
        Close(11),
    ]
    assert upstream.asked == [("revalidate", 5), ("heard", 5)]
