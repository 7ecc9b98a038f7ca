"""Admin: create topics over a failing broker, describe until leaders are known."""

from __future__ import annotations

from kafkasim.model.config import ClientConfig
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.messages import (
    EARLIEST_TIMESTAMP,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    ReassignablePartition,
)
from kafkasim.model.records import TopicPartition
from tests.model.client_harness import Cluster, Harness


def test_create_topics_is_retried_and_existing_then_counts_as_created() -> None:
    cluster = Cluster()
    answers = [
        CreateTopicsResponse((("n", Errors.NOT_CONTROLLER, ""),)),
        CreateTopicsResponse((("n", Errors.TOPIC_ALREADY_EXISTS, ""),)),
    ]
    cluster.handlers[CreateTopicsRequest] = lambda _node, _m: answers.pop(0)
    h = Harness(ClientConfig(), cluster)
    assert h.result("create_topics", (CreatableTopic("n", 1, 1),)) == (("n", NONE, ""),)


def test_describe_waits_for_leaders() -> None:
    cluster = Cluster()
    cluster.leaders[TopicPartition("t", 0)] = (-1, 0)
    h = Harness(ClientConfig(), cluster)
    call = h.call("describe", ("t",))
    h.run(1000)
    assert call not in h.replies
    cluster.leaders[TopicPartition("t", 0)] = (1, 1)
    h.run(2000)
    assert h.replies[call].topics[0].partitions[0].leader == 1


def test_a_request_that_met_no_controller_is_retried_and_a_refusal_is_the_answer() -> None:
    cluster = Cluster()
    refused = (("t", "", Errors.UNKNOWN_TOPIC_OR_PARTITION, "gone"),)
    answers = [
        DeleteTopicsResponse(Errors.NOT_CONTROLLER, ()),
        DeleteTopicsResponse(NONE, refused),
    ]
    cluster.handlers[DeleteTopicsRequest] = lambda _node, _m: answers.pop(0)
    h = Harness(ClientConfig(), cluster)
    assert h.result("delete_topics", (("t", ""),)).results == refused


def test_reassignments_travel_as_they_are_given() -> None:
    cluster = Cluster()
    tp = TopicPartition("t", 0)
    wanted = (ReassignablePartition(tp, None),)
    answer = AlterPartitionReassignmentsResponse(NONE, ((tp, NONE, ""),))
    cluster.handlers[AlterPartitionReassignmentsRequest] = lambda _node, _m: answer
    h = Harness(ClientConfig(), cluster)
    assert h.result("alter_partition_reassignments", wanted) == answer
    assert cluster.requests(AlterPartitionReassignmentsRequest)[0].partitions == wanted


def _offsets_cluster(commit_error: Errors) -> Cluster:
    cluster = Cluster(partitions=2)

    def listed(_node: str, request: ListOffsetsRequest) -> ListOffsetsResponse:
        found = [ListOffsetsPartitionResponse(p.tp, NONE, -1, 5, 0) for p in request.partitions]
        return ListOffsetsResponse(tuple(found))

    def committed(_node: str, request: OffsetCommitRequest) -> OffsetCommitResponse:
        assert request.generation_id == -1
        assert request.member_id == ""
        return OffsetCommitResponse(tuple([(o[0], commit_error) for o in request.offsets]))

    cluster.handlers[ListOffsetsRequest] = listed
    cluster.handlers[OffsetCommitRequest] = committed
    return cluster


def test_offsets_are_reset_at_the_coordinator_to_what_the_leaders_tell() -> None:
    cluster = _offsets_cluster(NONE)
    first = [FindCoordinatorResponse(Errors.COORDINATOR_NOT_AVAILABLE, -1, "")]
    found = FindCoordinatorResponse(NONE, 1, "broker-1")
    cluster.handlers[FindCoordinatorRequest] = lambda _n, _m: first.pop() if first else found
    h = Harness(ClientConfig(), cluster)
    result = h.result("reset_offsets", "g", ("t",), EARLIEST_TIMESTAMP)
    assert result == ((TopicPartition("t", 0), 5, NONE), (TopicPartition("t", 1), 5, NONE))
    assert [node for node, m in cluster.seen if isinstance(m, OffsetCommitRequest)] == ["broker-1"]


def test_a_group_with_members_refuses_a_reset() -> None:
    cluster = _offsets_cluster(Errors.UNKNOWN_MEMBER_ID)
    h = Harness(ClientConfig(), cluster)
    result = h.result("reset_offsets", "g", ("t",), 3)
    assert [(offset, error) for _, offset, error in result] == [(3, Errors.UNKNOWN_MEMBER_ID)] * 2
    assert cluster.requests(ListOffsetsRequest) == []
