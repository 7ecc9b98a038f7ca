"""Operators' requests: topics, reassignments, elections, settings, the quorum."""

from __future__ import annotations

from typing import Any

from kafkasim.model import messages as m
from kafkasim.model.errors import Errors
from kafkasim.model.messages.clients.admin import QuotaEntity, quota_entity
from kafkasim.model.records import TopicPartition
from kafkasim.scenarios.wire.adapters.base import (
    NOT_VALIDATED,
    Adapter,
    Body,
    Call,
    asked,
    by_topic,
    partitions,
)
from kafkasim.scenarios.wire.adapters.configs import CONFIGS
from kafkasim.scenarios.wire.compiling import NULL_UUID


def _replicas(assignments: list[Body]) -> tuple[tuple[int, ...], ...]:
    rows = sorted(assignments, key=lambda each: int(each.get("PartitionIndex", 0)))
    return tuple([tuple(each["BrokerIds"]) for each in rows])


def _create(call: Call) -> list[Any]:
    if call.refused:
        return asked(call)
    topics = [
        m.CreatableTopic(
            topic["Name"],
            topic["NumPartitions"],
            topic["ReplicationFactor"],
            _replicas(topic["Assignments"]),
            tuple([(each["Name"], each["Value"] or "") for each in topic["Configs"]]),
        )
        for topic in call.body["Topics"]
    ]
    timeout_ms, strict = call.body["TimeoutMs"], call.version >= 6
    return [m.CreateTopicsRequest(tuple(topics), timeout_ms, call.validates, strict)]


def _created(call: Call, answers: list[Any]) -> Body:
    if call.refused:
        names = [topic["Name"] for topic in call.body["Topics"]]
        results = [(name, Errors.INVALID_REQUEST, NOT_VALIDATED) for name in names]
    else:
        results = answers[0].results
    topics = {topic["Name"]: topic for topic in call.body["Topics"]}
    rows = []
    for name, error, text in results:
        row = {"Name": name, "ErrorCode": error, "ErrorMessage": text or None}
        if not error:
            row |= {"TopicId": call.topic_id(name), "Configs": []} | _size(call, topics[name])
        rows.append(row)
    return {"Topics": rows, "ThrottleTimeMs": 0 if call.refused else _throttle_ms(answers)}


def _throttle_ms(answers: list[Any]) -> int:
    """Return how long a client above its controller_mutation_rate must wait."""
    return max([answer.throttle_time_ms for answer in answers], default=0)


def _size(call: Call, topic: Body) -> Body:
    """Return how many partitions and replicas a new topic has, −1 until the broker knows it."""
    image = call.image
    found = None if image is None else image.topic_by_name(topic["Name"])
    if found is None:
        return {
            "NumPartitions": len(topic["Assignments"]) or topic["NumPartitions"],
            "ReplicationFactor": topic["ReplicationFactor"],
        }
    replicas = len(found.partitions[0].replicas)
    return {"NumPartitions": len(found.partitions), "ReplicationFactor": replicas}


def _delete(call: Call) -> list[Any]:
    body = call.body
    if call.version >= 6:
        topics = [
            (t["Name"] or "", t["TopicId"] if t["Name"] is None else "") for t in body["Topics"]
        ]
    else:
        topics = [(name, "") for name in body["TopicNames"]]
    return [m.DeleteTopicsRequest(tuple(topics), body["TimeoutMs"], call.version >= 5)]


def _deleted(call: Call, answers: list[Any]) -> Body:
    rows = [
        {
            "Name": name or (None if call.version >= 6 else ""),
            "TopicId": topic_id or NULL_UUID,
            "ErrorCode": error,
            "ErrorMessage": text or None,
        }
        for name, topic_id, error, text in answers[0].results
    ]
    return {"Responses": rows, "ThrottleTimeMs": _throttle_ms(answers)}


def _create_partitions(call: Call) -> list[Any]:
    if call.refused:
        return asked(call)
    topics = [
        m.CreatePartitionsTopic(t["Name"], t["Count"], _replicas(t["Assignments"] or []))
        for t in call.body["Topics"]
    ]
    timeout_ms, strict = call.body["TimeoutMs"], call.version >= 3
    return [m.CreatePartitionsRequest(tuple(topics), timeout_ms, call.validates, strict)]


