"""Admin: what is asked again, what is the answer, and to which node a request goes."""

from __future__ import annotations

from collections.abc import Callable

from kafkasim.model.config import ClientConfig
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.messages import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    AddRaftVoterRequest,
    AlterableConfig,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    RaftVoterResponse,
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


def test_what_the_quota_refuses_is_asked_for_again_after_the_throttle_time() -> None:
    """The other topics keep their results (KafkaAdminClient.getCreateTopicsCall, KIP-599)."""
    cluster = Cluster()
    refused, asked = (Errors.THROTTLING_QUOTA_EXCEEDED, "exceeded"), []
    answers = [
        CreateTopicsResponse((("a", NONE, ""), ("b", *refused)), 700),
        CreateTopicsResponse((("b", *refused),), 300),
        CreateTopicsResponse((("b", Errors.TOPIC_ALREADY_EXISTS, ""),)),
    ]

    def answer(_node: str, request: CreateTopicsRequest) -> CreateTopicsResponse:
        asked.append((h.now // 100_000, [topic.topic for topic in request.topics]))
        return answers.pop(0)

    cluster.handlers[CreateTopicsRequest] = answer
    h = Harness(ClientConfig(), cluster)
    topics = tuple([CreatableTopic(name, 1, 1) for name in "ab"])
    began = h.now // 100_000
    result = h.result("create_topics", topics)
    assert result == (("a", NONE, ""), ("b", Errors.TOPIC_ALREADY_EXISTS, ""))
    assert asked == [(began, ["a", "b"]), (began + 7, ["b"]), (began + 10, ["b"])]


def test_a_call_that_runs_out_of_time_says_what_the_quota_refused() -> None:
    cluster = Cluster()
    row = ("b", "", Errors.THROTTLING_QUOTA_EXCEEDED, "exceeded")
    cluster.handlers[DeleteTopicsRequest] = lambda _node, request: DeleteTopicsResponse(
        NONE, (*[("a", "", NONE, "")] * (len(request.topics) - 1), row), 40_000
    )
    h = Harness(ClientConfig(), cluster)
    answer = h.result("delete_topics", (("a", ""), ("b", "")))
    assert answer.results == (("a", "", NONE, ""), row)


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


def test_every_error_of_a_change_of_voters_is_its_result() -> None:
    """KafkaAdminClient.addRaftVoter, removeRaftVoter."""
    cluster = Cluster()
    late = RaftVoterResponse(Errors.REQUEST_TIMED_OUT)
    cluster.handlers[AddRaftVoterRequest] = lambda _node, _m: late
    assert Harness(ClientConfig(), cluster).result("add_raft_voter", 4, "d", "node-4") == late
    assert len(cluster.requests(AddRaftVoterRequest)) == 1


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


def test_a_reset_by_time_falls_back_to_the_end_where_nothing_is_as_new() -> None:
    """ConsumerGroupCommand.getLogTimestampOffsets."""
    cluster = _offsets_cluster(NONE)

    def listed(_node: str, request: ListOffsetsRequest) -> ListOffsetsResponse:
        answers = [
            ListOffsetsPartitionResponse(
                p.tp,
                NONE,
                -1,
                {(1234, 0): 3, (1234, 1): -1, (LATEST_TIMESTAMP, 1): 9}[
                    p.timestamp, p.tp.partition
                ],
                0,
            )
            for p in request.partitions
        ]
        return ListOffsetsResponse(tuple(answers))

    cluster.handlers[ListOffsetsRequest] = listed
    h = Harness(ClientConfig(), cluster)
    result = h.result("reset_offsets", "g", ("t",), LATEST_TIMESTAMP, 1234)
    assert [(tp.partition, offset, error) for tp, offset, error in result] == [
        (0, 3, NONE), (1, 9, NONE),
    ]  # fmt: skip


def test_a_group_with_members_refuses_a_reset() -> None:
    cluster = _offsets_cluster(Errors.UNKNOWN_MEMBER_ID)
    h = Harness(ClientConfig(), cluster)
    result = h.result("reset_offsets", "g", ("t",), 3)
    assert [(offset, error) for _, offset, error in result] == [(3, Errors.UNKNOWN_MEMBER_ID)] * 2
    assert cluster.requests(ListOffsetsRequest) == []


def test_a_call_without_any_broker_times_out() -> None:
    cluster = Cluster()
    cluster.down = dict.fromkeys(cluster.brokers)
    errors = {}
    for method, args in {
        "describe": (("t",),),
        "reset_offsets": ("g", ("t",), 3),
        "delete_records": (((("t", 0), 5),),),
    }.items():
        h = Harness(ClientConfig(), cluster)
        began = h.now
        errors[method] = str(h.result(method, *args))
        assert 55_000_000 < h.now - began <= 60_000_000
    assert errors == {
        "describe": "TIMED_OUT: MetadataRequest",
        "reset_offsets": "TIMED_OUT: reset offsets of g",
        "delete_records": "TIMED_OUT: delete records",
    }


def test_a_topic_that_cannot_be_created_yet_is_asked_for_again() -> None:
    cluster = Cluster()
    answers = [
        CreateTopicsResponse((("n", Errors.REQUEST_TIMED_OUT, ""),)),
        CreateTopicsResponse((("n", Errors.INVALID_PARTITIONS, "0"),)),
    ]
    cluster.handlers[CreateTopicsRequest] = lambda _node, _m: answers.pop(0)
    h = Harness(ClientConfig(), cluster)
    assert h.result("create_topics", (CreatableTopic("n", 0, 1),)) == (
        ("n", Errors.INVALID_PARTITIONS, "0"),
    )


def test_a_leader_that_refuses_or_breaks_is_asked_for_offsets_again() -> None:
    cluster = _offsets_cluster(NONE)
    listed = cluster.handlers[ListOffsetsRequest]
    cluster.handlers[FindCoordinatorRequest] = lambda _n, _m: FindCoordinatorResponse(
        NONE, 1, "broker-1"
    )
    tp = TopicPartition("t", 0)
    refused = (ListOffsetsPartitionResponse(tp, Errors.NOT_LEADER_OR_FOLLOWER, -1, -1, -1),)
    script: list[Callable[[], ListOffsetsResponse | None]] = [
        lambda: h.reset("broker-0"),
        lambda: ListOffsetsResponse(refused),
    ]
    cluster.handlers[ListOffsetsRequest] = lambda n, m: script.pop()() if script else listed(n, m)
    cluster.leaders[tp] = (-1, 0)
    h = Harness(ClientConfig(), cluster)
    call = h.call("reset_offsets", "g", ("t",), EARLIEST_TIMESTAMP)
    h.run(1000)
    assert cluster.requests(ListOffsetsRequest) == []
    cluster.leaders[tp] = (0, 1)
    h.run(10_000)
    assert h.replies[call] == ((tp, 5, NONE), (TopicPartition("t", 1), 5, NONE))


def test_records_are_deleted_at_the_leaders_and_again_where_that_was_refused() -> None:
    cluster = Cluster(partitions=2)
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    refusals = [Errors.NOT_LEADER_OR_FOLLOWER]

    def delete(node: str, m: DeleteRecordsRequest) -> DeleteRecordsResponse | None:
        if node == "broker-0" and refusals:
            refused = DeleteRecordsPartitionResult(first, refusals.pop(), -1)
            return DeleteRecordsResponse((refused,))
        results = [DeleteRecordsPartitionResult(tp, NONE, offset) for tp, offset in m.partitions]
        return DeleteRecordsResponse(tuple(results))

    cluster.handlers[DeleteRecordsRequest] = delete
    h = Harness(ClientConfig(), cluster)
    result = h.result("delete_records", ((first, 3), (second, 4)))
    assert result == ((first, 3, NONE), (second, 4, NONE))
    assert len(cluster.requests(DeleteRecordsRequest)) == 3


def test_a_closed_admin_has_no_connection() -> None:
    h = Harness(ClientConfig(), Cluster())
    h.result("describe", ("t",))
    assert h.result("close") is None
    assert h.process.channels == {}


def test_a_close_waits_for_the_call_under_way_and_refuses_new_ones() -> None:
    """KafkaAdminClient.AdminClientRunnable.threadShouldExit and .call."""
    cluster = Cluster()
    answers = [Errors.LEADER_NOT_AVAILABLE, NONE]
    cluster.handlers[DeleteTopicsRequest] = lambda _n, m: DeleteTopicsResponse(
        answers.pop(0), tuple((*t, NONE, "") for t in m.topics)
    )
    h = Harness(ClientConfig(), cluster)
    under_way = h.call("delete_topics", (("t", ""),))
    closed = h.call("close")
    assert h.result("delete_topics", (("t", ""),)).error == "CLOSED"
    assert (under_way in h.replies, closed in h.replies) == (False, False)
    h.run(1000)
    assert h.replies[under_way].error is NONE
    assert h.replies[closed] is None
    assert (answers, h.process.channels) == ([], {})


def test_a_brokers_settings_go_to_that_broker_and_all_others_together_to_any() -> None:
    cluster = Cluster(brokers=4)
    asked: list[tuple[str, list[str]]] = []

    def alter(node: str, message: IncrementalAlterConfigsRequest) -> object:
        names = [each.resource_name for each in message.resources]
        asked.append((node, names))
        answered = tuple([(each.resource_type, each.resource_name) for each in message.resources])
        if len(asked) == 2:
            return IncrementalAlterConfigsResponse(Errors.NOT_CONTROLLER, ())
        return IncrementalAlterConfigsResponse(NONE, tuple([(*at, NONE, "") for at in answered]))

    cluster.handlers[IncrementalAlterConfigsRequest] = alter
    h = Harness(ClientConfig(), cluster)
    change = (("min.insync.replicas", "1"),)
    wanted = (("broker", "2"), ("topic", "t"), ("broker", ""), ("broker", "3"))
    resources = tuple([AlterableConfig(kind, name, change) for kind, name in wanted])
    answer = h.result("incremental_alter_configs", resources)
    assert asked[0][1] == ["t", ""]
    assert asked[1:] == [("broker-2", ["2"]), ("broker-2", ["2"]), ("broker-3", ["3"])]
    assert [row[1] for row in answer.results] == ["t", "", "2", "3"]


def test_the_settings_of_a_broker_that_nobody_knows_wait_until_the_deadline() -> None:
    h = Harness(ClientConfig(), Cluster())
    resource = AlterableConfig("broker", "9", (("min.insync.replicas", "1"),))
    began = h.now
    error = h.result("incremental_alter_configs", (resource,))
    assert str(error) == "TIMED_OUT: incremental alter configs"
    assert 55_000_000 < h.now - began <= 60_000_000
