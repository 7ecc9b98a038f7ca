"""What an answer holds only for whoever may describe it: topics, groups and transactional ids.

KafkaApis looks at these once the answer is there; what the sender may not describe is left out, or
hides the group that it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kafkasim.model.controller.common.authorization.access import Access
from kafkasim.model.controller.common.authorization.privileges import TOPIC_FAILED, Merge
from kafkasim.model.messages import (
    ConsumerGroupDescribeRequest,
    DescribeTransactionsRequest,
    ListGroupsRequest,
    ListTransactionsRequest,
)
from kafkasim.model.messages.clients.acls import DESCRIBE, GROUP, TOPIC, TRANSACTIONAL_ID
from kafkasim.model.messages.share import (
    DescribedShareGroupOffsets,
    DescribeShareGroupOffsetsRequest,
    ShareGroupDescribeRequest,
    ShareGroupOffset,
)

Answer = Callable[[Access, Any], Merge]
"""``answer(access, request)`` is what becomes of the answer for the sender."""


def _listed_groups(access: Access, _request: Any) -> Merge:
    """Whoever may describe the cluster sees all groups, others those that they may describe."""
    if access.may_with_cluster(DESCRIBE, log_denied=False):
        return lambda answer: answer

    def only_described(answer: Any) -> Any:
        seen = [each for each in answer.groups
                if access.may(DESCRIBE, GROUP, each.group_id, log_denied=False)]  # fmt: skip
        return replace(answer, groups=tuple(seen))

    return only_described


def _listed_transactions(access: Access, _request: Any) -> Merge:
    def only_described(answer: Any) -> Any:
        seen = [each for each in answer.transactions
                if access.may(DESCRIBE, TRANSACTIONAL_ID, each[0])]  # fmt: skip
        return replace(answer, transactions=tuple(seen))

    return only_described


def _described_transactions(access: Access, _request: Any) -> Merge:
    """A transaction shows the partitions whose topics may be described."""

    def only_described(answer: Any) -> Any:
        seen = [
            replace(each, partitions=tuple(
                [tp for tp in each.partitions if access.may(DESCRIBE, TOPIC, tp.topic)]
            ))
            for each in answer.transactions
        ]  # fmt: skip
        return replace(answer, transactions=tuple(seen))

    return only_described


def _described_groups(assignments: Callable[[Any], tuple[Any, ...]]) -> Answer:
    """Hide the members of a group if one of them has a topic that may not be described
    (KAFKA-18813, KAFKA-18817); ``assignments(member)`` are of (topic id, partitions)."""

    def topics(access: Access, group: Any) -> list[str]:
        ids = [topic_id for member in group.members
               for assignment in assignments(member) for topic_id, _ in assignment]  # fmt: skip
        names = [access.topic_name(topic_id) for topic_id in dict.fromkeys(ids)]
        return [name for name in names if name is not None]

    def answer_for(access: Access, _request: Any) -> Merge:
        def hidden(group: Any) -> Any:
            if all(access.may(DESCRIBE, TOPIC, name) for name in topics(access, group)):
                return group
            return replace(group, error=TOPIC_FAILED, members=())

        return lambda answer: replace(answer, groups=tuple(map(hidden, answer.groups)))

    return answer_for


def _share_offsets(access: Access, request: DescribeShareGroupOffsetsRequest) -> Merge:
    """A topic that a group was asked for is refused, one of all of its topics left out."""
    all_topics = {group.group_id: group.topics is None for group in request.groups}

    def of_group(group: DescribedShareGroupOffsets) -> DescribedShareGroupOffsets:
        seen = []
        for name, topic_id, offsets in group.topics:
            if access.may(DESCRIBE, TOPIC, name):
                seen.append((name, topic_id, offsets))
            elif not all_topics.get(group.group_id, False):
                refused = [ShareGroupOffset(each.partition_index, -1, 0, TOPIC_FAILED)
                           for each in offsets]  # fmt: skip
                seen.append((name, "", tuple(refused)))
        return replace(group, topics=tuple(seen))

    return lambda answer: replace(answer, groups=tuple(map(of_group, answer.groups)))


ANSWERS: dict[type, Answer] = {
    ListGroupsRequest: _listed_groups,
    ListTransactionsRequest: _listed_transactions,
    DescribeTransactionsRequest: _described_transactions,
    ConsumerGroupDescribeRequest: _described_groups(
        lambda member: (member.assignment, member.target_assignment)
    ),
    ShareGroupDescribeRequest: _described_groups(lambda member: (member.assignment,)),
    DescribeShareGroupOffsetsRequest: _share_offsets,
}
"""What becomes of the answer to a request for its sender: ``ANSWERS[type](access, request)``."""


def then(first: Merge, second: Merge | None) -> Merge:
    """Return both, one after the other."""
    return first if second is None else lambda answer: second(first(answer))
