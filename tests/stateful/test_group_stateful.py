"""The coordinator against dumb oracles, over failovers at arbitrary points of its log.

OFFSET: what a stable OffsetFetch answers is the last commit in the log, and a commit that was
acknowledged never leaves it. FENCE: once a coordinator has told somebody of a generation, it takes
no commit of an older one, and none of a member that has left. EXCL: within a generation nobody
shares a partition. Generations do not fall under one coordinator, and no request is answered twice
(the harness asserts that). LIVE: left alone, four members that join form a group which has all
partitions once, and stay in it as long as they send heartbeats.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from kafkasim.model import facts
from kafkasim.model.coordinator.log import MemoryCoordinatorLog
from kafkasim.model.errors import Errors
from kafkasim.model.group.assignors import ASSIGNORS, without_racks
from kafkasim.model.group.rules import GroupRules
from kafkasim.model.messages import JoinGroupResponse
from kafkasim.model.records import TopicPartition
from kafkasim.scenarios.variants.compose import compose
from tests.model.group_harness import (
    GROUP,
    T0,
    T1,
    Bench,
    commit,
    fetch,
    heartbeat,
    join,
    leave,
    offsets,
    sync,
)


class Client:
    """A consumer that believes what it was told last."""

    def __init__(self, instance: str | None) -> None:
        self.instance = instance
        self.member_id = ""
        self.generation = -1
        self.joining: int | None = None
        self.members: Any = ()


clients = st.integers(0, 3)
partitions = st.sampled_from([T0, T1])


class Coordinator(RuleBasedStateMachine):
    """Two dynamic and two static members, one group, a log that only grows up to a failover."""

    decisions = GroupRules()

    def __init__(self) -> None:
        super().__init__()
        self.clients = [Client(None), Client(None), Client("i1"), Client("i2")]
        self.epoch = 1
        self.bench = self.coordinator()
        self.bench.elect(1)
        self.told: list[tuple[str, int, str | None]] = []  # what clients were told that they are
        self.gone: list[str] = []  # ids of members whose leave this coordinator has answered
        # Commits in the log: (offset after it, partition, offset, number of its request)
        self.commits: list[tuple[int, TopicPartition, int, int]] = []
        self.fetches: dict[int, tuple[TopicPartition, int]] = {}
        self.read = 0

    def coordinator(self, log: MemoryCoordinatorLog | None = None, now: int = 0) -> Bench:
        """A broker that is not elected yet, and reads its log batch by batch."""
        bench = Bench(
            log,
            self.decisions,
            seed=self.epoch,
            now=now,
            group_initial_rebalance_delay_ms=1000,
            offsets_load_buffer_size=1,
        )
        bench.auto_replicate = False
        return bench

    @rule(c=clients, topics=st.sampled_from([("orders",), ("orders", "payments")]))
    def join(self, c: int, topics: tuple[str, ...]) -> None:
        client = self.clients[c]
        request = join(
            client.member_id, instance=client.instance, topics=topics, rebalance_ms=10_000
        )
        client.joining = self.bench.ask(request)
        self.learn(client)

    def learn(self, client: Client) -> None:
        answer = self.bench.answers.get(client.joining or -1)
        if answer is None:
            return
        client.joining = None
        if answer.error in (Errors.NONE, Errors.MEMBER_ID_REQUIRED):
            client.member_id = answer.member_id
            client.generation = answer.generation_id
            client.members = answer.members
            if answer.error is Errors.NONE:
                self.told.append((client.member_id, client.generation, client.instance))
        elif answer.error in (Errors.UNKNOWN_MEMBER_ID, Errors.FENCED_INSTANCE_ID):
            client.member_id = ""

    @rule(c=clients)
    def sync(self, c: int) -> None:
        client = self.clients[c]
        self.learn(client)
        topics = without_racks({"orders": 5, "payments": 3})
        given = ASSIGNORS["range"]().assign(topics, client.members).items()
        self.bench.ask(
            sync(client.member_id, client.generation, tuple(given), instance=client.instance)
        )

    @rule(
        cs=st.lists(clients, min_size=1, unique=True),
        replicated=st.booleans(),
        done=st.lists(st.tuples(partitions, st.integers(0, 99)), max_size=3),
    )
    def rebalance(
        self, cs: list[int], replicated: bool, done: list[tuple[TopicPartition, int]]
    ) -> None:
        """Some clients go through a whole rebalance, and the first commits what it has ``done``.

        So groups become Stable often, and have commits to lose.
        """
        for c in cs:
            self.join(c, ("orders",))
            if self.clients[c].generation < 0:  # it was handed out its id
                self.join(c, ("orders",))
        self.wait(2.5)
        for c in cs:
            self.sync(c)
        if replicated:
            self.replicate()
            for tp, offset in done:
                self.commit(cs[0], tp, offset, True)
            self.replicate()

    @rule(c=clients)
    def heartbeat(self, c: int) -> None:
        client = self.clients[c]
        self.learn(client)
        request = heartbeat(client.member_id, client.generation, client.instance)
        if self.bench.get(request).error is Errors.UNKNOWN_MEMBER_ID:
            client.member_id = ""

    @rule(c=clients)
    def leave(self, c: int) -> None:
        client = self.clients[c]
        asked = self.bench.ask(leave(client.member_id, client.instance))
        answer = self.bench.answers.get(asked)
        if answer is not None and answer.error is Errors.NONE and client.member_id:
            ((_, _, error),) = answer.members
            if error is Errors.NONE:
                self.gone.append(client.member_id)
        client.member_id = ""

    @rule(c=clients)
    def restart(self, c: int) -> None:
        self.clients[c] = Client(self.clients[c].instance)

    @rule(c=clients, tp=partitions, offset=st.integers(0, 99), member=st.booleans())
    def commit(self, c: int, tp: TopicPartition, offset: int, member: bool) -> None:
        client = self.clients[c]
        if member:
            self.ask_commit(offset, client.member_id, client.generation, tp, client.instance)
        else:
            self.ask_commit(offset, "", -1, tp, None)

    @precondition(lambda self: self.told)
    @rule(past=st.integers(0, 99), tp=partitions, offset=st.integers(0, 99))
    def commit_late(self, past: int, tp: TopicPartition, offset: int) -> None:
        """A member commits as it would have done once, whatever has become of it since."""
        member_id, generation, instance = self.told[past % len(self.told)]
        self.ask_commit(offset, member_id, generation, tp, instance)

    def ask_commit(
        self, offset: int, member_id: str, generation: int, tp: TopicPartition, instance: str | None
    ) -> None:
        end = self.end()
        asked = self.bench.ask(commit(offset, member_id, generation, tp, instance))
        if self.end() > end:
            self.commits.append((self.end(), tp, offset, asked))
            if member_id:
                assert generation >= self.generation(), "an old generation has committed"
                assert member_id not in self.gone, "a member has committed that had left"
        else:
            assert self.bench.answers[asked].results[0][1] is not Errors.NONE

    @rule(tp=partitions)
    def fetch(self, tp: TopicPartition) -> None:
        stored = [offset for _, at, offset, _ in self.commits if at == tp]
        asked = self.bench.ask(fetch(tp))
        self.fetches[asked] = (tp, stored[-1] if stored else -1)

    @rule(seconds=st.sampled_from([0.5, 3, 11]))
    def wait(self, seconds: float) -> None:
        self.bench.wait(seconds)

    @rule()
    def replicate(self) -> None:
        self.bench.replicate()

    @rule(failing=st.booleans())
    def break_or_mend_the_log(self, failing: bool) -> None:
        self.bench.log.error = Errors.NOT_ENOUGH_REPLICAS if failing else Errors.NONE

    @precondition(lambda self: self.epoch < 6)
    @rule(kept=st.integers(0, 5))
    def fail_over(self, kept: int) -> None:
        """Elect a broker whose log has what is committed and at most ``kept`` batches more.

        It is asked for the offsets at once.
        """
        old = self.bench
        self.epoch += 1
        old.group.on_resigned(0, self.epoch, old.now)
        old.drain()
        assert not old.timers.next_deadline()
        self.check_fetches()
        log = MemoryCoordinatorLog()
        committed = old.log.high_watermark(old.tp)
        batches = list(old.log.batches.get(old.tp, []))
        safe = len([batch for batch in batches if batch.next_offset <= committed])
        log.batches[old.tp] = batches[: safe + kept]
        log.high_watermarks[old.tp] = committed
        self.bench = self.coordinator(log, old.now)
        self.bench.last = old.last
        self.gone.clear()
        acked = [c for c in self.commits if self.acked(old, c[3])]
        self.commits = [entry for entry in self.commits if entry[0] <= self.end()]
        assert [c for c in acked if c not in self.commits] == [], "acknowledged commits are gone"
        self.bench.elect(self.epoch)
        self.read = 0
        for client in self.clients:
            client.joining = None
        for tp in (T0, T1):
            self.fetch(tp)

    def acked(self, bench: Bench, number: int) -> bool:
        answer = bench.answers.get(number)
        return answer is not None and answer.results[0][1] is Errors.NONE

    def generation(self) -> int:
        """The newest generation that this coordinator has told somebody of."""
        told = [
            answer
            for answer in self.bench.answers.values()
            if isinstance(answer, JoinGroupResponse) and answer.error is Errors.NONE
        ]
        return max([answer.generation_id for answer in told], default=-1)

    def end(self) -> int:
        return self.bench.log.end(self.bench.tp)

    @invariant()
    def check_fetches(self) -> None:
        for number in list(self.fetches):
            answer = self.bench.answers.get(number)
            if answer is not None:
                tp, expected = self.fetches.pop(number)
                if answer.error is Errors.NONE:
                    assert offsets(answer) == {tp: expected}

    @invariant()
    def nobody_shares_a_partition(self) -> None:
        owners: dict[int, dict[str, tuple[str, ...]]] = {}
        for fact in self.bench.seen(facts.GroupAssigned):
            owners.setdefault(fact.generation, {})[fact.member_id] = fact.assignment
        for generation, assignments in owners.items():
            owned = sorted(tp for tps in assignments.values() for tp in tps)
            assert len(owned) == len(set(owned)), (generation, assignments)

    @invariant()
    def generations_do_not_fall(self) -> None:
        generations = [
            fact.generation for fact in self.bench.seen(facts.GroupState) if fact.group == GROUP
        ]
        assert generations == sorted(generations)

    @invariant()
    def the_group_is_consistent(self) -> None:
        for shard in self.bench.group.shards.values():
            group = shard.groups.get(GROUP)
            if group is None:
                continue
            waiting = [m for m in group.members.values() if m.awaiting_join is not None]
            assert len(waiting) == group.awaiting_join_count
            assert (group.leader is None) == (not group.members)
            assert group.leader is None or group.leader in group.members
            assert sorted(group.static_members.values()) == sorted(
                m.member_id for m in group.members.values() if m.instance_id is not None
            )

    def teardown(self) -> None:
        """Everybody falls silent, until all sessions are over, and then comes anew."""
        bench = self.bench
        bench.log.error = Errors.NONE
        bench.auto_replicate = True
        bench.replicate()
        bench.wait(60)
        self.check_fetches()
        self.clients = [Client(client.instance) for client in self.clients]
        everybody = list(range(len(self.clients)))
        for c in everybody:
            self.join(c, ("orders",))
            if self.clients[c].generation < 0:
                self.join(c, ("orders",))
        bench.wait(5)
        for client in self.clients:
            self.learn(client)
        leader = next(client for client in self.clients if client.members)
        given = ASSIGNORS["range"]().assign(without_racks({"orders": 5}), leader.members)
        owned: list[TopicPartition] = []
        for client in self.clients:
            plan = tuple(given.items()) if client is leader else ()
            asked = sync(client.member_id, client.generation, plan, instance=client.instance)
            client.joining = bench.ask(asked)
        for client in self.clients:
            answer = bench.answers[client.joining or -1]
            assert answer.error is Errors.NONE, answer
            owned += answer.assignment
        assert sorted(owned) == [TopicPartition("orders", number) for number in range(5)]
        for _ in range(5):
            bench.wait(4)
            for client in self.clients:
                beat = heartbeat(client.member_id, client.generation, client.instance)
                assert bench.get(beat).error is Errors.NONE


TestCoordinator = Coordinator.TestCase
TestCoordinator.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)


@pytest.mark.parametrize(
    "variant", ["M07-no-generation-check", "M28-loads-one-buffer", "M42-heartbeats-unheard"]
)
def test_the_oracle_finds_what_a_variant_does_wrong(variant: str) -> None:
    class Broken(Coordinator):
        decisions = compose([variant]).group

    twins = settings(
        max_examples=300,
        stateful_step_count=40,
        deadline=None,
        database=None,
        derandomize=True,
        report_multiple_bugs=False,
        phases=(Phase.generate,),
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(Broken, settings=twins)
