"""A group whose members change the protocol one by one, against a dumb oracle (KIP-848).

Members of the classic and of the consumer protocol join, take, dawdle, leave, die and come back
with the other protocol, some of them static, some with a SubscriptionPattern, while the coordinator
converts the group to and fro and fails over. EXCL: no partition is used by two clients that the
coordinator counts as members. A group that becomes classic again takes the members' targets for
what they have (ClassicGroup.fromConsumerGroup), so a member that has more is not judged until its
next assignment. The group's epoch never falls while the group has members, nor does what a member
is told. LIVE:
left alone, all members get all partitions, each of them once.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from kafkasim.model import facts
from kafkasim.model.errors import Errors
from kafkasim.model.group.assignors import ASSIGNORS, without_racks
from kafkasim.model.group.modern.state.assignment import from_message, partitions_of, to_message
from kafkasim.model.group.rules import GroupRules
from kafkasim.model.messages import (
    ConsumerGroupHeartbeatRequest,
    JoinGroupRequest,
    Subscription,
    SyncGroupRequest,
)
from kafkasim.model.records import TopicPartition
from tests.model.consumer_group_harness import GROUP, ConsumerBench
from tests.model.group_harness import heartbeat, leave

REJOIN = (Errors.UNKNOWN_MEMBER_ID, Errors.FENCED_MEMBER_EPOCH, Errors.GROUP_ID_NOT_FOUND)
GONE = (Errors.UNKNOWN_MEMBER_ID, Errors.FENCED_INSTANCE_ID, Errors.INCONSISTENT_GROUP_PROTOCOL)
TOPICS = ("orders",)
CLIENTS = 4
Owned = dict[TopicPartition, None]


class Process:
    """A consumer's process: it uses what it owns until it gives that up."""

    def __init__(self, bench: ConsumerBench, number: int, life: int) -> None:
        self.bench = bench
        self.instance = f"i{number}" if number % 2 else None
        self.name = f"m{number}.{life}"
        self.member_id = ""
        self.epoch = 0  # the member epoch, or the generation
        self.owned: Owned = {}
        self.untracked = False  # it uses more than the coordinator knows of, after a downgrade
        self.down = 0  # so many steps until the application has made a new one

    def forget(self) -> None:
        """Stop using partitions: the member is no longer one."""
        self.member_id, self.epoch, self.owned, self.untracked = "", 0, {}, False

    def step(self) -> None:
        """Do what the consumer's poll does next."""
        raise NotImplementedError

    def leave(self, static: bool) -> None:
        raise NotImplementedError


class Modern(Process):
    """By the consumer protocol; ``pattern`` is a SubscriptionPattern, None: it names its topics."""

    def __init__(
        self, bench: ConsumerBench, number: int, life: int, pattern: str | None = None
    ) -> None:
        super().__init__(bench, number, life)
        self.pattern = pattern
        self.member_id = self.name
        self.full = True
        self.failures = 0  # of the heartbeat, with an error that ends the consumer

    def forget(self) -> None:
        super().forget()
        self.member_id, self.full = self.name, True

    @property
    def names(self) -> tuple[str, ...]:
        return () if self.pattern else TOPICS

    def step(self) -> None:
        if self.down:
            self.down -= 1
            return
        joins = self.epoch == 0
        full = self.full or joins
        owned: dict[str, tuple[int, ...]] = {}
        for tp in sorted(self.owned):
            topic_id = f"id-{tp.topic}"
            owned[topic_id] = (*owned.get(topic_id, ()), tp.partition)
        asked = self.bench.ask(
            ConsumerGroupHeartbeatRequest(
                GROUP,
                self.name,
                self.epoch,
                self.instance,
                rebalance_timeout_ms=60_000 if full else -1,
                subscribed_topic_names=self.names if full else None,
                subscribed_topic_regex=self.pattern if full else None,
                topic_partitions=() if joins else to_message(owned),
            )
        )
        answer = self.bench.answers[asked]
        if answer.error in REJOIN or answer.error is Errors.UNRELEASED_INSTANCE_ID:
            self.forget()
        elif answer.error is not Errors.NONE:
            # A classic group in its first join phase cannot be converted: UNKNOWN_SERVER_ERROR.
            self.forget()
            self.failures += 1
            self.down = 3 * self.failures
        else:
            assert answer.member_epoch >= self.epoch, (answer, self.epoch)
            self.epoch, self.full = answer.member_epoch, False
            if answer.assignment is not None:
                wanted = from_message(answer.assignment)
                tps = [TopicPartition(topic[3:], each) for topic, each in partitions_of(wanted)]
                self.owned = dict.fromkeys(tps)

    def leave(self, static: bool) -> None:
        if self.epoch:
            epoch = -2 if static and self.instance is not None else -1
            self.bench.ask(ConsumerGroupHeartbeatRequest(GROUP, self.name, epoch, self.instance))
        self.forget()


