"""The gate before KafkaApis: which requests are refused, in which order, and what answers hide."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafkasim.model.broker.common.authorization.gate import AuthorizedApis
from kafkasim.model.controller.common.acls import Authorizer, AuthorizerRules
from kafkasim.model.controller.common.image import MetadataImage
from kafkasim.model.controller.common.records import FeatureLevelRecord, TopicRecord
from kafkasim.model.effects import Peer, Request
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.facts import Authorized
from kafkasim.model.messages import (
    AclBinding,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    CreatableTopic,
    CreateTopicsRequest,
    DescribedConsumerGroup,
    DescribedTransaction,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListGroupsRequest,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
)
from kafkasim.model.messages.clients.consumer_groups import DescribedConsumerGroupMember
from kafkasim.model.messages.share import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    DescribedShareGroupOffsets,
    DescribeShareGroupOffsetsGroup,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    ShareGroupOffset,
)
from kafkasim.model.records import TopicPartition

GROUP_FAILED, TOPIC_FAILED = Errors.GROUP_AUTHORIZATION_FAILED, Errors.TOPIC_AUTHORIZATION_FAILED
BEAT = ShareGroupHeartbeatRequest("g", "m", 0, None, ("seen", "hidden"))


class Gate:
    """One broker's gate; ``asked`` reaches its apis, which answer with ``answer``."""

    def __init__(self, *entries: tuple[str, str, str], share_version: int = 1) -> None:
        self.image = image = MetadataImage()
        image.apply(FeatureLevelRecord("share.version", share_version), 0, 0)
        for name in ("seen", "hidden"):
            image.apply(TopicRecord(name, f"id-{name}"), image.offset + 1, 0)
        bindings = [
            AclBinding(kind, name, "literal", "User:alice", "*", operation, "allow")
            for kind, name, operation in entries
        ]
        self.answers: list[Any] = []
        self.asked: list[Any] = []
        self.process: Any = SimpleNamespace(
            out=[], merges={}, peer_of=lambda _connection: Peer("User:alice", "host-1")
        )
        apis: Any = SimpleNamespace(
            config=SimpleNamespace(auto_create_topics_enable=False),
            handle=lambda item, _now: self.asked.append(item.message),
            respond=lambda _item, message: self.answers.append(message),
        )
        named = {str(number): each for number, each in enumerate(bindings)}
        authorizer = Authorizer(named, (), False, AuthorizerRules())
        self.gate = AuthorizedApis(self.process, apis, image, authorizer)

    def ask(self, request: Any, answer: Any = None) -> Any:
        """Return what a request is refused with, or what becomes of the answer to it."""
        self.gate.handle(Request(1, 7, request, 0), 0)
        if self.answers:
            return self.answers.pop()
        merge = self.process.merges.pop((1, 7), None)
        return answer if merge is None or answer is None else merge(answer)


@pytest.mark.parametrize(
    "request_",
    [
        BEAT,
        ShareFetchRequest("g", "m", 0, 500, 1, 100, 100, 100, ()),
        ShareAcknowledgeRequest("g", "m", 1, ()),
        AlterShareGroupOffsetsRequest("g", ()),
    ],
)
def test_a_share_group_is_a_group_that_needs_read(request_: Any) -> None:
    gate = Gate()
    assert gate.ask(request_).error is GROUP_FAILED
    assert gate.asked == []
    without = Gate(share_version=0)
    assert without.ask(request_) is None
    assert without.asked == [request_]  # UNSUPPORTED_VERSION comes first


def test_a_share_group_member_may_subscribe_to_what_it_may_describe() -> None:
    gate = Gate(("group", "g", "read"), ("topic", "seen", "describe"))
    assert gate.ask(BEAT) == ShareGroupHeartbeatResponse(TOPIC_FAILED)
    one = ShareGroupHeartbeatRequest("g", "m", 0, None, ("seen",))
    assert gate.ask(one) is None
    assert gate.asked == [one]


def test_offsets_of_a_share_group_are_altered_topic_by_topic() -> None:
    gate = Gate(("group", "g", "read"), ("topic", "seen", "read"))
    request = AlterShareGroupOffsetsRequest("g", (("seen", ((0, 5),)), ("hidden", ((0, 5),))))
    served = AlterShareGroupOffsetsResponse(NONE, (("seen", "id-seen", ((0, NONE),)),))
    answer = gate.ask(request, served)
    assert gate.asked == [AlterShareGroupOffsetsRequest("g", (("seen", ((0, 5),)),))]
    assert answer.responses == (
        ("seen", "id-seen", ((0, NONE),)), ("hidden", "", ((0, TOPIC_FAILED),)),
    )  # fmt: skip
    failed = AlterShareGroupOffsetsResponse(Errors.NON_EMPTY_GROUP)
    assert gate.ask(request, failed) == failed


