"""A tiny deterministic world for Raft tests: processes, connections, disks, and nothing else.

Connections are FIFO with a fixed or drawn latency; a cut pair loses what is sent. Across a cut, an
attempt to connect is repeated after 1, 3 and 7 s (TCP's SYN) and given up after 10 s. A disk makes
a file durable at once when it is flushed; a power loss takes every file back to its last flush. A
crash of a process resets its connections.
"""

from __future__ import annotations

import heapq
import random
from typing import Any

from kafkasim.model.config import BrokerConfig, TopicConfig
from kafkasim.model.effects import (
    Barrier,
    Close,
    Closed,
    Exit,
    Flush,
    Flushed,
    Open,
    Opened,
    OpenFailed,
    Post,
    Posted,
    Process,
    Request,
    Respond,
    Response,
    Send,
)
from kafkasim.model.errors import Errors
from kafkasim.model.facts import RaftRole
from kafkasim.model.messages import ApiVersionsRequest, ApiVersionsResponse
from kafkasim.model.raft.client import RaftClient
from kafkasim.model.raft.rules import RaftRules
from kafkasim.model.records import TopicPartition
from kafkasim.model.storage.files import MemoryFiles
from kafkasim.model.storage.log.unified_log import UnifiedLog
from kafkasim.model.storage.rules import StorageRules
from kafkasim.model.values import value

TP = TopicPartition("__cluster_metadata", 0)
CONNECT_TIMEOUT_US = 10_000_000


