"""Share groups between real brokers: both coordinators, the persister, failover (KIP-932)."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model.broker import BrokerRules
from kafkasim.model.controller.common.records import METADATA_VERSION
from kafkasim.model.controller.kraft.feature_levels import SUPPORTED
from kafkasim.model.errors import Errors
from kafkasim.model.facts import ShareGroupAssigned
from kafkasim.model.messages import (
    AlterableConfig,
    DeleteTopicsRequest,
    FindCoordinatorRequest,
    IncrementalAlterConfigsRequest,
    UpdateFeaturesRequest,
)
from kafkasim.model.messages.clients.admin import GROUP as GROUP_RESOURCE
from kafkasim.model.messages.share import (
    AcknowledgementBatch,
    DescribeShareGroupOffsetsGroup,
    DescribeShareGroupOffsetsRequest,
    ReadStateResult,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    ShareGroupOffset,
    SharePartitionRequest,
    SharePartitionResponse,
    StateBatch,
    StatePartitionResult,
)
from kafkasim.scenarios.variants.releases import Controller41, Group41
from tests.model.broker_cluster import Cluster
from tests.model.cluster_verbs import SECOND, TP

NONE = Errors.NONE
GROUP = "workers"
FEW = {"offsets_topic_num_partitions": 2, "share_coordinator_state_topic_num_partitions": 3}


class ShareCluster(Cluster):
    """Kafka 4.1 with share.version 1."""

    def __init__(self) -> None:
        rules = BrokerRules(group=Group41(), features=SUPPORTED["4.1"])
        super().__init__(rules, controller=Controller41(), **FEW)
        self.create()
        self.step(SECOND)
        self.topic_id = self.processes["broker-1"].loader.image.topic_names[TP.topic]

    def ask_group(self, request: Any) -> Any:
        """Ask the group's coordinator until it serves the request."""
        for _ in range(30):
            found = self.ask("broker-1", FindCoordinatorRequest(GROUP, 0))
            if found is not None and found.error is NONE and found.address in self.processes:
                answer = self.ask(found.address, request, 5 * SECOND)
                error = getattr(answer, "error", NONE)
                if answer is not None and error not in (
                    Errors.NOT_COORDINATOR, Errors.COORDINATOR_LOAD_IN_PROGRESS,
                ):  # fmt: skip
                    return answer
            self.step(SECOND)
        raise AssertionError(request)

    def beat(
        self, epoch: int, topics: tuple[str, ...] | None = None, member: str = "m1"
    ) -> ShareGroupHeartbeatResponse:
        answer = self.ask_group(ShareGroupHeartbeatRequest(GROUP, member, epoch, None, topics))
        assert isinstance(answer, ShareGroupHeartbeatResponse)
        return answer

    def join(self) -> ShareGroupHeartbeatResponse:
        """Join, and heartbeat until the share partition is assigned."""
        answer = self.beat(0, (TP.topic,))
        assert answer == ShareGroupHeartbeatResponse(NONE, "m1", 1, 5000, ())
        for _ in range(10):
            self.step(5 * SECOND)
            answer = self.beat(answer.member_epoch)
            if answer.assignment:
                return answer
        raise AssertionError(answer)


@pytest.fixture
def cluster() -> ShareCluster:
    made = ShareCluster()
    levels = UpdateFeaturesRequest((("share.version", 1),))
    assert made.operate(levels).error is NONE
    made.step(SECOND)
    return made


def test_share_groups_are_off_unless_an_operator_turns_them_on() -> None:
    made = ShareCluster()
    assert made.beat(0, (TP.topic,)).error is Errors.UNSUPPORTED_VERSION
    assert made.processes["broker-1"].loader.image.features[METADATA_VERSION] == 27


def test_another_release_knows_no_share_coordinator() -> None:
    old = Cluster(**FEW)
    request = FindCoordinatorRequest("g:t:0", 2)
    assert old.ask("broker-1", request).error is Errors.INVALID_REQUEST


def test_a_key_of_another_form_is_refused(cluster: ShareCluster) -> None:
    request = FindCoordinatorRequest("g", 2)
    assert cluster.ask("broker-1", request).error is Errors.INVALID_REQUEST


def test_a_member_gets_a_share_partition_once_it_is_initialized(cluster: ShareCluster) -> None:
    answer = cluster.join()
    assert answer.assignment == ((cluster.topic_id, (0,)),)
    assert answer.member_epoch == 2
    told = cluster.seen(ShareGroupAssigned)
    assert told[-1] == ShareGroupAssigned(GROUP, 2, "m1", ("orders-0",))
    group = cluster.ask_group(ShareGroupDescribeRequest((GROUP,))).groups[0]
    assert (group.group_state, group.group_epoch, group.assignor_name) == ("Stable", 2, "simple")
    everything = DescribeShareGroupOffsetsRequest((DescribeShareGroupOffsetsGroup(GROUP, None),))
    offsets = cluster.ask_group(everything).groups[0]
    assert offsets.topics == ((TP.topic, cluster.topic_id, (ShareGroupOffset(0, -1, 0),)),)


def test_a_leader_writes_and_reads_its_share_partition(cluster: ShareCluster) -> None:
    cluster.join()
    results: list[Any] = []
    batches = (StateBatch(3, 4, 2, 1),)

    def take(result: Any, _now: int) -> None:
        results.append(result)

    for name in ("broker-1", "broker-2"):
        persister = cluster.processes[name].kafka.persister
        persister.write_state(GROUP, cluster.topic_id, 0, 1, 0, 3, batches, take)
        persister.read_state(GROUP, cluster.topic_id, 0, 0, take)
        cluster.step(2 * SECOND)
    read = ReadStateResult(0, NONE, "", 1, 3, batches)
    assert results == [StatePartitionResult(0), read, StatePartitionResult(0), read]


