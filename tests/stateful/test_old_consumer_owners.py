"""Theorem: whatever became of the consumers, once all is quiet each partition has one owner.

Old consumers come, leave, die and lose touch with ZooKeeper, and the topic grows. Brokers do not
answer here: who owns what is between the consumers and ZooKeeper alone. The oracle is dumb: it
deals the partitions out to the sorted ids of the consumers that are left.
"""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafkasim.model.client.process import ClientProcess
from kafkasim.model.client.rules import ClientRules
from kafkasim.model.config import LegacyConsumerConfig
from kafkasim.model.controller.zk.store.zk_data import (
    BrokerInfo,
    ReplicaAssignment,
    TopicAssignment,
)
from kafkasim.model.effects import Call
from kafkasim.model.facts import RebalanceAttempt
from kafkasim.model.zookeeper.ops import Create, SetData
from tests.model.zookeeper_cluster import Ensemble

SECOND = 1_000_000
CONFIG = LegacyConsumerConfig.from_properties(
    {
        "zookeeper.connect": "zookeeper-1",
        "group.id": "g",
        "zookeeper.session.timeout.ms": 4000,
        "zookeeper.connection.timeout.ms": 600_000,
        "rebalance.backoff.ms": 300,
        "rebalance.max.retries": 100,  # nobody gives up here
    }
)


def topic(partitions):
    replicas = ReplicaAssignment((1,))
    return TopicAssignment("id-t", tuple((number, replicas) for number in range(partitions)))


def dealt(partitions, consumers):
    """Each consumer's share of a topic, the first ones get one more: name -> partitions."""
    shares, left = {}, list(range(partitions))
    for place, consumer in enumerate(consumers):
        waiting = len(consumers) - place
        size = -(-len(left) // waiting)
        shares[consumer], left = left[:size], left[size:]
    return shares


class OldConsumers:
    """A group, what happens to it, and what it must come to."""

    def __init__(self, seed, partitions):
        self.world = world = Ensemble(1, seed)
        self.partitions = partitions
        self.joined = 0
        self.members = []
        self.cut = {}
        world.ready()
        world.client("setup")
        world.connected("setup")
        for path, data in (
            ("/brokers", ""),
            ("/brokers/ids", ""),
            ("/brokers/topics", ""),
            ("/brokers/ids/1", BrokerInfo(1, "broker-1", None)),
            ("/brokers/topics/t", topic(partitions)),
        ):
            self.write(Create(path, data))
        self.join(0)
        self.join(0)

    def write(self, op):
        self.world.result("setup", self.world.ask_client("setup", op))

    def call(self, name, method, *args):
        self.world.give(name, Call(1, f"consumer.{method}", args))

    def some(self, number):
        return self.members[number % len(self.members)] if self.members else None

    # What happens; ``number`` says to whom, or how much.

    def join(self, number):
        self.joined += 1
        name = f"host-{number}-{self.joined}"  # its place among the others differs
        self.world.add(
            name,
            lambda files, rng, now: ClientProcess(
                name, (), {"consumer": CONFIG}, ClientRules(), files, rng, now
            ),
        )
        self.members.append(name)
        self.call(name, "subscribe", ("t",))

    def close(self, number):
        name = self.some(number)
        if name is not None and name not in self.cut:
            self.call(name, "close")
            self.world.step(SECOND)
            self.forget(name)

    def kill(self, number):
        if self.members:
            self.forget(self.some(number))

    def forget(self, name):
        self.members.remove(name)
        self.cut.pop(name, None)
        self.world.crash(name)

    def lose_touch(self, number):
        """Cut a consumer off: its session may end, and it does not know."""
        name = self.some(number)
        if name is not None:
            self.cut[name] = None
            self.world.cut(name, "zookeeper-1")

    def heal(self, number):
        self.cut.clear()
        self.world.heal()

    def grow(self, number):
        self.partitions += number
        self.write(SetData("/brokers/topics/t", topic(self.partitions)))

    def wait(self, number):
        self.world.step((3, 20, 500, 3000, 7000)[number] * 1000)

    # What it must come to.

    def each_partition_has_one_owner(self):
        self.heal(0)
        self.world.step(20 * SECOND)
        assert not [f for f in self.world.seen(RebalanceAttempt) if f.outcome == "gave-up"]
        clients = [self.world.processes[name].clients["consumer"] for name in self.members]
        by_id = {client.consumer: client for client in clients}
        expected = dealt(self.partitions, sorted(by_id))
        nodes = self.world.processes["zookeeper-1"].database.tree.nodes
        paths = [f"/consumers/g/owners/t/{number}" for number in range(self.partitions)]
        owners = [nodes[path].data if path in nodes else None for path in paths]
        wanted = {number: f"{each}-0" for each, share in expected.items() for number in share}
        assert owners == [wanted.get(number) for number in range(self.partitions)]
        for consumer, client in by_id.items():
            held = sorted(tp.partition for tp in client.rebalancer.partitions)
            reads = sorted(tp.partition for tp in client.fetchers.partitions)
            assert held == reads == expected[consumer], consumer


VERBS = ("join", "close", "kill", "lose_touch", "heal", "grow", "wait", "wait")


@settings(max_examples=15)
@given(
    st.integers(0, 2**16),
    st.integers(1, 5),
    st.lists(st.tuples(st.sampled_from(VERBS), st.integers(0, 4)), min_size=4, max_size=10),
)
@example(1, 3, [("wait", 3), ("grow", 2)])
@example(1, 4, [("wait", 3), ("lose_touch", 0), ("wait", 4), ("join", 0), ("wait", 2)])
@example(1, 4, [("wait", 3), ("lose_touch", 1), ("join", 0), ("wait", 2), ("heal", 0)])
def test_when_all_is_quiet_each_partition_has_one_owner(seed, partitions, story):
    group = OldConsumers(seed, partitions)
    for verb, number in story:
        getattr(group, verb)(number)
    group.each_partition_has_one_owner()
