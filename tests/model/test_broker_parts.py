"""The parts of a broker alone: each gets the state it needs, and a test sees what it causes."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from kafkasim.model.broker.common.controller_link import RaftControllerNodes
from kafkasim.model.broker.common.coordinators.registry import group_metadata_topic
from kafkasim.model.broker.common.forwarding import AutoTopicCreation, ProducerIds
from kafkasim.model.broker.common.socket_server import SocketServer
from kafkasim.model.broker.incarnation import Incarnation
from kafkasim.model.broker.kraft.assignments import AssignmentsManager
from kafkasim.model.broker.kraft.lifecycle import BrokerLifecycle, LifecycleState
from kafkasim.model.broker.kraft.loader import MetadataLoader
from kafkasim.model.broker.kraft.rules import LifecycleRules
from kafkasim.model.broker.zk.metadata_cache import ZkMetadataCache
from kafkasim.model.channel import Failed
from kafkasim.model.config import BrokerConfig
from kafkasim.model.controller.common.image import PartitionRegistration, TopicImage
from kafkasim.model.controller.common.records import NoOpRecord
from kafkasim.model.effects import Post, Process, Request, Then
from kafkasim.model.errors import Errors
from kafkasim.model.facts import BrokerState, CreationRefused
from kafkasim.model.messages import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    CreateTopicsResponse,
    MetadataRequest,
    UpdateMetadataBroker,
    UpdateMetadataRequest,
)
from kafkasim.model.records import Record, assigned, batch_of
from kafkasim.model.storage.files import MemoryFiles
from kafkasim.scenarios.variants.releases import Lifecycle39, Lifecycle41

CONFIG = BrokerConfig()


class Link:
    """A link to the controller whose requests the test answers."""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, Any]] = []

    def send(self, message: Any, now: int, done: Any) -> None:
        self.sent.append((message, done))

    def take(self, kind: type) -> tuple[Any, Any]:
        message, done = self.sent.pop(0)
        assert type(message) is kind, message
        return message, done


def incarnation() -> Incarnation:
    return Incarnation(1, "broker-1", None)


def process() -> Process:
    return Process("broker-1", MemoryFiles(), random.Random(1), 0)


def run_posts(out: list[Any], now: int) -> list[Any]:
    """Run what was posted to other lanes; return the other effects."""
    rest = []
    while out:
        effect = out.pop(0)
        if type(effect) is Post:
            effect.handler(effect.message, now)
        elif type(effect) is Then:
            effect.handler(now)
        else:
            rest.append(effect)
    return rest


def test_requests_wait_for_the_start_and_are_dropped_at_the_end() -> None:
    out: list[Any] = []
    served: list[Any] = []
    broker = incarnation()
    apis: Any = SimpleNamespace(handle=lambda item, now: served.append((item, now)))
    server = SocketServer(out, broker, apis, lambda _message: "requests")
    early, later, late = (Request(n, 1, MetadataRequest(None), 0) for n in (1, 2, 3))
    server.on_request(early, 5)
    assert (out, served) == ([], [])
    server.enable_request_processing()
    assert [(post.lane, post.message) for post in out] == [("requests", early)]
    run_posts(out, 6)
    server.on_request(later, 7)
    broker.stopping = True
    server.on_request(late, 8)
    assert served == [(early, 6), (later, 7)]


def test_producer_ids_come_from_blocks_and_the_next_is_prefetched() -> None:
    link = Link()
    ids = ProducerIds(incarnation(), link)
    assert ids.generate(0) is None
    assert ids.generate(0) is None  # one request is in flight
    _, done = link.take(AllocateProducerIdsRequest)
    done(AllocateProducerIdsResponse(Errors.NONE, 1000, 10), 1)
    assert [ids.generate(2) for _ in range(9)] == list(range(1000, 1009))
    assert link.sent == []
    assert ids.generate(2) == 1009  # the first one above 90 % asks for the next block
    _, done = link.take(AllocateProducerIdsRequest)
    done(AllocateProducerIdsResponse(Errors.NONE, 3000, 10), 3)
    assert ids.generate(4) == 3000
    assert link.sent == []


def test_the_next_block_is_asked_for_again_at_its_first_use_and_after_an_error_later() -> None:
    """RPCProducerIdManager.maybeRequestNextBlock: an error is followed by a backoff of 50 ms."""
    link = Link()
    ids = ProducerIds(incarnation(), link)
    answers = [
        (Failed("timeout"), 1, 1),
        (AllocateProducerIdsResponse(Errors.STALE_BROKER_EPOCH, -1, 0), 2, 50_002),
        (AllocateProducerIdsResponse(Errors.NONE, 0, 1000), 50_003, 50_003),
    ]
    for answer, answered_us, next_us in answers:
        assert ids.generate(answered_us) is None
        _, done = link.take(AllocateProducerIdsRequest)
        done(answer, answered_us)
        if next_us > answered_us:
            assert ids.generate(next_us - 1) is None
            assert link.sent == []
    assert ids.generate(50_004) == 0


def test_no_topic_is_created_whose_name_is_not_legal() -> None:
    link = Link()
    AutoTopicCreation(CONFIG, link, {}, []).create("not legal", 0)
    assert link.sent == []


def test_a_topic_is_created_by_one_request_at_a_time() -> None:
    link = Link()
    out: list[Any] = []
    topics = AutoTopicCreation(
        CONFIG, link, {"__consumer_offsets": group_metadata_topic(CONFIG, False)}, out
    )
    topics.create("a", 0)
    topics.create("a", 0)
    topics.create("__consumer_offsets", 0)
    wanted = [message.topics[0] for message, _ in link.sent]
    assert [(topic.topic, topic.num_partitions) for topic in wanted] == [
        ("a", CONFIG.num_partitions),
        ("__consumer_offsets", CONFIG.offsets_topic_num_partitions),
    ]
    refused = CreateTopicsResponse((("a", Errors.INVALID_REPLICATION_FACTOR, "one broker"),))
    for at in (0, 2):  # its requests; the error is told once
        link.sent[at][1](refused, 1)
        topics.create("a", 2)
    assert len(link.sent) == 4
    assert out == [CreationRefused("a", "INVALID_REPLICATION_FACTOR", "one broker")]


def test_who_the_controller_is_in_both_modes() -> None:
    voters = {3000: "controller-1"}
    nodes = RaftControllerNodes(SimpleNamespace(leader_id=3000), voters)
    assert (nodes.active(), nodes.address(3000), nodes.address(3001)) == (
        3000,
        "controller-1",
        None,
    )
    voters[3001] = "controller-2"  # the metadata log has another voter (KIP-853)
    assert nodes.address(3001) == "controller-2"
    cache = ZkMetadataCache()
    assert (cache.active(), cache.address(2)) == (-1, None)
    alive = UpdateMetadataBroker(2, "broker-2", None)
    assert cache.update(UpdateMetadataRequest(2, 1, 7, (), (alive,))) == []
    assert (cache.active(), cache.address(2)) == (2, "broker-2")


class Publisher:
    """Notes what is published."""

    def __init__(self) -> None:
        self.published: list[tuple[bool, int]] = []
        self.deltas: list[Any] = []

    def take_roles(self, delta: Any, first: bool, now: int) -> None:
        self.deltas.append(delta)

    def publish(self, delta: Any, first: bool, now: int) -> None:
        self.published.append((first, now))


def test_the_first_publication_waits_for_the_controllers_word_and_for_the_known_end() -> None:
    out: list[Any] = []
    loader, publisher = MetadataLoader(out, incarnation(), CONFIG, 0), Publisher()
    loader.install(publisher, None)
    first, second = (assigned(batch_of((Record(None, NoOpRecord(), 10, 0),)), n, 1) for n in (0, 1))
    loader.on_commit((first,), 2, 1)
    run_posts(out, 1)
    assert (loader.offset, publisher.published) == (-1, [])  # the high watermark is 2
    loader.on_commit((second,), 2, 2)
    run_posts(out, 2)
    assert (loader.offset, publisher.published) == (1, [])  # the controller has not said a word
    loader.caught_up()
    run_posts(out, 3)
    assert (loader.published, publisher.published) == (True, [(True, 3)])


def test_the_rest_of_a_delta_is_published_when_the_roles_have_taken_effect() -> None:
    """The thread fsyncs the leader epochs in ReplicaManager.applyDelta, and goes on then."""
    out: list[Any] = []
    loader, publisher = MetadataLoader(out, incarnation(), CONFIG, 0), Publisher()
    loader.install(publisher, None)
    loader.on_commit((assigned(batch_of((Record(None, NoOpRecord(), 10, 0),)), 0, 1),), 1, 1)
    run_posts(out, 1)
    loader.caught_up()
    post = out.pop()
    post.handler(post.message, 2)
    assert (len(publisher.deltas), publisher.published) == (1, [])
    run_posts(out, 3)
    assert (len(publisher.deltas), publisher.published) == (1, [(True, 3)])


class Progress:
    """How far a broker has come in the metadata log."""

    def __init__(self) -> None:
        self.offset = -1
        self.told = False

    def caught_up(self) -> None:
        self.told = True


class Registered:
    """A lifecycle that has registered under broker epoch 9."""

    def __init__(self) -> None:
        self.process = process()
        self.link = Link()
        self.broker = incarnation()
        self.progress = Progress()
        self.stopped: list[int] = []
        self.lifecycle = BrokerLifecycle(
            self.process, self.broker, CONFIG, self.link, self.progress, self.stopped.append,
            "incarnation-1", -1, (), (), LifecycleRules(),
        )  # fmt: skip
        self.lifecycle.start(0)
        _, done = self.link.take(BrokerRegistrationRequest)
        done(BrokerRegistrationResponse(Errors.NONE, 9), 1)

    def heartbeat(self, now: int, **response: bool) -> Any:
        """Send what is due and answer it; return the request."""
        timers = self.process.timers
        while (due := timers.pop_due(now)) is not None:
            timers.fire(due[0], due[1], now)
        request, done = self.link.take(BrokerHeartbeatRequest)
        fields = {"is_caught_up": True, "is_fenced": False, "should_shut_down": False, **response}
        done(BrokerHeartbeatResponse(Errors.NONE, **fields), now)
        return request


def test_a_failed_heartbeat_is_repeated_after_a_backoff_of_at_most_half_a_session() -> None:
    rules = LifecycleRules()
    waits = [rules.retry_delay_us(n, 0.5, 9_000_000, 2_000_000) for n in (0, 1, 5, 6, 60)]
    assert waits == [100_000, 200_000, 3_200_000, 4_500_000, 4_500_000]
    assert Lifecycle39().retry_delay_us(60, 0.5, 9_000_000, 2_000_000) == 9_000_000
    assert Lifecycle41().retry_delay_us(6, 0.5, 9_000_000, 2_000_000) == 2_000_000


def test_a_heartbeat_waits_for_its_answer_half_a_session_or_since_4_1_one_interval() -> None:
    timeouts = [rules.request_timeout_ms(9000, 2000) for rules in (LifecycleRules(), Lifecycle41())]
    assert timeouts == [4500, 2000]


def test_the_lifecycle_takes_its_states_in_order() -> None:
    broker = Registered()
    assert broker.broker.epoch == 9
    broker.heartbeat(1, is_caught_up=False, is_fenced=True)
    assert not broker.progress.told
    broker.heartbeat(20_000, is_fenced=True)
    assert (broker.lifecycle.state, broker.progress.told) == (LifecycleState.RECOVERY, True)
    broker.heartbeat(40_000)
    assert broker.lifecycle.state is LifecycleState.RUNNING
    broker.lifecycle.begin_controlled_shutdown(50_000)
    assert broker.heartbeat(50_000).want_shut_down
    assert broker.stopped == []
    broker.heartbeat(100_000, should_shut_down=True)
    assert broker.stopped == [100_000]
    states = [fact.state for fact in broker.process.out if type(fact) is BrokerState]
    assert states == [
        "STARTING", "FENCED", "RECOVERY", "UNFENCED", "RUNNING", "PENDING_CONTROLLED_SHUTDOWN",
        "SHUTTING_DOWN",
    ]  # fmt: skip


def test_a_broker_stops_if_no_heartbeat_could_tell_of_a_failed_directory() -> None:
    told, untold = Registered(), Registered()
    for broker in (told, untold):
        broker.heartbeat(1)
        broker.lifecycle.propagate_directory_failure("dir-2")
        run_posts(broker.process.out, 10)
    assert told.heartbeat(10).offline_log_dirs == ("dir-2",)
    deadline = 10 + CONFIG.log_dir_failure_timeout_ms * 1000
    for broker in (told, untold):
        timers = broker.process.timers
        while (due := timers.pop_due(deadline)) is not None:
            timers.fire(due[0], due[1], deadline)
    assert (told.stopped, untold.stopped) == ([], [deadline])


class Assigning:
    """The assignments of broker 1, which replicates partition 0 of topic T and not partition 1."""

    def __init__(self) -> None:
        alive, broker = process(), incarnation()
        broker.epoch = 9
        image = MetadataLoader(alive.out, broker, CONFIG, 0).image
        mine = PartitionRegistration((1, 2), (1, 2), (), (), 1, 0, 0, 0, (), ())
        others = PartitionRegistration((2, 3), (2, 3), (), (), 2, 0, 0, 0, (), ())
        topic = image.topics["T"] = TopicImage("orders", "T")
        topic.partitions.update({0: mine, 1: others})
        self.link, self.timers = Link(), alive.timers
        self.manager = AssignmentsManager(alive.timers, broker, image, self.link)

    def take(self, now: int) -> tuple[Any, Any]:
        """Let the time be ``now``; return the request that was sent and its callback."""
        self.fire(now)
        return self.link.take(AssignReplicasToDirsRequest)

    def fire(self, now: int) -> None:
        while (due := self.timers.pop_due(now)) is not None:
            self.timers.fire(due[0], due[1], now)


def accepted(directory: str) -> AssignReplicasToDirsResponse:
    return AssignReplicasToDirsResponse(Errors.NONE, ((directory, "T", 0, Errors.NONE),))


def test_an_assignment_is_sent_until_it_is_accepted_and_dropped_with_the_replica() -> None:
    assigning = Assigning()
    assigning.manager.assign("T", 0, "dir-1", 0)
    assigning.manager.assign("T", 1, "dir-1", 0)
    request, done = assigning.take(100_000)
    assert request == AssignReplicasToDirsRequest(1, 9, (("dir-1", "T", 0),))
    done(Failed("timeout"), 200_000)
    _, done = assigning.take(400_000)
    done(accepted("dir-1"), 500_000)
    assigning.fire(20_000_000)
    assert (assigning.link.sent, assigning.manager.ready) == ([], {})


def test_the_last_assignment_counts_whatever_is_in_flight() -> None:
    """AssignmentsManager.onAssignment does not look at what is in flight."""
    assigning = Assigning()
    assigning.manager.assign("T", 0, "dir-1", 0)
    _, done = assigning.take(100_000)
    assigning.manager.assign("T", 0, "dir-2", 110_000)
    assigning.manager.assign("T", 0, "dir-1", 120_000)
    done(accepted("dir-1"), 130_000)
    request, _ = assigning.take(300_000)
    assert request == AssignReplicasToDirsRequest(1, 9, (("dir-1", "T", 0),))
