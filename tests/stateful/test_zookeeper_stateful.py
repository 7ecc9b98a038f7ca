"""A ZooKeeper ensemble under random operations, cuts and crashes, against a dumb sequential model.

The committed log is replayed by an oracle that knows nothing of servers. Whatever a client was told
must be the oracle's answer at the zxid that it was told with: writes are linearizable and decided
once, versions are exact, reads may be old but never go back within a session, ephemeral znodes live
exactly as long as their session, and a watch fires once and before anything newer is seen.
"""

from __future__ import annotations

import copy

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafkasim.model.zookeeper.client import SessionState
from kafkasim.model.zookeeper.database.transactions import CloseSession, CreateSession
from kafkasim.model.zookeeper.ops import (
    WRITES,
    Check,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Multi,
    SetData,
    Stat,
    Sync,
    ZkError,
)
from tests.model.zookeeper_cluster import Ensemble

PATHS = ("/a", "/a", "/b", "/a/x", "/a/y")
CLIENTS = 3
OK = ZkError.OK


class Oracle:
    """Znodes in a flat dictionary, copied for each operation; ``history[zxid]`` is the state."""

    def __init__(self):
        self.nodes = {"/": {"data": None, "c": 0, "m": 0, "v": 0, "made": 0, "gone": 0, "by": 0}}
        self.sessions = set()
        self.history = []
        self.answers = []  # by zxid: (error, path or None, stat or None)
        self.changes = []  # by zxid: {path: change}
        self.records = []

    def feed(self, record, control):
        zxid = len(self.history)
        before = self.nodes
        nodes = copy.deepcopy(before)
        answer = (OK, None, None)
        if not control and type(record) is CreateSession:
            self.sessions.add(zxid)
        elif not control and type(record) is CloseSession:
            self.sessions.discard(record.session_id)
            for path in [p for p in nodes if nodes[p]["by"] == record.session_id]:
                self.remove(nodes, path)
        elif not control:
            answer = self.write(nodes, record, zxid)
            if answer[0] is not OK:
                nodes = before
        self.nodes = nodes
        self.history.append(nodes)
        self.answers.append(answer)
        self.records.append(record)
        for path in nodes:
            assert nodes[path]["by"] == 0 or nodes[path]["by"] in self.sessions, (path, zxid)

    def write(self, nodes, record, zxid):
        if record.session_id not in self.sessions:
            return (ZkError.SESSIONEXPIRED, None, None)
        op = record.op
        parts = op.ops if type(op) is Multi else (op,)
        for part in parts:
            answer = self.one(nodes, part, record.session_id, zxid)
            if answer[0] is not OK:
                return answer
        return (OK, None, None) if type(op) is Multi else answer

    def one(self, nodes, op, session, zxid):
        path = op.path
        if type(op) is Create:
            parent = nodes.get(path[: path.rindex("/")] or "/")
            if parent is None:
                return (ZkError.NONODE, None, None)
            if op.sequential:
                path += str(parent["made"]).rjust(10, "0")
            if path in nodes:
                return (ZkError.NODEEXISTS, None, None)
            if parent["by"]:
                return (ZkError.NOCHILDRENFOREPHEMERALS, None, None)
            by = session if op.ephemeral else 0
            nodes[path] = {
                "data": op.data, "c": zxid, "m": zxid, "v": 0, "made": 0, "gone": 0, "by": by
            }  # fmt: skip
            parent["made"] += 1
            return (OK, path, stat(nodes[path]))
        if path not in nodes:
            return (ZkError.NONODE, None, None)
        node = nodes[path]
        if op.version not in (-1, node["v"]):
            return (ZkError.BADVERSION, None, None)
        if type(op) is Delete:
            if below(nodes, path):
                return (ZkError.NOTEMPTY, None, None)
            self.remove(nodes, path)
        elif type(op) is SetData:
            node.update(data=op.data, m=zxid, v=node["v"] + 1)
            return (OK, path, stat(node))
        return (OK, path, None)

    def remove(self, nodes, path):
        del nodes[path]
        nodes[path[: path.rindex("/")] or "/"]["gone"] += 1

    def read(self, op, zxid):
        nodes = self.history[zxid]
        node = nodes.get(op.path)
        if node is None:
            return (ZkError.NONODE, None, None, ())
        data = node["data"] if type(op) is GetData else None
        children = below(nodes, op.path) if type(op) is GetChildren else ()
        return (OK, data, stat(node), children)

    def fires(self, kind, path, zxid):
        """Whether the record of ``zxid`` fires a watch: one of data, or of children."""
        before = self.history[zxid - 1].get(path)
        after = self.history[zxid].get(path)
        if before is None or after is None or before["c"] != after["c"]:
            return before is not after
        keys = ("made", "gone") if kind is GetChildren else ("m", "v")
        return any(before[key] != after[key] for key in keys)


