"""Three controllers over the real Raft client: one metadata, whoever leads."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from kafkasim.model.controller.kraft.controller import Controller
from kafkasim.model.controller.kraft.rules import ControllerRules
from kafkasim.model.effects import Request, Respond
from kafkasim.model.errors import Errors
from kafkasim.model.facts import ControllerActive, MetadataCommitted, PartitionChanged
from kafkasim.model.messages import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    CreatableTopic,
    CreateTopicsRequest,
)
from kafkasim.model.raft.rules import RaftRules
from kafkasim.model.storage.rules import StorageRules
from tests.model.raft_cluster import World

CLIENT = 0  # a connection that no link knows: answers to it are kept
SECOND = 1_000_000


class ControllerWorld(World):
    """The Raft tests' world with controllers as its nodes."""

    def __init__(self, voters: int = 3, seed: int = 0) -> None:
        self.facts: list[tuple[int, Any]] = []
        self.answers: dict[int, Any] = {}
        self.asked = 0
        super().__init__(voters=voters, seed=seed)

    def start(self, i: int) -> None:
        self.incarnations[i] += 1
        rules = SimpleNamespace(
            raft=RaftRules(), storage=StorageRules(), controller=ControllerRules()
        )
        rng = random.Random(f"{self.seed}/{i}/{self.incarnations[i]}")
        node = Controller(
            f"node-{i}", i, self.voters, self.config, rules, self.disks[i], rng, self.now
        )
        self.nodes[i] = node
        node.start(self.now)
        self.drain(i)

    def perform(self, i: int, effect: Any) -> None:
        if isinstance(effect, ControllerActive | MetadataCommitted | PartitionChanged):
            self.facts.append((i, effect))
        elif isinstance(effect, Respond) and effect.connection == CLIENT:
            self.answers[effect.correlation] = effect.message
        else:
            super().perform(i, effect)

    def active(self) -> int | None:
        nodes = self.nodes
        active = [i for i in self.ids if nodes[i] is not None and nodes[i].active]
        return max(active, key=lambda i: nodes[i].active.epoch, default=None)

    def ask(self, message: Any) -> Any:
        """Ask the active controller, again and again, until it has written the answer."""
        for _ in range(20):
            self.run_until(lambda: self.active() is not None)
            self.asked += 1
            asked, i = self.asked, self.active()
            self.deliver(i, Request(CLIENT, asked, message, self.now))
            self.run_until(lambda asked=asked, i=i: asked in self.answers or self.active() != i)
            answer = self.answers.get(asked)
            if answer is not None and getattr(answer, "error", 0) != Errors.NOT_CONTROLLER:
                return answer
        raise AssertionError(f"no answer to {message}")

    def up(self, broker_id: int) -> int:
        epoch = self.ask(
            BrokerRegistrationRequest(broker_id, f"i{broker_id}", f"broker-{broker_id}", None)
        ).broker_epoch
        self.heartbeat(broker_id, epoch)
        return int(epoch)

    def heartbeat(self, broker_id: int, epoch: int) -> Any:
        return self.ask(BrokerHeartbeatRequest(broker_id, epoch, 1 << 40, False, False))


def agree(world: ControllerWorld) -> None:
    """META: equal offsets, equal digests; and equal images where they have caught up."""
    digests: dict[int, tuple[int, int]] = {}
    for _, fact in world.facts:
        if type(fact) is MetadataCommitted:
            known = digests.setdefault(fact.offset, (fact.epoch, fact.digest))
            assert known == (fact.epoch, fact.digest), fact
    images = [node.committed.image for node in world.nodes.values() if node is not None]
    ends = dict.fromkeys(image.offset for image in images)
    for end in ends:
        contents = [image.contents() for image in images if image.offset == end]
        assert all(each == contents[0] for each in contents)


def test_a_new_controller_takes_over_all_metadata() -> None:
    world = ControllerWorld()
    epochs = {broker_id: world.up(broker_id) for broker_id in (1, 2, 3)}
    world.ask(CreateTopicsRequest((CreatableTopic("t", -1, -1, ((1, 2, 3),)),), 1000))
    first = world.active()
    assert first is not None
    world.crash(first)
    world.run_until(lambda: world.active() not in (None, first))
    for _ in range(8):  # brokers 2 and 3 keep their sessions, broker 1 is dead
        for broker_id in (2, 3):
            answer = world.heartbeat(broker_id, epochs[broker_id])
            assert (answer.error, answer.is_fenced) == (Errors.NONE, False)
        world.run(2 * SECOND)
    world.start(first)
    world.run(3 * SECOND)
    agree(world)
    image = world.nodes[first].committed.image
    topic = image.topic_by_name("t")
    state = topic.partitions[0]
    assert (state.leader, state.leader_epoch, state.partition_epoch, state.isr) == (2, 1, 1, (2, 3))
    # A new leader repeats what its predecessor committed and could not tell: offsets count once.
    changes = {f.offset: f for _, f in world.facts if type(f) is PartitionChanged}.values()
    assert [(f.reason, f.partition_epoch) for f in changes] == [("created", 0), ("fenced", 1)]


def test_failovers_in_the_middle_of_requests_lose_no_acknowledged_metadata() -> None:
    for seed in range(6):
        world = ControllerWorld(seed=seed)
        world.up(1)
        acknowledged = []
        rng = random.Random(seed)
        for number in range(6):
            topic = CreatableTopic(f"t{number}", 1, 1)
            active = world.active()
            if rng.random() < 0.5 and active is not None:
                world.deliver(active, Request(CLIENT, -number - 1, topic_request(topic), world.now))
                world.run(rng.randrange(40_000))
                world.crash(active)
                world.run(rng.randrange(100_000))
                world.start(active)
            answer = world.ask(topic_request(topic))
            assert answer.results[0][1] in (Errors.NONE, Errors.TOPIC_ALREADY_EXISTS), answer
            acknowledged.append(topic.topic)
        world.run(5 * SECOND)
        agree(world)
        for node in world.nodes.values():
            assert list(node.committed.image.topic_names) == acknowledged


def topic_request(topic: CreatableTopic) -> CreateTopicsRequest:
    return CreateTopicsRequest((topic,), 1000)


def test_an_isolated_active_controller_renounces() -> None:
    world = ControllerWorld()
    world.run_until(lambda: world.active() is not None)
    first = world.active()
    world.isolate(first)
    world.run_until(lambda: world.active() not in (None, first))
    world.run(10 * SECOND)
    assert not world.nodes[first].active
    world.heal()
    world.run(5 * SECOND)
    agree(world)


def test_a_quorum_of_one_serves_and_stops_cleanly() -> None:
    world = ControllerWorld(voters=1)
    assert world.up(7) > 0
    world.nodes[1].shutdown(world.now)
    world.drain(1)
    world.run(6 * SECOND)
    assert world.halts == ["shutdown"]