def _partitions_created(call: Call, answers: list[Any]) -> Body:
    if call.refused:
        names = [topic["Name"] for topic in call.body["Topics"]]
        results = [(name, Errors.INVALID_REQUEST, NOT_VALIDATED) for name in names]
    else:
        results = answers[0].results
    rows = [
        {"Name": name, "ErrorCode": error, "ErrorMessage": text or None}
        for name, error, text in results
    ]
    return {"Results": rows, "ThrottleTimeMs": 0 if call.refused else _throttle_ms(answers)}


def _elect(call: Call) -> list[Any]:
    body = call.body
    wanted = partitions(body["TopicPartitions"], "Partitions", "Topic")
    return [m.ElectLeadersRequest(body.get("ElectionType", 0), wanted, body["TimeoutMs"])]


def _elected(call: Call, answers: list[Any]) -> Body:
    (answer,) = answers
    rows = [(tp, {"PartitionId": tp.partition, "ErrorCode": error}) for tp, error in answer.results]
    return {
        "ErrorCode": answer.error,
        "ReplicaElectionResults": by_topic(rows, "Topic", "PartitionResult"),
    }


def _reassign(call: Call) -> list[Any]:
    rows = [
        m.ReassignablePartition(
            TopicPartition(topic["Name"], each["PartitionIndex"]),
            None if each["Replicas"] is None else tuple(each["Replicas"]),
        )
        for topic in call.body["Topics"]
        for each in topic["Partitions"]
    ]
    return [m.AlterPartitionReassignmentsRequest(tuple(rows), call.body["TimeoutMs"])]


def _reassigned(call: Call, answers: list[Any]) -> Body:
    (answer,) = answers
    rows = [
        (tp, {"PartitionIndex": tp.partition, "ErrorCode": error, "ErrorMessage": text or None})
        for tp, error, text in answer.results
    ]
    return {"ErrorCode": answer.error, "Responses": by_topic(rows)}


def _list_reassignments(call: Call) -> list[Any]:
    wanted = partitions(call.body["Topics"], "PartitionIndexes")
    return [m.ListPartitionReassignmentsRequest(wanted, call.body["TimeoutMs"])]


def _reassignments(call: Call, answers: list[Any]) -> Body:
    (answer,) = answers
    rows = [
        (
            each.tp,
            {
                "PartitionIndex": each.tp.partition,
                "Replicas": each.replicas,
                "AddingReplicas": each.adding_replicas,
                "RemovingReplicas": each.removing_replicas,
            },
        )
        for each in answer.partitions
    ]
    return {"ErrorCode": answer.error, "Topics": by_topic(rows)}


METADATA_TOPIC = "__cluster_metadata"


def _quorum(call: Call, answers: list[Any]) -> Body:
    (answer,) = answers
    row = {
        "PartitionIndex": 0,
        "ErrorCode": answer.error,
        "LeaderId": answer.leader_id,
        "LeaderEpoch": answer.leader_epoch,
        "HighWatermark": answer.high_watermark,
        "CurrentVoters": [_replica(each) for each in answer.voters],
        "Observers": [_replica(each) for each in answer.observers],
    }
    body: Body = {
        "ErrorCode": answer.error,
        "Topics": [{"TopicName": METADATA_TOPIC, "Partitions": [row]}],
    }
    if call.version >= 2:
        body["Nodes"] = []
    return body


def _replica(each: m.QuorumReplica) -> Body:
    return {
        "ReplicaId": each.id,
        "ReplicaDirectoryId": each.directory_id,
        "LogEndOffset": each.log_end_offset,
        "LastFetchTimestamp": _ms(each.last_fetch_us),
        "LastCaughtUpTimestamp": _ms(each.last_caught_up_us),
    }


def _ms(us: int) -> int:
    return us if us < 0 else us // 1000


def _unregistered(call: Call, answers: list[Any]) -> Body:
    (answer,) = answers
    return {"ErrorCode": answer.error, "ErrorMessage": answer.message or None}


def _describe_partitions(call: Call, answers: list[Any]) -> Body:
    """Return the partitions of topics from the broker's image (KIP-966)."""
    image = call.image
    wanted = [topic["Name"] for topic in call.body["Topics"]]
    names = wanted or sorted(image.topic_names if image is not None else ())
    rows = []
    for name in names:
        topic = None if image is None else image.topic_by_name(name)
        if topic is None:
            rows.append({"ErrorCode": Errors.UNKNOWN_TOPIC_OR_PARTITION, "Name": name})
            continue
        parts = [
            {
                "PartitionIndex": number,
                "LeaderId": each.leader,
                "LeaderEpoch": each.leader_epoch,
                "ReplicaNodes": each.replicas,
                "IsrNodes": each.isr,
                "EligibleLeaderReplicas": each.elr,
                "LastKnownElr": each.last_known_elr,
            }
            for number, each in sorted(topic.partitions.items())
        ]
        row = {"Name": name, "TopicId": topic.topic_id, "IsInternal": name.startswith("__")}
        rows.append({**row, "Partitions": parts})
    return {"Topics": rows}


