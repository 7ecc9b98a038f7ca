"""A consumer group (KIP-848) against a dumb oracle: clients that believe what they are told.

Members join, heartbeat, revoke or dawdle, leave and fall silent; answers are lost; topics grow and
go; the coordinator fails over or cannot write. EXCL: no partition is ever used by two clients that
the coordinator counts as members. LIVE: left alone, the group converges, and its partitions are
dealt out completely and evenly. A coordinator that reads the log knows what its predecessor knew.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from kafkasim.model.errors import Errors
from kafkasim.model.group.modern.state.assignment import (
    EMPTY,
    Assignment,
    from_message,
    intersect,
    partitions_of,
    to_message,
)
from kafkasim.model.group.modern.state.current_assignment import PartitionEpoch
from kafkasim.model.group.modern.state.member import ConsumerGroupMember
from kafkasim.model.group.modern.state.partition_epochs import PartitionEpochs
from kafkasim.model.group.rules import GroupRules
from kafkasim.model.messages import ConsumerGroupHeartbeatRequest
from tests.model.consumer_group_harness import GROUP, ConsumerBench

REJOIN = (Errors.UNKNOWN_MEMBER_ID, Errors.FENCED_MEMBER_EPOCH, Errors.GROUP_ID_NOT_FOUND)
CLIENTS = 4


class Client:
    """A consumer by the book: it uses what it was given until it has revoked it."""

    def __init__(self, number: int) -> None:
        self.name = f"m{number}"
        self.instance = f"i{number}" if number % 2 else None
        self.epoch = 0
        self.owned: Assignment = EMPTY
        self.wanted: Assignment = EMPTY
        self.full = True  # the next heartbeat has every field

    def request(self, topics: tuple[str, ...]) -> ConsumerGroupHeartbeatRequest:
        joins = self.epoch == 0
        full = self.full or joins
        return ConsumerGroupHeartbeatRequest(
            GROUP,
            self.name,
            self.epoch,
            self.instance,
            rebalance_timeout_ms=60_000 if full else -1,
            subscribed_topic_names=topics if full else None,
            topic_partitions=() if joins else to_message(self.owned),
        )

    def forget(self) -> None:
        self.epoch, self.owned, self.wanted, self.full = 0, EMPTY, EMPTY, True

    def revoke(self) -> None:
        self.owned = intersect(self.owned, self.wanted)

    def take(self) -> None:
        self.revoke()
        self.owned = self.wanted


class LingeringBench(ConsumerBench):
    """A bench that waits for answers as long as the coordinator lingers."""

    def get(self, message: Any) -> Any:
        asked = self.ask(message)
        self.wait(0 if asked in self.answers else 0.005)
        return self.answers[asked]


clients = st.integers(0, CLIENTS - 1)
subscriptions = st.sampled_from([("orders",), ("orders", "payments"), ("payments",)])


class Group(RuleBasedStateMachine):
    """Two dynamic and two static members."""

    group_rules: type[GroupRules] = GroupRules
    linger_ms = 0

    def __init__(self) -> None:
        super().__init__()
        self.bench = self.new_bench()
        self.bench.elect()
        self.bench.set_topic("payments", 2)
        self.clients = [Client(number) for number in range(CLIENTS)]
        self.topics: list[tuple[str, ...]] = [("orders",)] * CLIENTS
        self.epoch = 1

    def new_bench(self, **options: Any) -> LingeringBench:
        return LingeringBench(
            rules=self.group_rules(), group_coordinator_append_linger_ms=self.linger_ms, **options
        )

    def beat(self, client: Client, lost: bool = False) -> None:
        asked = client.request(self.topics[self.clients.index(client)])
        answer = self.bench.get(asked)
        if lost:
            client.full = True
            return
        if answer.error in REJOIN or answer.error is Errors.UNRELEASED_INSTANCE_ID:
            client.forget()
            return
        if answer.error is not Errors.NONE:
            client.full = True
            return
        client.epoch, client.full = answer.member_epoch, False
        if answer.assignment is not None:
            client.wanted = from_message(answer.assignment)

    @rule(c=clients, then=st.sampled_from(["take", "take", "revoke", "dawdle"]))
    def heartbeat(self, c: int, then: str) -> None:
        client = self.clients[c]
        self.beat(client)
        if then == "take":
            client.take()
        elif then == "revoke":
            client.revoke()

    @rule()
    def every_heartbeat(self) -> None:
        for c in range(CLIENTS):
            self.heartbeat(c, "take")

    @rule(c=clients)
    def lose_answer(self, c: int) -> None:
        self.beat(self.clients[c], lost=True)

    @rule(c=clients, what=st.sampled_from(["heartbeat", "leave", "session"]))
    def fail_write(self, c: int, what: str) -> None:
        """The coordinator cannot write, so what it was about to do is undone."""
        self.bench.log.error = Errors.NOT_ENOUGH_REPLICAS
        if what == "heartbeat":
            self.beat(self.clients[c])
        elif what == "leave":
            self.leave(c, static=False)
        else:
            self.wait(50)
        self.bench.log.error = Errors.NONE
        if what == "leave":
            self.beat(self.clients[c])

    @rule(c=clients, topics=subscriptions)
    def subscribe(self, c: int, topics: tuple[str, ...]) -> None:
        self.topics[c] = topics
        self.clients[c].full = True

    @rule(c=clients, static=st.booleans())
    def leave(self, c: int, static: bool) -> None:
        client = self.clients[c]
        if client.epoch == 0:
            return
        epoch = -2 if client.instance is not None and static else -1
        request = ConsumerGroupHeartbeatRequest(GROUP, client.name, epoch, client.instance)
        # If the write fails, the member has no session timer any more until its next heartbeat.
        if self.bench.get(request).error is not Errors.COORDINATOR_NOT_AVAILABLE:
            client.forget()

    @rule(c=clients)
    def restart(self, c: int) -> None:
        """A process dies; the next one has another member id, and the same instance id."""
        client = self.clients[c]
        client.forget()
        client.name += "'"

    @rule(seconds=st.sampled_from([1, 20, 50]))
    def wait(self, seconds: int) -> None:
        """Time passes; a member that is gone by then stops before its next heartbeat."""
        self.bench.wait(seconds)
        members = self.members()
        for client in self.clients:
            if client.name not in members:
                client.forget()

    @rule(topic=st.sampled_from(["orders", "payments"]), more=st.integers(1, 3))
    def grow(self, topic: str, more: int) -> None:
        known = self.bench.image.topic_by_name(topic)
        self.bench.set_topic(topic, (0 if known is None else len(known.partitions)) + more)

    @rule()
    def fail_over(self) -> None:
        self.bench.wait(0.005)
        before = self.bench.group.shards[0].consumer_groups.get(GROUP) and self.bench.snapshot()
        self.epoch += 1
        image = self.bench.image
        self.bench = self.new_bench(log=self.bench.log, orders=0, now=self.bench.now)
        self.bench.elect(self.epoch)
        self.bench.image.topics.update(image.topics)
        self.bench.image.topic_names.update(image.topic_names)
        assert before is None or self.bench.snapshot() == before

    def members(self) -> dict[str, object]:
        group = self.bench.group.shards[0].consumer_groups.get(GROUP)
        return {} if group is None else dict(group.members)

    @invariant()
    def nobody_shares(self) -> None:
        users: dict[tuple[str, int], str] = {}
        members = self.members()
        for client in self.clients:
            for each in partitions_of(client.owned) if client.name in members else ():
                assert each not in users, (each, users[each], client.name)
                users[each] = client.name

    def teardown(self) -> None:
        self.bench.wait(50)
        for _ in range(12):
            for client in self.clients:
                self.beat(client)
                client.take()
            self.bench.wait(1)
        group = self.bench.consumer_group()
        assert group.state.value == "Stable", self.bench.snapshot()
        dealt = [each for client in self.clients for each in partitions_of(client.owned)]
        wanted = {topic for topics in self.topics for topic in topics}
        every = [
            (topic.topic_id, number)
            for topic in self.bench.image.topics.values()
            if topic.name in wanted
            for number in topic.partitions
        ]
        assert sorted(dealt) == sorted(every)
        if len({*self.topics}) == 1:
            sizes = [len(list(partitions_of(client.owned))) for client in self.clients]
            assert max(sizes) - min(sizes) <= 1, sizes


TestConsumerGroup = Group.TestCase
TestConsumerGroup.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


class LingeringGroup(Group):
    """The same with group.coordinator.append.linger.ms: what a lost batch changed is undone."""

    linger_ms = 5


TestLingeringGroup = LingeringGroup.TestCase
TestLingeringGroup.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)


class GrantsAtOnce(GroupRules):
    """A coordinator that gives partitions away that their owners have not released."""

    def reconcile(
        self,
        member: ConsumerGroupMember,
        target_epoch: int,
        target: Assignment,
        partition_epoch: PartitionEpoch,
        owned: Assignment | None,
    ) -> ConsumerGroupMember:
        return super().reconcile(member, target_epoch, target, lambda _topic, _number: -1, owned)

    def update_partition_epochs(
        self,
        epochs: PartitionEpochs,
        old: ConsumerGroupMember | None,
        new: ConsumerGroupMember | None,
    ) -> None:
        pass


def test_the_oracle_sees_a_partition_that_is_given_away_too_early() -> None:
    class Early(Group):
        group_rules = GrantsAtOnce

    with pytest.raises(AssertionError, match="id-"):
        run_state_machine_as_test(
            Early, settings=settings(phases=[Phase.generate], report_multiple_bugs=False)
        )


@pytest.mark.soak
def test_many_histories() -> None:
    case = Group.TestCase()
    case.settings = settings(max_examples=400, stateful_step_count=50, deadline=None)
    case.runTest()