def test_offsets_of_a_share_group_are_shown_of_topics_that_may_be_described() -> None:
    gate = Gate(("group", "g", "describe"), ("group", "h", "describe"),
                ("topic", "seen", "describe"))  # fmt: skip
    given = DescribeShareGroupOffsetsGroup("g", (("seen", (0,)), ("hidden", (0,))))
    every = DescribeShareGroupOffsetsGroup("h", None)
    denied = DescribeShareGroupOffsetsGroup("i", None)
    offset = ShareGroupOffset(0, 5, 1)
    both = (("seen", "id-seen", (offset,)), ("hidden", "id-hidden", (offset,)))
    answer = gate.ask(
        DescribeShareGroupOffsetsRequest((given, every, denied)),
        DescribeShareGroupOffsetsResponse(
            (
                DescribedShareGroupOffsets("g", NONE, both),
                DescribedShareGroupOffsets("h", NONE, both),
            )
        ),
    )
    refused = ("hidden", "", (ShareGroupOffset(0, -1, 0, TOPIC_FAILED),))
    assert answer.groups == (
        DescribedShareGroupOffsets("g", NONE, (both[0], refused)),
        DescribedShareGroupOffsets("h", NONE, (both[0],)),
        DescribedShareGroupOffsets("i", GROUP_FAILED),
    )


def test_a_group_with_a_topic_that_may_not_be_described_shows_no_members() -> None:
    gate = Gate(("group", "g", "describe"), ("group", "h", "describe"),
                ("topic", "seen", "describe"))  # fmt: skip

    def group(name: str, topic_id: str) -> DescribedConsumerGroup:
        has = ((topic_id, (0,)),)
        member = DescribedConsumerGroupMember("m", None, None, 1, "c", (), "", has, has)
        return DescribedConsumerGroup(NONE, name, "Stable", 1, 1, "uniform", (member,))

    seen, hidden = group("g", "id-seen"), group("h", "id-hidden")
    asked = ConsumerGroupDescribeRequest(("g", "h"))
    answer = gate.ask(asked, ConsumerGroupDescribeResponse((seen, hidden)))
    assert answer.groups == (
        seen, DescribedConsumerGroup(TOPIC_FAILED, "h", "Stable", 1, 1, "uniform", ()),
    )  # fmt: skip


def test_a_transaction_shows_the_partitions_that_may_be_described() -> None:
    gate = Gate(("transactional-id", "t", "describe"), ("topic", "seen", "describe"))
    tps = (TopicPartition("seen", 0), TopicPartition("hidden", 0))
    found = DescribedTransaction(NONE, "t", "Ongoing", 1, 1, 1, 1, tps)
    answer = gate.ask(DescribeTransactionsRequest(("t",)), DescribeTransactionsResponse((found,)))
    assert [each.partitions for each in answer.transactions] == [tps[:1]]


def test_a_name_that_no_topic_may_have_is_told_before_the_privilege() -> None:
    gate = Gate()
    wrong, hidden = TopicPartition("a/b", 0), TopicPartition("hidden", 0)
    gate.ask(DescribeProducersRequest((wrong, hidden)))
    assert gate.asked == [DescribeProducersRequest((wrong,))]


def test_who_asks_for_everything_is_told_of_no_denial() -> None:
    gate = Gate(("topic", "seen", "describe"))
    topics = tuple([MetadataTopic(name, f"id-{name}", NONE, ()) for name in ("seen", "hidden")])
    answer = gate.ask(MetadataRequest(None), MetadataResponse((), -1, topics))
    assert [each.topic for each in answer.topics] == ["seen"]
    gate.ask(ListGroupsRequest())
    assert [fact for fact in gate.process.out if isinstance(fact, Authorized)] == [
        Authorized("User:alice", "host-1", "describe", "topic", "seen", True,
                   "allow User:alice describe on topic seen", 2)
    ]  # fmt: skip


def test_in_zookeeper_mode_the_controller_is_asked_for_before_the_privilege() -> None:
    gate, active = Gate(), [False]
    gate.gate.serve_operators(lambda: active[0])
    request = CreateTopicsRequest((CreatableTopic("new", 1, 1),), 1000)
    gate.ask(request)
    assert gate.asked == [request]
    active[0] = True
    assert gate.ask(request).results == (("new", TOPIC_FAILED, "Authorization failed."),)


def test_an_expression_matches_what_its_member_may_describe() -> None:
    gate = Gate(("topic", "seen", "describe"))
    may = gate.gate.describes(1)
    assert [name for name in ("seen", "hidden") if may(name)] == ["seen"]
    assert [fact.allowed for fact in gate.process.out if isinstance(fact, Authorized)] == [True]
