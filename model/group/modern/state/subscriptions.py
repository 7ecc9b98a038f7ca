"""What follows from the subscriptions of a group's members."""

from __future__ import annotations

from collections.abc import Mapping

from kafkasim.model.group.modern.assignors.spec import SubscriptionType
from kafkasim.model.group.modern.state.member import ConsumerGroupMember
from kafkasim.model.values import value


@value
class ResolvedRegularExpression:
    """The topics that matched a regular expression."""

    topics: tuple[str, ...]  # rising
    version: int  # the metadata offset as of which they did
    timestamp_ms: int


Members = Mapping[str, ConsumerGroupMember]
Regexes = Mapping[str, ResolvedRegularExpression]


def subscribed_topics(members: Members, regexes: Regexes) -> dict[str, tuple[int, int]]:
    """Return the subscribed topics: (members by name, expressions that match), by name, rising."""
    names: dict[str, tuple[int, int]] = {}
    for member in members.values():
        for topic in member.topics:
            by_name, by_regex = names.get(topic, (0, 0))
            names[topic] = (by_name + 1, by_regex)
    for resolved in regexes.values():
        for topic in resolved.topics:
            by_name, by_regex = names.get(topic, (0, 0))
            names[topic] = (by_name, by_regex + 1)
    return {topic: names[topic] for topic in sorted(names)}


def regex_counts(members: Members) -> dict[str, int]:
    """Return how many members subscribe to each regular expression."""
    counts: dict[str, int] = {}
    for member in members.values():
        if member.regex:
            counts[member.regex] = counts.get(member.regex, 0) + 1
    return counts


def subscription_type(members: Members, regexes: Regexes) -> SubscriptionType:
    """Return whether all members subscribe to the same topics (ConsumerGroup.subscriptionType)."""
    names = subscribed_topics(members, regexes)
    counts = regex_counts(members)
    if not counts:
        same = all(by_name == len(members) for by_name, _ in names.values())
    else:  # one expression for all, and no names beside it
        same = next(iter(counts.values())) == len(members) and all(
            by_name == 0 and by_regex == 1 for by_name, by_regex in names.values()
        )
    return SubscriptionType.HOMOGENEOUS if same else SubscriptionType.HETEROGENEOUS


def preferred_assignor(members: Members) -> str | None:
    """Return the assignor that most members ask for, None if none asks for one.

    Kafka takes the first of its hash map among equals, which is uniform before range.
    """
    counts = {"uniform": 0, "range": 0}
    for member in members.values():
        if member.server_assignor is not None:
            counts[member.server_assignor] += 1
    best = max(counts, key=lambda name: counts[name])
    return best if counts[best] else None