def test_a_member_waits_for_the_end_of_its_fetch_to_hear_that_no_state_was_read(
    cluster: ShareCluster,
) -> None:
    """Nobody has initialized the share partition (handleInitializationException)."""
    results: list[Any] = []
    persister = cluster.processes["broker-1"].kafka.persister
    persister.read_state(GROUP, cluster.topic_id, 0, 0, lambda result, _: results.append(result))
    cluster.step(5 * SECOND)
    assert [result.error for result in results] == [Errors.INVALID_REQUEST]
    partitions = (SharePartitionRequest(TP, cluster.topic_id, ()),)
    fetch = ShareFetchRequest(GROUP, "m" * 22, 0, 500, 1, 1000, 10, 10, partitions)
    before = cluster.now
    answer = cluster.ask("broker-1", fetch, SECOND)
    refused = SharePartitionResponse(TP, cluster.topic_id, Errors.UNKNOWN_SERVER_ERROR)
    assert answer.partitions == (refused,)
    assert cluster.now - before >= SECOND // 2


def test_who_may_not_read_a_topic_may_not_acknowledge_it_either(cluster: ShareCluster) -> None:
    """Before the metadata cache is asked, and after the form of acknowledgements
    (handleAcknowledgements)."""
    refused = Errors.TOPIC_AUTHORIZATION_FAILED
    cluster.processes["broker-1"].kafka.share_apis.refuses = lambda _item: lambda _topic: refused
    topic_id, member = cluster.topic_id, "m" * 22
    partition = SharePartitionRequest(TP, topic_id, ())
    fetch = ShareFetchRequest(GROUP, member, 0, 500, 1, 1000, 10, 10, (partition,))
    answer = cluster.ask("broker-1", fetch, SECOND)
    assert answer.partitions == (SharePartitionResponse(TP, topic_id, refused),)
    for last, error in ((0, refused), (-1, Errors.INVALID_REQUEST)):
        batches = (AcknowledgementBatch(0, last, (1,)),)
        asked = (SharePartitionRequest(TP, topic_id, batches),)
        epoch = 1 if last == 0 else 2
        answer = cluster.ask("broker-1", ShareAcknowledgeRequest(GROUP, member, epoch, asked))
        assert [each.error for each in answer.partitions] == [error]


def test_the_member_id_of_a_share_session_is_a_uuid(cluster: ShareCluster) -> None:
    """Uuid.fromString throws in the handlers of KafkaApis; the group's coordinator takes any id."""
    fetch = ShareFetchRequest(GROUP, "m1", 0, 500, 1, 1000, 10, 10, ())
    acknowledge = ShareAcknowledgeRequest(GROUP, "m1", 1, ())
    for request in (fetch, acknowledge):
        assert cluster.ask("broker-1", request).error is Errors.UNKNOWN_SERVER_ERROR


def test_the_state_survives_the_death_of_its_coordinator(cluster: ShareCluster) -> None:
    cluster.join()
    results: list[Any] = []
    request = FindCoordinatorRequest(f"{GROUP}:{cluster.topic_id}:0", 2)
    first = cluster.ask("broker-1", request)
    other = next(name for name in ("broker-1", "broker-2", "broker-3") if name != first.address)
    persister = cluster.processes[other].kafka.persister

    def take(result: Any, _now: int) -> None:
        results.append(result)

    persister.write_state(GROUP, cluster.topic_id, 0, 1, 0, 7, (), take)
    cluster.step(2 * SECOND)
    cluster.crash(first.address)
    cluster.step(20 * SECOND)
    persister.read_state(GROUP, cluster.topic_id, 0, 0, take)
    cluster.step(20 * SECOND)
    assert results == [StatePartitionResult(0), ReadStateResult(0, NONE, "", 1, 7)]


def test_settings_of_a_group_are_metadata(cluster: ShareCluster) -> None:
    def alter(*changes: tuple[str, str | None], name: str = GROUP) -> Errors:
        resource = AlterableConfig(GROUP_RESOURCE, name, changes)
        answer = cluster.ask("broker-1", IncrementalAlterConfigsRequest((resource,)))
        return answer.results[0][2]

    assert alter(("share.heartbeat.interval.ms", "6000")) is NONE
    assert alter(("share.auto.offset.reset", "never")) is Errors.INVALID_CONFIG
    assert alter(("no.such.setting", "1")) is Errors.INVALID_CONFIG
    assert alter(("share.auto.offset.reset", "earliest"), name="") is Errors.INVALID_REQUEST
    cluster.step(SECOND)
    image = cluster.processes["broker-2"].loader.image
    assert image.group_configs == {GROUP: {"share.heartbeat.interval.ms": "6000"}}
    assert cluster.beat(0, (TP.topic,)).heartbeat_interval_ms == 6000
    assert alter(("share.heartbeat.interval.ms", None)) is NONE


def test_a_deleted_topic_is_forgotten_by_both_coordinators(cluster: ShareCluster) -> None:
    cluster.join()
    cluster.operate(DeleteTopicsRequest(((TP.topic, ""),)))
    cluster.step(3 * SECOND)
    brokers = [cluster.processes[f"broker-{number}"].kafka for number in (1, 2, 3)]
    assert [
        key
        for broker in brokers
        for shard in broker.share_coordinator.owned.active()
        for key in shard.states
    ] == []
    (group,) = [
        group
        for broker in brokers
        for shard in broker.coordinator.owned.active()
        for group in shard.share_groups.values()
    ]
    assert group.initialized() == {}
