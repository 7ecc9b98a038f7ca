"""Three replicas under arbitrary deliveries, elections and metadata delays.

The theorem (H Kip320.tla, V v3.5): while every election is from the ISR, all data below the newest
leader's high watermark is on every member of the controller's ISR (ISRDATA, StrongIsr), replicas
that hold the same offset and epoch hold the same record (MATCH), logs are ordered (LOGORDER), and
what acks=all acknowledged is on the controller's leader once it knows that it leads (ACKED).
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kafkasim.model.errors import Errors
from tests.model.replica_harness import Trio

NODES = st.sampled_from([1, 2, 3])


class PartitionMachine(RuleBasedStateMachine):
    """Verbs of a cluster of three, with a controller that never fails."""

    def __init__(self) -> None:
        super().__init__()
        self.trio = Trio(replica_lag_time_max_ms=1000, min_insync_replicas=2)
        self.trio.tell()
        self.values = 0
        self.produced: dict[int, int] = {}  # call -> value
        self.acked: list[int] = []

    @rule(node=NODES, acks=st.sampled_from([1, -1]))
    def produce(self, node: int, acks: int) -> None:
        self.values += 1
        call = self.trio.produce(node, self.values, acks)
        if acks == -1:
            self.produced[call] = self.values

    @precondition(lambda self: self.trio.links())
    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        self.trio.deliver(data.draw(st.sampled_from(self.trio.links())))

    @rule(rounds=st.integers(1, 4))
    def settle(self, rounds: int) -> None:
        self.trio.settle(rounds)

    @rule(data=st.data())
    def elect(self, data: st.DataObject) -> None:
        self.trio.elect(data.draw(st.sampled_from(self.trio.registration.isr)))

    @rule(node=NODES)
    def learn(self, node: int) -> None:
        self.trio.tell(node)

    @rule(us=st.sampled_from([50_000, 600_000, 1_100_000]))
    def wait(self, us: int) -> None:
        self.trio.advance(us)

    @rule(node=NODES)
    def expire_isr(self, node: int) -> None:
        self.trio.shrink(node)

    @rule(node=NODES, lose=st.booleans())
    def alter_partition(self, node: int, lose: bool) -> None:
        if self.trio.nodes[node].link.queue:
            self.trio.controller(node, lose)

    # ---------------------------------------------------------------------------- what must hold

    @invariant()
    def isr_has_all_committed_data(self) -> None:
        trio = self.trio
        logs = {number: trio.log(number) for number in trio.nodes}
        leaders = [node.partition for node in trio.nodes.values() if node.partition.leading]
        if not leaders:
            return
        newest = max(leaders, key=lambda partition: partition.leader_epoch)
        if newest.leader_epoch != trio.registration.leader_epoch:
            return
        committed = newest.log.high_watermark
        expected = logs[newest.leader_id][:committed]
        for member in trio.registration.isr:
            assert logs[member][:committed] == expected, (member, newest, logs)

    @invariant()
    def equal_epochs_hold_equal_records(self) -> None:
        known: dict[tuple[int, int], int] = {}
        for number in self.trio.nodes:
            for offset, epoch, value in self.trio.log(number):
                assert known.setdefault((offset, epoch), value) == value, (number, offset, epoch)

    @invariant()
    def offsets_are_ordered(self) -> None:
        for node in self.trio.nodes.values():
            log = node.partition.log
            assert 0 <= log.log_start_offset <= log.high_watermark, log.tp
            assert log.high_watermark <= log.log_end_offset, log.tp

    @invariant()
    def acknowledged_records_survive(self) -> None:
        trio = self.trio
        for call, value in list(self.produced.items()):
            answer = trio.answers.get(call)
            if answer is not None:
                del self.produced[call]
                if answer.partitions[0].error is Errors.NONE:
                    self.acked.append(value)
        for member in trio.registration.isr:
            held = {value for _, _, value in trio.log(member)}
            lost = [value for value in self.acked if value not in held]
            assert not lost, (member, lost, trio.registration)

    def teardown(self) -> None:
        """Liveness: after everything heals, all replicas are equal and in the ISR."""
        trio = self.trio
        for _ in range(12):
            trio.tell()
            trio.settle()
            for number, node in trio.nodes.items():
                while node.link.queue:
                    trio.controller(number)
            trio.advance(1_000_000)
        leader = trio.registration.leader
        trio.produce(leader, 0)
        for _ in range(6):
            trio.settle()
            for number, node in trio.nodes.items():
                while node.link.queue:
                    trio.controller(number)
            trio.tell()
            trio.advance(600_000)
        assert trio.log(1) == trio.log(2) == trio.log(3)
        assert sorted(trio.registration.isr) == [1, 2, 3]


PartitionMachine.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
TestPartition = PartitionMachine.TestCase