def _update_features(call: Call) -> list[Any]:
    rows = call.body["FeatureUpdates"]
    updates = tuple([(each["Feature"], each["MaxVersionLevel"]) for each in rows])
    # A request has one type for each feature; kafka-features gives all the same.
    kinds = [each.get("UpgradeType", 1 + each.get("AllowDowngrade", False)) for each in rows]
    return [m.UpdateFeaturesRequest(updates, max(kinds, default=1), call.validates)]


def _features_updated(call: Call, answers: list[Any]) -> Body:
    """Return the response; before version 2 it has a row for each feature (KIP-1022)."""
    (answer,) = answers
    found: Body = {"ErrorCode": answer.error, "ErrorMessage": answer.message or None}
    if call.version < 2:
        rows = answer.results or [
            (each["Feature"], answer.error, answer.message) for each in call.body["FeatureUpdates"]
        ]
        found["Results"] = [
            {"Feature": name, "ErrorCode": error, "ErrorMessage": text or None}
            for name, error, text in rows
        ]
    return found


def _entity(parts: list[Body]) -> QuotaEntity:
    return quota_entity([(each["EntityType"], each["EntityName"]) for each in parts])


def _entity_body(entity: QuotaEntity) -> list[Body]:
    return [{"EntityType": kind, "EntityName": name} for kind, name in entity]


def _alter_quotas(call: Call) -> list[Any]:
    if call.validates:
        return asked(call)
    entries = [
        m.ClientQuotaAlteration(
            _entity(each["Entity"]),
            tuple([(op["Key"], None if op["Remove"] else op["Value"]) for op in each["Ops"]]),
        )
        for each in call.body["Entries"]
    ]
    return [m.AlterClientQuotasRequest(tuple(entries))]


def _quotas_altered(call: Call, answers: list[Any]) -> Body:
    if call.validates:
        text = "kafkasim does not validate quotas"
        results = [
            (_entity(each["Entity"]), Errors.INVALID_REQUEST, text) for each in call.body["Entries"]
        ]
    else:
        results = answers[0].results
    rows = [
        {"ErrorCode": error, "ErrorMessage": text or None, "Entity": _entity_body(entity)}
        for entity, error, text in results
    ]
    return {"Entries": rows}


def _describe_quotas(call: Call) -> list[Any]:
    components = [
        (each["EntityType"], each["MatchType"], each["Match"]) for each in call.body["Components"]
    ]
    return [m.DescribeClientQuotasRequest(tuple(components), call.body["Strict"])]


def _quotas(call: Call, answers: list[Any]) -> Body:
    (answer,) = answers
    rows = [
        {
            "Entity": _entity_body(entity),
            "Values": [{"Key": key, "Value": value} for key, value in values],
        }
        for entity, values in answer.entries
    ]
    return {"ErrorCode": answer.error, "Entries": None if answer.error else rows}


ADMIN: dict[str, Adapter] = {
    "CreateTopics": Adapter(2, 7, _create, _created),
    "DeleteTopics": Adapter(1, 6, _delete, _deleted),
    "CreatePartitions": Adapter(0, 3, _create_partitions, _partitions_created),
    "ElectLeaders": Adapter(0, 2, _elect, _elected),
    "AlterPartitionReassignments": Adapter(0, 0, _reassign, _reassigned),
    "ListPartitionReassignments": Adapter(0, 0, _list_reassignments, _reassignments),
    "DescribeQuorum": Adapter(0, 2, lambda call: [m.DescribeQuorumRequest()], _quorum),
    "UnregisterBroker": Adapter(
        0, 0, lambda call: [m.UnregisterBrokerRequest(call.body["BrokerId"])], _unregistered
    ),
    "UpdateFeatures": Adapter(0, 2, _update_features, _features_updated),
    "AlterClientQuotas": Adapter(0, 1, _alter_quotas, _quotas_altered),
    "DescribeClientQuotas": Adapter(0, 1, _describe_quotas, _quotas),
    "DescribeTopicPartitions": Adapter(0, 0, asked, _describe_partitions),
    **CONFIGS,
}
"""By the API's name."""
