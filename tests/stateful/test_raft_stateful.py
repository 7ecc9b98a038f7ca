"""A quorum under crashes, power losses, cuts, and reordering across connections.

Invariants (V kraft/kip_996). The world checks ElectionSafety at each role change. LogMatching,
Durability (a committed record is committed everywhere at its offset) and a monotonic high watermark
are checked here. At the end faults heal, and the quorum must commit again
(EventuallyLeaderElected, ValuesEventuallyAcked).
"""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafkasim.model.config import BrokerConfig
from tests.model.raft_cluster import World

VOTERS = 3
IDS = st.integers(1, VOTERS + 1)  # the last is an observer


class Quorum(RuleBasedStateMachine):
    world: World

    @initialize(seed=st.integers(0, 1 << 30))
    def begin(self, seed):
        config = BrokerConfig(metadata_log_segment_bytes=1000, metadata_max_retention_bytes=0)
        self.world = World(VOTERS, observers=1, seed=seed, latency=(200, 60_000), config=config)
        self.committed = {}  # offset -> (epoch, value)
        self.seen = {}  # (node, incarnation) -> (high watermark, records read of committed)
        self.value = 0
        self.world.run(4_000_000)

    @rule(ms=st.sampled_from([1, 5, 30, 200, 1500, 4000]))
    def time_passes(self, ms):
        self.world.run(ms * 1000)

    @rule(count=st.integers(1, 3))
    def append(self, count):
        self.value += count
        self.world.append(range(self.value - count, self.value))

    @rule(node=IDS)
    def snapshot(self, node):
        if self.world.nodes[node] is not None and self.world.nodes[node].committed:
            self.world.snapshot(node, clean=True)

    @rule(node=IDS, power=st.booleans())
    def crash(self, node, power):
        if self.world.nodes[node] is not None:
            self.world.crash(node, power)

    @rule(node=IDS)
    def restart(self, node):
        if self.world.nodes[node] is None:
            self.world.start(node)

    @rule(one=IDS, other=IDS)
    def cut(self, one, other):
        self.world.cut.add((one, other))

    @rule(node=IDS)
    def isolate(self, node):
        self.world.isolate(node)

    @rule()
    def heal(self):
        self.world.heal()

    @precondition(lambda self: self.world.leader() is not None)
    @rule()
    def resign(self):
        leader = self.world.leader()
        raft = self.world.nodes[leader].raft
        raft.resign(raft.epoch, self.world.now)
        self.world.drain(leader)

    @invariant()
    def nobody_halted(self):
        assert self.world.halts == []

    @invariant()
    def committed_is_never_lost_and_high_watermarks_rise(self):
        for i, node in self.world.nodes.items():
            if node is None:
                continue
            key = (i, self.world.incarnations[i])
            before, read = self.seen.get(key, (0, 0))
            raft = node.raft
            assert before <= raft.high_watermark <= raft.log.log_end_offset, key
            self.seen[key] = (raft.high_watermark, len(node.committed))
            for offset, epoch, value in node.committed[read:]:
                known = self.committed.setdefault(offset, (epoch, value))
                assert known == (epoch, value), (i, offset, known, epoch, value)

    @invariant()
    def logs_match(self):
        logs = {i: self.world.log(i) for i, node in self.world.nodes.items() if node}
        for one in logs:
            for other in logs:
                if one < other:
                    match(logs[one], logs[other])

    def teardown(self):
        if not hasattr(self, "world"):
            return
        world = self.world
        world.heal()
        for i in world.ids:
            if world.nodes[i] is None:
                world.start(i)
        world.run(20_000_000)
        assert world.append(["last"]) is not None, "no leader 20 s after all faults healed"
        world.run(2_000_000)
        ends = [node.committed[-1][2] for node in world.nodes.values()]
        assert ends == ["last"] * (VOTERS + 1)
        self.committed_is_never_lost_and_high_watermarks_rise()
        self.logs_match()


def match(one, other):
    """Up to the last (offset, epoch) they share, two logs are equal."""
    entries = {entry[0]: entry for entry in other}
    common = [(entry, entries[entry[0]]) for entry in one if entry[0] in entries]
    while common and common[-1][0][1] != common[-1][1][1]:
        common.pop()
    assert all(mine == theirs for mine, theirs in common)


Quorum.TestCase.settings = settings(
    max_examples=12,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
TestQuorum = Quorum.TestCase
