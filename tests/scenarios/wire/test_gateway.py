"""Requests of clients as bytes against the model's brokers, without sockets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kafkasim.model.errors import Errors
from kafkasim.model.facts import Acked
from kafkasim.scenarios.wire.adapters.table import ADAPTERS
from kafkasim.scenarios.wire.failures import SessionError
from kafkasim.scenarios.wire.session import Session
from kafkasim.sim.apps.loop import generator_hooks
from tests.scenarios.wire.batches import ROWS, built, read
from tests.scenarios.wire.outside import KEYS, STRICT, Connection, booted


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with generator_hooks():
        yield booted()


@pytest.fixture
def client(session: Session) -> Connection:
    return Connection(session)


def leader_of(session: Session, name: str) -> Connection:
    """Return a connection to the leader of partition 0 of a topic, which is created."""
    client = Connection(session)
    client.create(name)
    return Connection(session, client.leader(name))


def test_what_was_produced_is_fetched_byte_by_byte(session: Session) -> None:
    leader = leader_of(session, "bytes")
    data = built(ROWS)
    assert leader.produce("bytes", data)["BaseOffset"] == 0
    assert leader.produce("bytes", data)["BaseOffset"] == 4
    for version in (12, 18):
        found = leader.fetch("bytes", 4, version)
        assert found["HighWatermark"] == 8
        assert found["Records"][21:] == data[21:]
        assert [row[2:] for row in read(found["Records"])] == [(k, v, h) for k, v, h in ROWS]


def test_every_version_that_is_advertised_of_produce_and_fetch_works(session: Session) -> None:
    leader = leader_of(session, "versions")
    data = built(ROWS)
    topic_id = leader.topic_id("versions")
    for version in range(3, 14):
        who = {"TopicId": topic_id} if version >= 13 else {"Name": "versions"}
        rows = [{**who, "PartitionData": [{"Index": 0, "Records": data}]}]
        body = {"Acks": 1, "TimeoutMs": 5000, "TopicData": rows}
        (topic,) = leader.ask("Produce", body, version)["Responses"]
        assert topic["PartitionResponses"][0]["ErrorCode"] == 0
        assert topic.items() >= who.items()
    unknown = {"TopicId": "AAAAAAAAAAAAAAAAAAAAAQ", "PartitionData": rows[0]["PartitionData"]}
    body = {"Acks": 1, "TimeoutMs": 5000, "TopicData": [unknown]}
    (topic,) = leader.ask("Produce", body)["Responses"]
    assert topic["TopicId"] == unknown["TopicId"]
    assert topic["PartitionResponses"][0]["ErrorCode"] == Errors.UNKNOWN_TOPIC_ID
    for version in range(4, 19):
        assert leader.fetch("versions", 0, version)["ErrorCode"] == 0


def test_a_wrong_checksum_is_corrupt_message(session: Session) -> None:
    leader = leader_of(session, "checked")
    data = built(ROWS)
    damaged = data[:-1] + bytes([data[-1] ^ 1])
    assert leader.produce("checked", damaged)["ErrorCode"] == Errors.CORRUPT_MESSAGE
    assert leader.produce("checked", b"")["ErrorCode"] == Errors.INVALID_RECORD
    assert leader.produce("checked", data)["BaseOffset"] == 0


def test_an_acknowledgement_is_a_fact_and_a_batch_sent_again_has_the_same_ids(
    session: Session,
) -> None:
    leader = leader_of(session, "told")
    facts: list[Acked] = []

    def take(_seq: int, _t_us: int, node: str, fact: Acked) -> None:
        assert node == "outside/test"
        facts.append(fact)

    session.run.trace.subscribe(Acked, take)
    data = built(ROWS, producer_id=7_000, producer_epoch=0, base_sequence=0)
    leader.produce("told", data)
    leader.produce("told", data)
    session.run.trace.unsubscribe(Acked, take)
    first, second = facts
    assert first.record_ids == second.record_ids
    assert (first.base_offset, first.acks, first.producer_id) == (0, -1, 7_000)


def test_acks_0_has_no_response_and_the_next_request_has_its_own(session: Session) -> None:
    leader = leader_of(session, "silent")
    part = {"Index": 0, "Records": built(ROWS)}
    rows = [{"TopicId": leader.topic_id("silent"), "PartitionData": [part]}]
    leader.write("Produce", {"Acks": 0, "TimeoutMs": 5000, "TopicData": rows})
    assert leader.fetch("silent", 0)["ErrorCode"] == 0


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(client: Connection) -> None:
    client.feed(b"\0\0\0\x0b\0\x12\x7f\xff\0\0\0\x05\0\x01x")
    frame = client.frame()
    assert frame is not None
    body = STRICT.decode_response(18, 0, frame)
    assert body["ErrorCode"] == Errors.UNSUPPORTED_VERSION
    ranges = {row["ApiKey"]: (row["MinVersion"], row["MaxVersion"]) for row in body["ApiKeys"]}
    assert ranges == {key: (each.low, each.high) for key, each in ADAPTERS.items()}


def test_what_is_advertised_is_in_kafkas_table() -> None:
    for key, adapter in ADAPTERS.items():
        assert STRICT.is_valid(key, adapter.low), key
        assert STRICT.is_valid(key, adapter.high), key


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x7f\xff\xff\xff", "a frame of 2147483647 bytes"),
        (b"\xff\xff\xff\xff", "a frame of -1 bytes"),
        (b"\0\0\0\x04abcd", "a frame of 4 bytes"),
        (b"\0\0\0\x0a\0\x03\x7f\xff\0\0\0\x01\xff\xff", "api key 3 version 32767"),
        (b"\0\0\0\x0a\x03\xe7\0\0\0\0\0\x01\xff\xff", "api key 999 version 0"),
        (b"\0\0\0\x0a\0\x03\0\x01\0\0\0\x01\0\x7f", "a client id of 127 bytes"),
        (b"\0\0\0\x0a\0\x03\0\x01\0\0\0\x01\xff\xff", "Metadata request v1"),
        (b"GET / HTTP/1.1\r\n\r\n", "a frame of 1195725856 bytes"),
    ],
)
def test_a_wrong_frame_ends_the_connection(client: Connection, data: bytes, reason: str) -> None:
    client.feed(data)
    assert client.end is not None
    assert reason in client.end
    assert "\n" not in client.end
    client.feed(b"more")  # a client may have sent more by then


def test_metadata_by_name_by_id_and_of_an_unknown_id(client: Connection) -> None:
    client.create("named")
    topic_id = client.topic_id("named")
    body: dict[str, Any] = {"Topics": [{"Name": None, "TopicId": topic_id}]}
    assert client.ask("Metadata", body)["Topics"][0]["Name"] == "named"
    body = {"Topics": [{"Name": None, "TopicId": "AAAAAAAAAAAAAAAAAAAAAQ"}]}
    answer = client.ask("Metadata", body)
    assert answer["Topics"][0]["ErrorCode"] == Errors.UNKNOWN_TOPIC_ID
    found = [(row["NodeId"], row["Host"], row["Port"]) for row in answer["Brokers"]]
    assert sorted(found) == [(n, "127.0.0.1", 9091 + n) for n in (1, 2, 3)]


def test_settings_have_values_sources_and_types(client: Connection) -> None:
    client.create("set", retention_ms="60000")
    change = {"Name": "cleanup.policy", "ConfigOperation": 2, "Value": "compact"}
    resource = {"ResourceType": 2, "ResourceName": "set", "Configs": [change]}
    (row,) = client.ask("IncrementalAlterConfigs", {"Resources": [resource]})["Responses"]
    assert row["ErrorCode"] == 0, row
    client.run(500_000)
    asked = {"ResourceType": 2, "ResourceName": "set", "ConfigurationKeys": None}
    (found,) = client.ask("DescribeConfigs", {"Resources": [asked]})["Results"]
    rows = {each["Name"]: each for each in found["Configs"]}

    def told(name: str) -> tuple[str, int, int]:
        row = rows[name]
        return row["Value"], row["ConfigSource"], row["ConfigType"]

    assert told("retention.ms") == ("60000", 1, 5)
    assert told("cleanup.policy")[0] == "delete,compact"
    assert told("min.insync.replicas") == ("2", 3, 3)  # with ELR it is the cluster's (KIP-966)
    assert told("unclean.leader.election.enable") == ("false", 5, 1)
    asked = {"ResourceType": 2, "ResourceName": "none", "ConfigurationKeys": None}
    (found,) = client.ask("DescribeConfigs", {"Resources": [asked]})["Results"]
    assert found["ErrorCode"] == Errors.UNKNOWN_TOPIC_OR_PARTITION


def test_a_setting_has_the_synonyms_of_which_it_could_come(client: Connection) -> None:
    """ConfigHelper.configSynonyms: a topic's setting, then the broker's own under its name."""
    client.create("synonyms", retention_ms="60000")
    asked = {
        "ResourceType": 2, "ResourceName": "synonyms",
        "ConfigurationKeys": ["retention.ms", "segment.ms", "min.insync.replicas"],
    }  # fmt: skip
    body = {"Resources": [asked], "IncludeSynonyms": True}
    (found,) = client.ask("DescribeConfigs", body)["Results"]
    told = {
        row["Name"]: [(each["Name"], each["Value"], each["Source"]) for each in row["Synonyms"]]
        for row in found["Configs"]
    }
    assert told == {
        "retention.ms": [("retention.ms", "60000", 1)],  # log.retention.hours has the default
        "segment.ms": [],
        "min.insync.replicas": [
            ("min.insync.replicas", "2", 3), ("min.insync.replicas", "2", 4),
            ("min.insync.replicas", "1", 5),
        ],
    }  # fmt: skip
    (found,) = client.ask("DescribeConfigs", {"Resources": [asked]})["Results"]
    assert [row["Synonyms"] for row in found["Configs"]] == [[], [], []]


def test_old_clients_hear_of_no_feature_that_may_be_0(client: Connection) -> None:
    """KAFKA-17492: they cannot read a level of 0."""
    asked = {"ClientSoftwareName": "some", "ClientSoftwareVersion": "1"}
    new, old = [client.ask("ApiVersions", asked, each)["SupportedFeatures"] for each in (4, 3)]
    assert {row["Name"] for row in new} >= {"metadata.version", "share.version"}
    assert old == [row for row in new if row["MinVersion"] > 0]


def test_old_clients_hear_of_a_wrong_epoch_where_they_are_fenced(client: Connection) -> None:
    """KIP-588 gave being fenced an error code of its own, and the requests new versions."""
    asked = {"TransactionalId": "fenced", "TransactionTimeoutMs": 60_000}
    coordinator = None
    for _ in range(50):
        found = client.ask("FindCoordinator", {"CoordinatorKeys": ["fenced"], "KeyType": 1})
        (row,) = found["Coordinators"]
        if row["ErrorCode"] == 0:
            coordinator = Connection(client.session, f"broker-{row['NodeId']}")
            break
        client.run(100_000)
    assert coordinator is not None
    first = coordinator.ask("InitProducerId", {**asked, "ProducerId": -1, "ProducerEpoch": -1})
    while first["ErrorCode"] != 0:
        client.run(100_000)
        first = coordinator.ask("InitProducerId", {**asked, "ProducerId": -1, "ProducerEpoch": -1})
    coordinator.ask("InitProducerId", {**asked, "ProducerId": -1, "ProducerEpoch": -1})
    who = {"ProducerId": first["ProducerId"], "ProducerEpoch": first["ProducerEpoch"]}
    body = {"TransactionalId": "fenced", **who}
    told = [
        coordinator.ask("AddOffsetsToTxn", {**body, "GroupId": "g"}, version)["ErrorCode"]
        for version in (1, 2)
    ]
    told += [
        coordinator.ask("EndTxn", {**body, "Committed": True}, version)["ErrorCode"]
        for version in (1, 2)
    ]
    assert told == [Errors.INVALID_PRODUCER_EPOCH, Errors.PRODUCER_FENCED] * 2


def test_validate_only_is_answered_alike_and_changes_nothing(client: Connection) -> None:
    topic = {"Name": "never", "NumPartitions": 2, "ReplicationFactor": 3}
    body = {"Topics": [{**topic, "Assignments": [], "Configs": []}], "TimeoutMs": 5000}
    (row,) = client.ask("CreateTopics", {**body, "ValidateOnly": True})["Topics"]
    assert (row["ErrorCode"], row["NumPartitions"]) == (Errors.NONE, 2)
    wrong = {"Topics": [{**body["Topics"][0], "ReplicationFactor": 9}], "TimeoutMs": 5000}  # type: ignore[index]
    (row,) = client.ask("CreateTopics", {**wrong, "ValidateOnly": True})["Topics"]
    assert row["ErrorCode"] == Errors.INVALID_REPLICATION_FACTOR
    asked = {"Topics": [{"Name": "never", "TopicId": None}], "AllowAutoTopicCreation": False}
    (topic,) = client.ask("Metadata", asked)["Topics"]
    assert topic["ErrorCode"] == Errors.UNKNOWN_TOPIC_OR_PARTITION
    client.create("still", 1)
    more = {"Topics": [{"Name": "still", "Count": 5, "Assignments": None}], "TimeoutMs": 5000}
    (row,) = client.ask("CreatePartitions", {**more, "ValidateOnly": True})["Results"]
    assert row["ErrorCode"] == Errors.NONE
    change = {"Name": "retention.ms", "ConfigOperation": 0, "Value": "soon"}
    resource = {"ResourceType": 2, "ResourceName": "still", "Configs": [change]}
    body = {"Resources": [resource], "ValidateOnly": True}
    (row,) = client.ask("IncrementalAlterConfigs", body)["Responses"]
    assert row["ErrorCode"] == Errors.INVALID_CONFIG
    change["Value"] = "1"
    (row,) = client.ask("IncrementalAlterConfigs", body)["Responses"]
    assert row["ErrorCode"] == Errors.NONE
    client.run(1_000_000)
    asked = {"Topics": [{"Name": "still", "TopicId": None}], "AllowAutoTopicCreation": False}
    (topic,) = client.ask("Metadata", asked)["Topics"]
    assert len(topic["Partitions"]) == 1  # type: ignore[arg-type]


def test_quotas_of_clients_are_set_and_told(client: Connection) -> None:
    entity = [{"EntityType": "client-id", "EntityName": "slow"}]
    set_to = {"Key": "producer_byte_rate", "Value": 1000.0, "Remove": False}
    body = {"Entries": [{"Entity": entity, "Ops": [set_to]}], "ValidateOnly": False}
    (row,) = client.ask("AlterClientQuotas", body)["Entries"]
    assert (row["ErrorCode"], row["Entity"]) == (Errors.NONE, entity)
    client.run(1_000_000)
    asked = {"Components": [{"EntityType": "client-id", "MatchType": 0, "Match": "slow"}]}
    found = client.ask("DescribeClientQuotas", {**asked, "Strict": False})
    values = [{"Key": "producer_byte_rate", "Value": 1000.0}]
    assert found["Entries"] == [{"Entity": entity, "Values": values}]


def test_an_address_has_a_quota_of_new_connections(session: Session, client: Connection) -> None:
    entity = [{"EntityType": "ip", "EntityName": "127.0.0.1"}]

    def alter(remove: bool) -> None:
        change = {"Key": "connection_creation_rate", "Value": 1.0, "Remove": remove}
        body = {"Entries": [{"Entity": entity, "Ops": [change]}], "ValidateOnly": False}
        (row,) = client.ask("AlterClientQuotas", body)["Entries"]
        assert (row["ErrorCode"], row["Entity"]) == (Errors.NONE, entity)
        client.run(1_000_000)

    alter(remove=False)
    asked = {"Components": [{"EntityType": "ip", "MatchType": 2, "Match": None}]}
    found = client.ask("DescribeClientQuotas", {**asked, "Strict": False})
    values = [{"Key": "connection_creation_rate", "Value": 1.0}]
    assert found["Entries"] == [{"Entity": entity, "Values": values}]
    opened = [Connection(session) for _ in range(11)]  # ten are what ten seconds allow
    for each in opened:
        each.write("Metadata", {"Topics": [], "AllowAutoTopicCreation": False})
    client.run(2_000_000)
    alter(remove=True)
    (last,) = [each for each in opened if each.end is not None]
    assert (last.end, bytes(last.received)) == ("closed", b"")
    assert all(each.received for each in opened if each is not last)


def test_features_change_unless_a_level_is_unknown(client: Connection) -> None:
    def told(level: int, version: int, kind: int, only: bool = False) -> tuple[int, Any]:
        row = {"Feature": "transaction.version", "MaxVersionLevel": level, "UpgradeType": kind}
        body = {"FeatureUpdates": [row], "ValidateOnly": only}
        found = client.ask("UpdateFeatures", body, version)
        return found["ErrorCode"], found.get("Results")

    assert told(99, 2, 1) == (Errors.INVALID_UPDATE_VERSION, None)
    error, rows = told(99, 1, 1)
    assert [row["ErrorCode"] for row in rows] == [error]
    assert told(1, 2, 2, only=True) == (Errors.NONE, None)
    client.run(1_000_000)
    asked = {"ClientSoftwareName": "some", "ClientSoftwareVersion": "1"}
    rows = client.ask("ApiVersions", asked)["FinalizedFeatures"]
    assert {row["Name"]: row["MaxVersionLevel"] for row in rows}["transaction.version"] == 2


def test_a_classic_group_hands_on_the_bytes_of_its_members(client: Connection) -> None:
    coordinator = {"CoordinatorKeys": ["classic"], "KeyType": 0}
    for _ in range(20):
        (row,) = client.ask("FindCoordinator", coordinator)["Coordinators"]
        if row["ErrorCode"] == 0:
            break
        client.run(500_000)
    member = Connection(client.session, f"broker-{row['NodeId']}")
    client.run(1_000_000)
    metadata = b"\0\1" + b"\0\0\0\1\0\5named" + b"\xff\xff\xff\xff" + b"\0\0\0\0"
    join: dict[str, Any] = {
        "GroupId": "classic", "SessionTimeoutMs": 10000, "RebalanceTimeoutMs": 10000,
        "MemberId": "", "ProtocolType": "consumer",
        "Protocols": [{"Name": "range", "Metadata": metadata}],
    }  # fmt: skip
    answer = member.ask("JoinGroup", join)
    assert answer["ErrorCode"] == Errors.MEMBER_ID_REQUIRED
    answer = member.ask("JoinGroup", {**join, "MemberId": answer["MemberId"]})
    assert [each["Metadata"] for each in answer["Members"]] == [metadata]
    given = b"\0\1opaque"
    who = {"GroupId": "classic", "GenerationId": 1, "MemberId": answer["MemberId"]}
    rows = [{"MemberId": answer["MemberId"], "Assignment": given}]
    names = {"ProtocolType": "consumer", "ProtocolName": "range"}
    assert member.ask("SyncGroup", {**who, **names, "Assignments": rows})["Assignment"] == given
    (group,) = member.ask("DescribeGroups", {"Groups": ["classic"]})["Groups"]
    assert (group["GroupState"], group["Members"][0]["MemberAssignment"]) == ("Stable", given)


def test_operators_requests_have_answers(client: Connection) -> None:
    client.create("moved")
    quorum = client.ask("DescribeQuorum", {"Topics": []})
    assert quorum["Topics"][0]["Partitions"][0]["LeaderId"] in (3001, 3002, 3003)
    moves = [{"Name": "moved", "Partitions": [{"PartitionIndex": 0, "Replicas": [1, 2]}]}]
    answer = client.ask("AlterPartitionReassignments", {"TimeoutMs": 5000, "Topics": moves})
    assert answer["ErrorCode"] == 0
    assert client.ask("ListPartitionReassignments", {"TimeoutMs": 5000, "Topics": None})
    body = {"Topics": [{"Name": "moved"}], "ResponsePartitionLimit": 100}
    (topic,) = client.ask("DescribeTopicPartitions", body)["Topics"]
    assert len(topic["Partitions"]) == 3
    assert client.ask("DescribeCluster", {})["ClusterId"]
    deleted = client.ask("DeleteTopics", {"Topics": [{"Name": "moved"}], "TimeoutMs": 5000})
    assert deleted["Responses"][0]["ErrorCode"] == 0


def test_a_fault_cuts_one_client_off_from_one_broker(session: Session) -> None:
    cut = Connection(session, "broker-2", "cut-off")
    other = Connection(session, "broker-2", "not-cut-off")
    body = {"Topics": [], "AllowAutoTopicCreation": False}
    assert cut.ask("Metadata", body)
    table = {"kind": "partition", "node": "broker-2", "peers": ["outside/cut-off"], "for": "40s"}
    assert session.inject(table) == "partition broker-2 | outside/cut-off"
    cut.write("Metadata", body)
    assert other.ask("Metadata", body)
    assert cut.frame() is None
    session.heal()
    cut.run(60_000_000)
    assert cut.frame() is not None


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"kind": "gc-pause", "node": "broker-9", "for": "1s"}, "broker-9"),
        ({"kind": "gc-pause", "node": "outside/test", "for": "1s"}, "outside/test"),
        ({"kind": "gc-pause", "node": "broker-1"}, "duration"),
        ({"kind": "gc-pause", "node": "broker-1", "for": "soon"}, "for"),
        ({"kind": "no-such"}, "kind"),
        ({"kind": "gc-pause", "node": "broker-1", "for": "1s", "path": "/etc"}, "path"),
        ({"kind": "nemesis"}, "nemesis"),
        ({}, "kind"),
    ],
)
def test_a_wrong_fault_is_one_line(session: Session, table: dict[str, Any], said: str) -> None:
    Connection(session)
    with pytest.raises(SessionError) as told:
        session.inject(table)
    assert said in str(told.value)
    assert "\n" not in str(told.value)


def test_a_broker_that_is_gone_resets_its_connections(session: Session) -> None:
    client = Connection(session, "broker-3", "bereft")
    client.ask("Metadata", {"Topics": [], "AllowAutoTopicCreation": False})
    session.inject({"kind": "crash", "node": "broker-3", "for": "5s"})
    client.run(2_000_000)
    assert client.end == "reset"
    again = Connection(session, "broker-3", "bereft")
    again.run(1_000_000)
    assert again.end == "refused"
    again.run(20_000_000)
    client = Connection(session, "broker-3", "bereft")
    assert client.ask("Metadata", {"Topics": [], "AllowAutoTopicCreation": False})


def test_there_is_no_other_broker(session: Session) -> None:
    with pytest.raises(SessionError, match="no broker 'controller-1'"):
        Connection(session, "controller-1")
    assert KEYS["Produce"] == 0


def test_a_share_group_acquires_and_acknowledges(session: Session) -> None:
    leader = leader_of(session, "shared")
    setting = {"Name": "share.auto.offset.reset", "ConfigOperation": 0, "Value": "earliest"}
    resource = {"ResourceType": 32, "ResourceName": "workers", "Configs": [setting]}
    (row,) = leader.ask("IncrementalAlterConfigs", {"Resources": [resource]})["Responses"]
    assert row["ErrorCode"] == 0, row
    leader.produce("shared", built(ROWS))
    leader.run(1_000_000)
    member: dict[str, Any] = {"GroupId": "workers", "MemberId": "AAAAAAAAAAAAAAAAAAAAAw"}
    epoch, given = 0, []
    for _ in range(30):
        asked = {"CoordinatorKeys": ["workers"], "KeyType": 0}
        (row,) = leader.ask("FindCoordinator", asked)["Coordinators"]
        if row["ErrorCode"] == 0:
            coordinator = Connection(session, f"broker-{row['NodeId']}")
            beat = {**member, "MemberEpoch": epoch, "RackId": None}
            names = None if epoch else ["shared"]
            answer = coordinator.ask("ShareGroupHeartbeat", {**beat, "SubscribedTopicNames": names})
            epoch = answer["MemberEpoch"]
            given = (answer["Assignment"] or {}).get("TopicPartitions")
            if given:
                break
        leader.run(1_000_000)
    assert given
    assert given[0]["TopicId"] == leader.topic_id("shared")
    part: dict[str, Any] = {"PartitionIndex": 0, "AcknowledgementBatches": []}
    topics = [{"TopicId": leader.topic_id("shared"), "Partitions": [part]}]
    fetch: dict[str, Any] = {
        **member, "MaxWaitMs": 500, "MinBytes": 1, "MaxBytes": 1 << 20, "MaxRecords": 100,
        "BatchSize": 100, "ForgottenTopicsData": [],
    }  # fmt: skip
    acquired: list[Any] = []
    for session_epoch in range(20):
        now = topics if session_epoch == 0 else []
        body = {**fetch, "ShareSessionEpoch": session_epoch, "Topics": now}
        answer = leader.ask("ShareFetch", body)
        assert answer["ErrorCode"] == 0, answer
        for topic in answer["Responses"]:
            acquired += topic["Partitions"][0]["AcquiredRecords"]
        if acquired:
            break
    assert [(row["FirstOffset"], row["LastOffset"]) for row in acquired] == [(0, 3)]
    batch = {"FirstOffset": 0, "LastOffset": 3, "AcknowledgeTypes": [1]}
    done = {**part, "AcknowledgementBatches": [batch]}
    topics = [{"TopicId": leader.topic_id("shared"), "Partitions": [done]}]
    body = {**member, "ShareSessionEpoch": session_epoch + 1, "Topics": topics}
    (topic,) = leader.ask("ShareAcknowledge", body)["Responses"]
    assert topic["Partitions"][0]["ErrorCode"] == 0
    groups = {"Groups": [{"GroupId": "workers", "Topics": None}]}
    (group,) = coordinator.ask("DescribeShareGroupOffsets", groups)["Groups"]
    (topic,) = group["Topics"]
    assert topic["TopicName"] == "shared"
    assert [row["ErrorCode"] for row in topic["Partitions"]] == [0, 0, 0]
    again = leader.ask(
        "ShareFetch", {**fetch, "ShareSessionEpoch": session_epoch + 2, "Topics": []}
    )
    assert [
        row for topic in again["Responses"] for row in topic["Partitions"][0]["AcquiredRecords"]
    ] == []


def test_log_directories_have_the_sizes_of_their_partitions(session: Session) -> None:
    leader = leader_of(session, "sized")
    leader.produce("sized", built(ROWS))
    asked = {"Topics": [{"Topic": "sized", "Partitions": [0]}]}
    (directory,) = leader.ask("DescribeLogDirs", asked)["Results"]
    (topic,) = directory["Topics"]
    assert topic["Partitions"][0]["PartitionSize"] == len(built(ROWS))


def test_alter_configs_leaves_only_what_it_names(client: Connection) -> None:
    client.create("replaced", retention_ms="60000")
    row = {"Name": "segment.ms", "Value": "7000"}
    resource = {"ResourceType": 2, "ResourceName": "replaced", "Configs": [row]}
    (answer,) = client.ask("AlterConfigs", {"Resources": [resource]})["Responses"]
    assert answer["ErrorCode"] == 0, answer
    client.run(500_000)
    asked = {"ResourceType": 2, "ResourceName": "replaced", "ConfigurationKeys": None}
    (found,) = client.ask("DescribeConfigs", {"Resources": [asked]})["Results"]
    own = {each["Name"]: each["Value"] for each in found["Configs"] if each["ConfigSource"] == 1}
    assert own == {"segment.ms": "7000"}
    listed = client.ask("ListConfigResources", {"ResourceTypes": [2]})["ConfigResources"]
    assert {"ResourceName": "replaced", "ResourceType": 2} in listed