class Disk(MemoryFiles):
    """Remembers of each file what was last flushed; deletions become durable in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.durable: dict[str, list[Any]] = {}
        self.deleted: list[str] = []

    def delete(self, path: str, delay_ms: int = 0) -> None:
        if self.exists(path):
            self.deleted.append(path)
        super().delete(path, delay_ms)

    def flush(self, paths: tuple[str, ...]) -> None:
        named = [i for i, path in enumerate(self.deleted) if path in paths]
        for path in self.deleted[: named[-1] + 1 if named else 0]:
            self.durable.pop(path, None)
        del self.deleted[: named[-1] + 1 if named else 0]
        for path in paths:
            if path in self._files:
                self.durable[path] = list(self._files[path])

    def lose_power(self) -> None:
        self.go_back_to(self.durable)
        self.deleted.clear()


@value
class Syn:
    """An attempt to connect that is repeated, and how long after its first packet."""

    effect: Open
    elapsed_us: int


@value
class Committed:
    """Not an effect: marks in the outbox where the listener was given everything below."""

    high_watermark: int


class Node(Process):
    """A process with one RaftClient, which is also its own listener."""

    def __init__(self, node_id, world, now):
        rng = random.Random(f"{world.seed}/{node_id}/{world.incarnations[node_id]}")
        super().__init__(f"node-{node_id}", world.disks[node_id], rng, now)
        self.committed: list[Any] = []  # (offset, epoch, value)
        self.leaders: list[tuple[int, int]] = []
        self.loaded: list[tuple[int, int]] = []
        config = TopicConfig(segment_bytes=world.config.metadata_log_segment_bytes)
        log = UnifiedLog(
            self.files, self.out, "metadata", TP, "meta", config, StorageRules(), clean=False
        )
        self.raft = RaftClient(
            self, node_id, dict(world.voters), log, world.config, world.rules, self,
            directory_id=world.directories[node_id],
            voter_directories={i: f"disk-{i}" for i in world.voters},
        )  # fmt: skip

    def start(self, now):
        self.raft.start(now)

    def on_request(self, item, now):
        if type(item.message) is ApiVersionsRequest:  # a controller answers, not its Raft client
            response = ApiVersionsResponse(Errors.NONE, (), -1)
            self.out.append(Respond(item.connection, item.correlation, response))
        else:
            self.raft.on_request(item, now)

    def on_leader_change(self, leader_id, epoch, now):
        self.leaders.append((leader_id, epoch))

    def on_commit(self, batches, high_watermark, now):
        for batch in batches:
            self.committed += entries(batch)
        self.out.append(Committed(high_watermark))

    def on_snapshot(self, end_offset, epoch, values, now):
        """The state is the committed records themselves."""
        self.committed = list(values)
        self.loaded.append((end_offset, epoch))

    def snapshot(self, now):
        """Have a snapshot taken of all that is committed here."""
        offset, epoch, _ = self.committed[-1]
        self.raft.create_snapshot(offset + 1, epoch, list(self.committed), now)


def entries(batch):
    """The records of a batch as (offset, epoch, value)."""
    return [
        (batch.base_offset + i, batch.leader_epoch, record.value)
        for i, record in enumerate(batch.records)
    ]


class World:
    """Runs voters 1..n and observers above; ``now`` is shared by all."""

    def __init__(self, voters=3, observers=0, seed=0, rules=None, latency=(500, 500), config=None):
        self.seed = seed
        self.rng = random.Random(seed)
        self.latency = latency
        self.voters = {i: f"node-{i}" for i in range(1, voters + 1)}
        self.ids = list(range(1, voters + observers + 1))
        self.config = config or BrokerConfig()
        self.rules = rules or RaftRules()
        self.now = 0
        self.sequence = 0
        self.queue: list[Any] = []
        self.disks = {i: Disk() for i in self.ids}
        self.directories = {i: f"disk-{i}" for i in self.ids}  # directory ids by node
        self.incarnations = dict.fromkeys(self.ids, 0)
        self.nodes: dict[int, Node | None] = dict.fromkeys(self.ids)
        self.cut: set[tuple[int, int]] = set()
        # (node, connection) -> [peer, peer's connection, last delivery to peer]
        self.links: dict[tuple[int, int], list[Any]] = {}
        self.inbound = 1000
        self.leaders: dict[int, int] = {}
        self.halts: list[str] = []
        for i in self.ids:
            self.start(i)

    # Verbs.

    def start(self, i):
        self.incarnations[i] += 1
        self.nodes[i] = node = Node(i, self, self.now)
        node.start(self.now)
        self.drain(i)

    def crash(self, i, power=False):
        self.nodes[i] = None
        if power:
            self.disks[i].lose_power()
        for key, link in list(self.links.items()):
            if key[0] == i or link[0] == i:
                del self.links[key]
                if key[0] != i:
                    self.put(self.now + 1, key[0], Closed(key[1], "reset"))

    def replace_disk(self, i, directory_id):
        """Give a node that is down an empty disk."""
        self.disks[i], self.directories[i] = Disk(), directory_id

    def isolate(self, i):
        for other in self.ids:
            self.cut |= {(i, other), (other, i)}

    def heal(self):
        self.cut.clear()

    def run(self, duration_us):
        end = self.now + duration_us
        while self.step(end):
            pass
        self.now = end

    def run_until(self, condition, limit_us=30_000_000):
        end = self.now + limit_us
        while not condition():
            assert self.step(end), "the condition did not come true"

    def append(self, values):
        leader = self.leader()
        if leader is None:
            return None
        raft = self.nodes[leader].raft
        offset = raft.schedule_append(raft.epoch, list(values), self.now)
        self.drain(leader)
        return offset

    def snapshot(self, i, clean=False):
        """Take a snapshot on a node, and clean the log below it."""
        node = self.nodes[i]
        node.snapshot(self.now)
        self.drain(i)
        self.run(1000)
        if clean and self.nodes[i] is node:
            node.raft.snapshots.clean(self.now)
            self.drain(i)

    def leader(self):
        leading = [i for i in self.ids if self.nodes[i] and self.nodes[i].raft.is_leader]
        return max(leading, key=lambda i: self.nodes[i].raft.epoch) if leading else None

    def log(self, i):
        log = self.nodes[i].raft.log
        return [entry for batch in log.batches_from(0) for entry in entries(batch)]

    # The inside.

    def step(self, end):
        due = [
            (deadline, i)
            for i in self.ids
            if self.nodes[i] and (deadline := self.nodes[i].timers.next_deadline()) is not None
        ]
        timer = min(due, default=(end + 1, 0))
        message = self.queue[0] if self.queue else (end + 1, 0)
        if min(timer[0], message[0]) > end:
            return False
        if message[0] <= timer[0]:
            _, _, i, incarnation, item = heapq.heappop(self.queue)
            self.now = max(self.now, message[0])
            if self.nodes[i] is not None and self.incarnations[i] == incarnation:
                self.deliver(i, item)
        else:
            self.now = max(self.now, timer[0])
            i = timer[1]
            node = self.nodes[i]
            key, sequence, _ = node.timers.pop_due(self.now)
            node.timers.fire(key, sequence, self.now)
            self.fired(i, key)
            self.drain(i)
        return True

    def put(self, at, i, item):
        self.sequence += 1
        heapq.heappush(self.queue, (at, self.sequence, i, self.incarnations[i], item))

    def deliver(self, i, item):
        if isinstance(item, Syn):
            if item.effect.connection in self.nodes[i].channels:
                self.open(i, item.effect, item.elapsed_us)
            return
        self.nodes[i].handle(item, self.now)
        self.drain(i)

    def drain(self, i):
        node = self.nodes[i]
        position = 0
        while position < len(node.out):
            effect = node.out[position]
            position += 1
            if self.nodes[i] is not node:
                return
            self.perform(i, effect)
        node.out.clear()

    def perform(self, i, effect):
        if isinstance(effect, Barrier | Flush):
            self.disks[i].flush(effect.files)
            if isinstance(effect, Flush):
                self.put(self.now + 100, i, Flushed(effect.handler, None))
        elif isinstance(effect, Open):
            self.open(i, effect)
        elif isinstance(effect, Send):
            self.send(i, effect.connection, "request", effect)
        elif isinstance(effect, Respond):
            self.send(i, effect.connection, "response", effect)
        elif isinstance(effect, Close):
            self.links.pop((i, effect.connection), None)
        elif isinstance(effect, Post):
            self.put(self.now, i, Posted(effect.handler, effect.message))
        elif isinstance(effect, RaftRole):
            if effect.role == "leader":
                known = self.leaders.setdefault(effect.epoch, i)
                assert known == i, f"epoch {effect.epoch} has leaders {known} and {i}"
        elif isinstance(effect, Exit):
            self.halts.append(effect.reason)
            self.crash(i)

    def open(self, i, effect, elapsed_us=0):
        peer = int(effect.address.removeprefix("node-"))
        if (i, peer) in self.cut:
            again = min(2 * elapsed_us + 1_000_000, CONNECT_TIMEOUT_US)
            last = elapsed_us == CONNECT_TIMEOUT_US
            item = OpenFailed(effect.connection, "timeout") if last else Syn(effect, again)
            self.put(self.now + (0 if last else again - elapsed_us), i, item)
            return
        if self.nodes.get(peer) is None:
            self.put(self.now + 500, i, OpenFailed(effect.connection, "refused"))
            return
        self.inbound += 1
        self.links[i, effect.connection] = [peer, self.inbound, 0]
        self.links[peer, self.inbound] = [i, effect.connection, 0]
        self.put(self.now + 500, i, Opened(effect.connection))

    def send(self, i, connection, kind, effect):
        link = self.links.get((i, connection))
        if link is None or (i, link[0]) in self.cut:
            return
        low, high = self.latency
        at = max(link[2] + 1, self.now + low + int(self.rng.random() * (high - low)))
        link[2] = at
        if kind == "request":
            item: Any = Request(link[1], effect.correlation, effect.message, at)
        else:
            item = Response(link[1], effect.correlation, effect.message)
        self.put(at, link[0], item)

    def fired(self, i, key):
        """Hear that a timer of a node ended; for a subclass that writes it down."""