def below(nodes, path):
    stem = path.rstrip("/") + "/"
    return tuple(
        sorted(p[len(stem) :] for p in nodes if p.startswith(stem) and "/" not in p[len(stem) :])
    )[1 if path == "/" else 0 :]


def stat(node):
    return Stat(node["c"], node["m"], node["v"], node["made"] + node["gone"], node["by"])


class Reader:
    """Follows what one client was told, entry by entry."""

    def __init__(self, name, process):
        self.name = name
        self.process = process
        self.position = 0
        self.zxid = -1
        self.counted = 0
        self.newest = -1
        self.watches = {}  # (kind, path) -> [zxid, cut off since]

    def newest_write(self, sent):
        log = self.process.log
        while self.counted < len(log):
            entry = log[self.counted]
            self.counted += 1
            if entry[0] == "result" and type(sent[entry[1]][0]) in WRITES:
                self.newest = max(self.newest, entry[2].zxid)
        return self.newest

    def follow(self, oracle, sent):
        log = self.process.log
        while self.position < len(log):
            entry = log[self.position]
            if entry[0] == "result" and entry[2].zxid >= len(oracle.history):
                return  # nobody alive knows yet that this is committed
            self.position += 1
            if entry[0] == "state":
                self.state(entry[1])
            elif entry[0] == "watch":
                self.fired(entry[1], entry[2])
            elif entry[2].zxid >= 0:
                self.result(oracle, sent[entry[1]], entry[2])

    def state(self, state):
        if state == "EXPIRED":
            self.zxid = -1
            self.watches.clear()
        for watch in self.watches.values():
            watch[1] = True

    def fired(self, type_, path):
        kinds = [GetChildren] if type_ == "NodeChildrenChanged" else [GetData, Exists]
        if type_ == "NodeDeleted":
            kinds = [GetChildren, GetData, Exists]
        taken = [self.watches.pop((kind, path), None) for kind in kinds]
        assert any(taken), (self.name, type_, path, "fired, but nobody waits for it")

    def result(self, oracle, sent, result):
        op, floor = sent
        zxid = result.zxid
        assert zxid >= self.zxid, (self.name, op, result, self.zxid)
        self.zxid = zxid
        if type(op) in WRITES:
            assert zxid > floor, (op, zxid, floor)
            assert oracle.records[zxid].op == op
            error, path, stat_ = oracle.answers[zxid]
            assert (result.error, result.stat) == (error, stat_), (op, result)
            assert path is None or result.path == path
        elif type(op) is not Sync:
            known = oracle.read(op, zxid)
            assert (result.error, result.data, result.stat, result.children) == known, (op, result)
        else:
            assert zxid >= floor, (op, zxid, floor)
        self.nothing_is_overdue(oracle, zxid)
        if getattr(op, "watch", False) and (result.error is OK or type(op) is Exists):
            kind = GetChildren if type(op) is GetChildren else type(op)
            self.watches[kind, op.path] = [zxid, False]

    def nothing_is_overdue(self, oracle, zxid):
        for (kind, path), (since, cut) in self.watches.items():
            changed = [z for z in range(since + 1, zxid + 1) if oracle.fires(kind, path, z)]
            if cut and kind is Exists and path not in oracle.history[since]:
                # Created and deleted again while the client was cut off: ZooKeeper tells nothing.
                changed = [zxid] if changed and path in oracle.history[zxid] else []
            assert not changed, (self.name, kind.__name__, path, since, changed, zxid)


DATA = st.integers(0, 9)
PATH = st.sampled_from(PATHS)
VERSION = st.sampled_from((-1, -1, 0, 1, 2))
SINGLE = st.one_of(
    st.builds(Create, PATH, DATA, st.booleans()),
    st.builds(Create, PATH, DATA, st.booleans(), st.just(True)),
    st.builds(Delete, PATH, VERSION),
    st.builds(SetData, PATH, DATA, VERSION),
)
PART = st.one_of(SINGLE, st.builds(Check, PATH, VERSION))
OPS = st.one_of(
    SINGLE,
    SINGLE,
    st.builds(Multi, st.lists(PART, min_size=1, max_size=3).map(tuple)),
    st.builds(GetData, PATH, st.booleans()),
    st.builds(GetData, PATH, st.just(True)),
    st.builds(Exists, PATH, st.booleans()),
    st.builds(GetChildren, PATH, st.booleans()),
    st.builds(Sync, PATH),
)
SERVER = st.integers(1, 3)
CLIENT = st.integers(0, CLIENTS - 1)


