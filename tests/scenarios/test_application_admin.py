"""aiokafka's admin client in a user's application: what it does, returns, raises and refuses."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import kafkasim
from kafkasim.scenarios.applications.consuming.protocol import (
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
)
from tests.scenarios.test_application_consumer import SCENARIO
from tests.scenarios.test_application_surface import failures

HEAD = """
    import asyncio
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, OffsetAndMetadata, TopicPartition
    from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
    from aiokafka.coordinator.protocol import (
        ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata,
    )
    from aiokafka.errors import (
        IllegalArgumentError, IllegalStateError, InvalidPartitionsError,
        NotCoordinatorForGroupError, OffsetOutOfRangeError, for_code,
    )

    ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)

    async def main():
        admin = AIOKafkaAdminClient(bootstrap_servers="kafka:9092", client_id="ops")
        await admin.start()
        await steps(admin)
        await admin.close()
        await asyncio.sleep(100)

    async def steps(admin):
"""


def steps(tmp_path: Path, *lines: str) -> kafkasim.Outcome:
    path = tmp_path / "app.py"
    path.write_text(dedent("\n".join([HEAD, *["        " + line for line in lines]])))
    data: dict[str, Any] = deepcopy(SCENARIO)
    data["workload"][1]["app"] = str(path)
    return kafkasim.run(data, seed=1)


def test_topics_are_created_described_enlarged_and_deleted(tmp_path: Path) -> None:
    outcome = steps(
        tmp_path,
        "new = NewTopic('bills', 2, 1, topic_configs={'cleanup.policy': 'compact'})",
        "made = await admin.create_topics([new, NewTopic('orders', 1, 1), NewTopic('few', 1, 9)])",
        "codes = [(topic, code) for topic, code, _ in made.topic_errors]",
        "assert codes == [('bills', 0), ('orders', 36), ('few', 38)], made",
        "assert for_code(36).__name__ == 'TopicAlreadyExistsError'",
        "assert made.to_object()['topic_errors'][0] == "
        "{'topic': 'bills', 'error_code': 0, 'error_message': None}",
        "more = await admin.create_partitions({'bills': NewPartitions(3)})",
        "assert more.topic_errors == [('bills', 0, None)], more",
        "await asyncio.sleep(0.5)",
        "(bills,) = await admin.describe_topics(['bills'])",
        "assert (bills['topic'], bills['error_code'], bills['is_internal']) == ('bills', 0, False)",
        "assert [(each['partition'], each['leader'], each['isr']) for each in bills['partitions']]"
        " == [(0, 1, [1]), (1, 1, [1]), (2, 1, [1])], bills",
        "gone = await admin.delete_topics(['bills', 'nothing'])",
        "assert gone.topic_error_codes == [('bills', 0), ('nothing', 3)], gone",
        "await asyncio.sleep(0.5)",
        "assert 'bills' not in await admin.list_topics()",
        "chosen = NewTopic('chosen', -1, -1, replica_assignments={0: [1], 1: [1]})",
        "assert (await admin.create_topics([chosen])).topic_errors == [('chosen', 0, None)]",
        "await admin.create_partitions({'orders': NewPartitions(1)})",
    )
    assert failures(outcome) == [
        (
            "InvalidPartitionsError: [Error 37] InvalidPartitionsError: Could not create"
            " partitions for orders: The topic orders currently has 2 partition(s); 1 would"
            " not be an increase."
        )
    ]


def test_the_cluster_is_described(tmp_path: Path) -> None:
    outcome = steps(
        tmp_path,
        "found = await admin.describe_cluster()",
        "assert found['brokers'] == [{'node_id': 1, 'host': 'broker-1', 'port': 9092,"
        " 'rack': None}], found",
        "assert (found['controller_id'], len(found)) == (1, 4) and found['cluster_id'], found",
        "assert 'orders' in await admin.list_topics()",
    )
    assert failures(outcome) == []


def test_records_are_deleted_and_the_log_begins_later(tmp_path: Path) -> None:
    outcome = steps(
        tmp_path,
        "found = await admin.delete_records({ZERO: RecordsToDelete(3), ONE: RecordsToDelete(-1)})",
        "async with AIOKafkaConsumer() as reader:",
        "    begins = await reader.beginning_offsets([ZERO, ONE])",
        "    ends = await reader.end_offsets([ZERO, ONE])",
        "assert found == begins == {ZERO: 3, ONE: ends[ONE]}, (found, begins, ends)",
        "await admin.delete_records({ZERO: RecordsToDelete(10_000)})",
    )
    assert failures(outcome) == ["OffsetOutOfRangeError: [Error 1] OffsetOutOfRangeError"]


def test_groups_are_listed_and_described_with_their_offsets(tmp_path: Path) -> None:
    outcome = steps(
        tmp_path,
        "assert await admin.list_consumer_group_offsets('none') == {}",
        "async def describe(admin, tp, offset):",
        "    found = await admin.list_consumer_group_offsets('group')",
        "    assert found == {tp: OffsetAndMetadata(offset, 'note')}, found",
        "    other = TopicPartition('orders', 1 - tp.partition)",
        "    found = await admin.list_consumer_group_offsets('group', partitions=[tp, other])",
        "    assert found[other].offset == -1 and len(found) == 2, found",
        "    assert await admin.list_consumer_groups() == [('group', 'consumer')]",
        "    assert await admin.list_consumer_groups([1]) == [('group', 'consumer')]",
        "    assert await admin.find_coordinator('group') == 1",
        "    (response,) = await admin.describe_consumer_groups(['group', 'none'])",
        "    group, none = response.groups",
        "    assert group[:5] == (0, 'group', 'Stable', 'consumer', 'range'), group",
        "    assert none[:3] == (0, 'none', 'Dead') and none[5] == [], none",
        "    ((name, client, host, told, assigned),) = group[5]",
        "    told = ConsumerProtocolMemberMetadata.decode(told)",
        "    assert (client, told.subscription) == ('consumer-1', ['orders']), (client, told)",
        "    assigned = ConsumerProtocolMemberAssignment.decode(assigned)",
        "    assert assigned.partitions() == [ZERO, ONE], assigned",
        "    assert response.to_object()['groups'][0]['members'][0]['member_id'] == name",
        "    (wrong,) = await admin.describe_consumer_groups(['group'], 7)",
        "    assert wrong.groups[0][:2] == (16, 'group'), wrong",
        "    await admin.list_consumer_group_offsets('group', 7)",
        "async with AIOKafkaConsumer('orders') as reader:",
        "    record = await reader.getone()",
        "    tp, offset = TopicPartition('orders', record.partition), record.offset + 1",
        "    await reader.commit({tp: OffsetAndMetadata(offset, 'note')})",
        "    await describe(admin, tp, offset)",
    )
    # What is asked of another broker than the coordinator.
    assert failures(outcome) == [
        (
            "NotCoordinatorForGroupError: [Error 16] NotCoordinatorForGroupError: Unable to"
            " get offset info of group"
        )
    ]


def place() -> str:
    return f"(app.py:{dedent(HEAD).count(chr(10)) + 2}): "


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, 'orders')])",
            (
                "NotSimulated: an application cannot use AIOKafkaAdminClient.describe_configs() {}"
                "it is not simulated; the scenario has the settings"
            ),
        ),
        (
            "admin.alter_configs([])",
            (
                "NotSimulated: an application cannot use AIOKafkaAdminClient.alter_configs() {}it"
                " is not simulated; no broker serves AlterConfigs; the operation alter-config"
                " sets a setting"
            ),
        ),
        (
            "await admin.create_topics([NewTopic('a', 1, 1)], validate_only=True)",
            (
                "NotSimulated: an application cannot use"
                " AIOKafkaAdminClient.create_topics(validate_only=True) {}it is not simulated"
            ),
        ),
        (
            "NewTopic('a', 1, 1, replica_assignments={0: [1]})",
            (
                "IllegalArgumentError: either num_partitions/replication_factor or"
                " replica_assignment must be specified"
            ),
        ),
        (
            "await admin.create_topics([NewTopic('a', -1, -1, replica_assignments={2: [1]})])",
            "ValueError: a: replica_assignments has the partitions [2]",
        ),
        (
            "await AIOKafkaAdminClient().list_topics()",
            "IllegalStateError: the admin is not started: await admin.start()",
        ),
        (
            "AIOKafkaAdminClient(linger_ms=5)",
            "ValueError: AIOKafkaAdminClient: linger_ms: unknown argument; ",
        ),
    ],
)
def test_what_is_refused_is_named(tmp_path: Path, line: str, expected: str) -> None:
    (found,) = failures(steps(tmp_path, line))
    assert found.startswith(expected.format(place())), found


def test_members_bytes_are_those_of_kafkas_consumer_protocol() -> None:
    """ConsumerProtocolSubscription and ConsumerProtocolAssignment, version 0."""
    told = ConsumerProtocolMemberMetadata(0, ["a"], b"x")
    assert told.encode() == b"\0\0\0\0\0\1\0\1a\0\0\0\1x"
    given = ConsumerProtocolMemberAssignment(0, [("a", [2])], b"")
    assert given.encode() == b"\0\0\0\0\0\1\0\1a\0\0\0\1\0\0\0\2\0\0\0\0"
    assert ConsumerProtocolMemberMetadata.decode(told.encode() + b"\0\0\0\0") == told
    assert ConsumerProtocolMemberAssignment.decode(given.encode()) == given
    with pytest.raises(ValueError, match="4 bytes are wanted at 13 of 15"):
        ConsumerProtocolMemberAssignment.decode(given.encode()[:15])