class Classic(Process):
    """By the classic protocol, eager (range) or cooperative."""

    cooperative = False

    def __init__(self, bench: ConsumerBench, number: int, life: int) -> None:
        super().__init__(bench, number, life)
        self.asked: int | None = None  # the join or sync that is not answered yet
        self.syncs = False
        self.joins = True
        self.synced = 0  # the last generation in which it got an assignment
        self.watched: dict[str, int] | None = None  # what it knew of the topics as the leader

    def forget(self) -> None:
        super().forget()
        self.asked, self.syncs, self.joins, self.watched = None, False, True, None
        self.synced = 0

    def rejoin(self) -> None:
        self.joins, self.syncs, self.asked, self.watched = True, False, None, None
        if not self.cooperative:
            self.owned = {}

    @property
    def assignor(self) -> str:
        return "cooperative-sticky" if self.cooperative else "range"

    def step(self) -> None:
        if self.watched not in (None, self.counts()):
            self.rejoin()
        if self.asked is None:
            self.asked = self.bench.ask(self.next_request())
        answer = self.bench.answers.get(self.asked)
        if answer is None:
            return
        self.asked = None
        if self.joins:
            self.on_join(answer)
        elif self.syncs:
            self.on_sync(answer)
        elif answer.error in GONE:
            self.forget()
        elif answer.error in (Errors.REBALANCE_IN_PROGRESS, Errors.ILLEGAL_GENERATION):
            self.rejoin()

    def next_request(self) -> Any:
        if self.joins:
            told = Subscription(TOPICS, tuple(sorted(self.owned)), self.epoch or -1)
            return JoinGroupRequest(
                GROUP, 45_000, 60_000, self.member_id, self.instance, "consumer",
                ((self.assignor, told),), self.name,
            )  # fmt: skip
        return heartbeat(self.member_id, self.epoch, self.instance)

    def on_join(self, answer: Any) -> None:
        if answer.error is Errors.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        elif answer.error in GONE:
            self.forget()
        elif answer.error is Errors.NONE:
            assert answer.generation_id >= self.synced, (answer, self.synced)
            self.member_id, self.epoch = answer.member_id, answer.generation_id
            self.joins, self.syncs = False, True
            given: tuple[Any, ...] = ()
            if answer.leader == self.member_id:
                self.watched = counts = self.counts()
                if not answer.skip_assignment:
                    assignor = ASSIGNORS[self.assignor]()
                    given = tuple(assignor.assign(without_racks(counts), answer.members).items())
            self.asked = self.bench.ask(
                SyncGroupRequest(
                    GROUP, self.epoch, self.member_id, self.instance, "consumer",
                    answer.protocol_name, given,
                )
            )  # fmt: skip

    def counts(self) -> dict[str, int]:
        """Return the partitions of each topic, as metadata tells the client."""
        return {each.name: len(each.partitions) for each in self.bench.image.topics.values()}

    def on_sync(self, answer: Any) -> None:
        self.syncs = False
        if answer.error in GONE:
            self.forget()
        elif answer.error is not Errors.NONE:
            self.rejoin()
        else:
            self.synced, self.untracked = self.epoch, False
            revoked = [tp for tp in self.owned if tp not in answer.assignment]
            self.owned = dict.fromkeys(answer.assignment)
            if revoked and self.cooperative:
                self.rejoin()

    def leave(self, static: bool) -> None:
        if self.member_id and not (static and self.instance):
            self.bench.ask(leave(self.member_id, self.instance))
        self.forget()