class ZooKeeper(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 2**16))
    def begin(self, seed):
        self.world = world = Ensemble(3, seed)
        self.oracle = Oracle()
        self.sent = {}
        self.readers = []
        self.names = [f"client-{i}" for i in range(CLIENTS)]
        world.ready()
        for name in self.names:
            self.add(name)
            world.connected(name)
        self.ask([(0, Create("/a", 0)), (0, Create("/b", 0))], 20)

    def add(self, name):
        self.readers.append(Reader(name, self.world.client(name, timeout_ms=4000)))

    @rule(
        ops=st.lists(st.tuples(CLIENT, OPS), min_size=3, max_size=12),
        ms=st.sampled_from((0, 0, 1, 10, 30)),
    )
    def ask(self, ops, ms):
        for client, op in ops:
            name = self.names[client]
            self.sent[self.world.ask_client(name, op)] = (op, self.acknowledged())
            self.world.step(ms * 100)

    @rule(client=CLIENT, ops=st.lists(st.tuples(CLIENT, OPS), min_size=3, max_size=6))
    def ask_while_one_is_elsewhere(self, client, ops):
        """A client loses its server, the others go on, and it finds another one."""
        self.ask([(client, GetData("/a", True)), (client, GetChildren("/a", True)), *ops[:1]], 1)
        self.world.step(5_000)
        self.reset(client)
        self.ask(ops, 1)
        self.world.step(2_000_000)
        self.ask([(client, Sync("/"))], 30)

    def acknowledged(self):
        """The newest write that any client knows to be done."""
        return max((reader.newest_write(self.sent) for reader in self.readers), default=-1)

    @rule(ms=st.sampled_from((20, 1000, 9000)))
    def wait(self, ms):
        self.world.step(ms * 1000)

    @rule(client=CLIENT)
    def reset(self, client):
        self.world.reset(self.names[client])

    @rule(kind=st.sampled_from(("client", "servers", "isolate", "crash", "heal")), one=SERVER)
    def fault(self, kind, one):
        world, name = self.world, f"zookeeper-{one}"
        if kind == "client":
            world.cut(self.names[one - 1], name)
        elif kind == "crash" and name in world.processes:
            world.crash(name)
        for other in (1, 2, 3) if kind == "isolate" else (one % 3 + 1,):
            if kind in ("servers", "isolate"):
                world.cut(name, f"zookeeper-{other}")
        if kind == "heal":
            world.heal()

    @rule()
    def repair(self):
        self.world.heal()
        for name in self.world.servers():
            if name not in self.world.processes:
                self.world.restart(name)
        self.world.step(3_000_000)

    @rule(client=CLIENT)
    def replace_client(self, client):
        name = self.names[client]
        self.world.crash(name)
        self.add(name)

    @rule(client=CLIENT)
    def end_session(self, client):
        name = self.names[client]
        state = self.world.processes[name].zk.state
        if state is SessionState.EXPIRED:
            self.world.call(name, "reinitialise")
        elif state is SessionState.CONNECTED:
            self.world.call(name, "close")
            self.world.step(500_000)
            self.world.crash(name)
            self.add(name)

    @invariant()
    def clients_were_told_what_the_log_says(self):
        if not hasattr(self, "world"):
            return
        for name in self.world.servers():
            process = self.world.processes.get(name)
            if process is not None:
                self.feed(process)
        for reader in self.readers:
            reader.follow(self.oracle, self.sent)

    def feed(self, process):
        raft = process.raft
        for batch in raft.log.batches_from(0):
            for i, record in enumerate(batch.records):
                zxid = batch.base_offset + i
                if zxid >= raft.high_watermark:
                    return
                if zxid == len(self.oracle.history):
                    self.oracle.feed(record.value, batch.control)
                assert self.oracle.records[zxid] == record.value, (process.name, zxid)

    def teardown(self):
        if not hasattr(self, "world"):
            return
        world = self.world
        world.heal()
        self.repair()
        world.step(25_000_000)
        for name in self.names:
            if world.processes[name].zk.state is SessionState.EXPIRED:
                world.call(name, "reinitialise")
            world.connected(name)
            tag = world.ask_client(name, Sync("/"))
            self.sent[tag] = (Sync("/"), self.acknowledged())
            assert world.result(name, tag).error is OK
        world.step(1_000_000)
        self.clients_were_told_what_the_log_says()
        self.servers_agree_and_sessions_are_those_of_live_clients()

    def servers_agree_and_sessions_are_those_of_live_clients(self):
        oracle = self.oracle
        expected = {p: (n["data"], stat(n)) for p, n in oracle.nodes.items() if p != "/"}
        alive = sorted(self.world.processes[name].zk.session_id for name in self.names)
        for name in self.world.servers():
            database = self.world.processes[name].database
            nodes = database.tree.nodes
            found = {p: (nodes[p].data, nodes[p].stat()) for p in nodes if p != "/"}
            assert found == expected, name
            assert sorted(database.sessions) == sorted(oracle.sessions) == alive, name
        order = [
            (record.session_id, record.xid) for record in oracle.records if hasattr(record, "xid")
        ]
        for session in {session for session, _ in order}:
            xids = [xid for owner, xid in order if owner == session]
            assert xids == sorted(set(xids)), (session, xids)


ZooKeeper.TestCase.settings = settings(
    max_examples=15,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
TestZooKeeper = ZooKeeper.TestCase