class Cooperative(Classic):
    """By the classic protocol, cooperative."""

    cooperative = True


clients = st.integers(0, CLIENTS - 1)
patterns = st.sampled_from([None, "orders", "ord.*"])


class Migration(RuleBasedStateMachine):
    """Two dynamic and two static members, and a coordinator that allows both conversions."""

    classic: type[Classic] = Classic
    group_rules: type[GroupRules] = GroupRules

    def __init__(self) -> None:
        super().__init__()
        self.lives = 0
        self.leader_epoch = 1
        self.bench = self.new_bench()
        self.bench.elect()
        self.clients: list[Process] = [self.new(number, False) for number in range(CLIENTS)]
        self.last_epoch = 0
        self.conversions = 0  # of this coordinator

    def new_bench(self, **options: Any) -> ConsumerBench:
        return ConsumerBench(
            rules=self.group_rules(),
            seed=self.leader_epoch,  # another coordinator hands out other member ids
            group_initial_rebalance_delay_ms=0,
            group_consumer_migration_policy="bidirectional",
            **options,
        )

    def new(self, number: int, modern: bool, pattern: str | None = None) -> Process:
        self.lives += 1
        if modern:
            return Modern(self.bench, number, self.lives, pattern)
        return self.classic(self.bench, number, self.lives)

    @rule(c=clients, steps=st.integers(1, 3))
    def step(self, c: int, steps: int) -> None:
        for _ in range(steps):
            self.clients[c].step()

    @rule()
    def every_step(self) -> None:
        for client in self.clients:
            client.step()
            self.check_epoch()

    @rule(rounds=st.integers(2, 6))
    def settle(self, rounds: int) -> None:
        """The members go on for a while, so that groups become stable often."""
        for _ in range(rounds):
            self.every_step()
            self.bench.wait(1)

    @rule(
        c=clients, modern=st.booleans(), pattern=patterns, static=st.booleans(),
        leaves=st.booleans(),
    )  # fmt: skip
    def restart(
        self, c: int, modern: bool, pattern: str | None, static: bool, leaves: bool
    ) -> None:
        """A process ends, perhaps without a word; the next one has the protocol that is drawn."""
        if leaves:
            self.leave(c, static)
        self.clients[c] = self.new(c, modern, pattern)

    @rule(modern=st.booleans(), pattern=patterns)
    def roll(self, modern: bool, pattern: str | None) -> None:
        """All members restart with one protocol, one after the other."""
        for c in range(CLIENTS):
            self.restart(c, modern, pattern, True, True)
            self.settle(3)

    @rule(c=clients, static=st.booleans())
    def leave(self, c: int, static: bool) -> None:
        self.clients[c].leave(static)
        self.check_epoch()

    def note_downgrades(self) -> None:
        done = [fact.protocol for fact in self.bench.seen(facts.GroupConverted)]
        new, self.conversions = done[self.conversions :], len(done)
        group = self.bench.group.shards[0].groups.get(GROUP)
        if "classic" in new:
            for client in self.clients:
                member = None if group is None else group.members.get(client.member_id)
                known = () if member is None else member.assignment or ()
                client.untracked = not all(tp in known for tp in client.owned)

    @rule(seconds=st.sampled_from([1, 20, 50]))
    def wait(self, seconds: int) -> None:
        """Time passes; a member that is gone by then stops before it uses anything."""
        self.bench.wait(seconds)
        self.note_downgrades()
        self.stop_the_removed()

    def stop_the_removed(self) -> None:
        members = self.members()
        for client in self.clients:
            if client.member_id not in members:
                client.forget()

    @rule(more=st.integers(1, 2))
    def grow(self, more: int) -> None:
        known = self.bench.image.topic_by_name("orders")
        assert known is not None
        self.bench.set_topic("orders", len(known.partitions) + more)

    @rule()
    def fail_over(self) -> None:
        self.leader_epoch += 1
        image = self.bench.image
        self.bench = self.new_bench(log=self.bench.log, orders=0, now=self.bench.now)
        self.bench.elect(self.leader_epoch)
        self.bench.image.topics.update(image.topics)
        self.bench.image.topic_names.update(image.topic_names)
        self.conversions = 0
        for client in self.clients:
            client.bench = self.bench
            if isinstance(client, Classic) and client.asked is not None:
                client.rejoin()  # its answer does not come any more
        self.stop_the_removed()

    def group(self) -> Any:
        shard = self.bench.group.shards[0]
        return shard.consumer_groups.get(GROUP) or shard.groups.get(GROUP)

    def members(self) -> dict[str, Any]:
        group = self.group()
        return {} if group is None else dict(group.members)

    @invariant()
    def nobody_shares(self) -> None:
        users: dict[TopicPartition, str] = {}
        members = self.members()
        for client in self.clients:
            for tp in client.owned if client.member_id in members and not client.untracked else ():
                assert tp not in users, (tp, users[tp], client.member_id)
                users[tp] = client.member_id

    @invariant()
    def epochs_rise(self) -> None:
        self.check_epoch()

    def check_epoch(self) -> None:
        """Compare the group's epoch with the last one, unless the group was empty in between."""
        self.note_downgrades()
        group = self.group()
        if group is None or not group.members:
            self.last_epoch = 0
            return
        shard = self.bench.group.shards[0]
        if GROUP in shard.consumer_groups:
            epoch = group.group_epoch
        elif group.state.value == "Stable":
            epoch = group.generation
        else:
            return  # a generation is in the log once its assignment is
        assert epoch >= self.last_epoch, (epoch, self.last_epoch)
        self.last_epoch = epoch

    def in_first_join(self) -> bool:
        """Return whether a classic group has members and no assignor yet: it cannot be upgraded."""
        group = self.bench.group.shards[0].groups.get(GROUP)
        return group is not None and bool(group.members) and group.protocol is None

    def teardown(self) -> None:
        """Once nobody else changes, every member has its share, 140 s after a first join phase.

        In that each try to upgrade fails, and ends the joins that wait (convertToConsumerGroup); if
        none waits when its time is over, it lasts for one more rebalance timeout.
        """
        late = 300  # ten rebalance timeouts
        while late and (self.in_first_join() or any(client.down for client in self.clients)):
            late -= 1
            self.every_step()
            self.bench.wait(2)
        for _ in range(70):
            self.every_step()
            self.bench.wait(2)
        dealt = sorted(tp for client in self.clients for tp in client.owned)
        topic = self.bench.image.topic_by_name("orders")
        assert topic is not None
        every = [TopicPartition("orders", number) for number in sorted(topic.partitions)]
        assert dealt == every, (dealt, self.members())
        group = self.group()
        assert group.state.value == "Stable", group.state


class CooperativeMigration(Migration):
    """The same with classic members that keep partitions in a rebalance (KIP-429)."""

    classic = Cooperative


TestMigration = Migration.TestCase
TestMigration.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestCooperativeMigration = CooperativeMigration.TestCase
TestCooperativeMigration.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


@pytest.mark.soak
@pytest.mark.parametrize("machine", [Migration, CooperativeMigration])
def test_many_histories(machine: type[Migration]) -> None:
    run_state_machine_as_test(
        machine, settings=settings(max_examples=600, stateful_step_count=50, deadline=None)
    )
