"""Subscriptions by regular expression: when they are resolved, and to what (KIP-848, KIP-1082).

Kafka: GroupMetadataManager.maybeUpdateRegularExpressions and its neighbours. All expressions of a
group are resolved together, away from the coordinator's thread: for a new expression at once, and
when topics were created, at most every ten seconds. Until then a member of a new expression has no
partitions. A topic that is deleted leaves through the metadata of the group.

Kafka's expressions are RE2/J's, these are Python's. What RE2/J refuses and Python has (references
back, looking around, atomic groups, possessive repetition) is refused here, too. What is left out:
the few escapes that RE2/J alone has (``\\pN``, ``\\Q…\\E``), and the refresh of 4.1.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from kafkasim.model.coordinator.runtime import CoordinatorRuntime
from kafkasim.model.effects import Post
from kafkasim.model.errors import Errors
from kafkasim.model.group.modern.checks import refuse_if
from kafkasim.model.group.modern.log.records import (
    Entry,
    epoch_entries,
    regex_entry,
)
from kafkasim.model.group.modern.log.writer import Change, ConsumerGroupWriter
from kafkasim.model.group.modern.state.consumer_group import ConsumerGroup
from kafkasim.model.group.modern.state.member import ConsumerGroupMember
from kafkasim.model.group.modern.state.subscriptions import (
    Regexes,
    ResolvedRegularExpression,
    regex_counts,
    subscribed_topics,
)
from kafkasim.model.group.modern.state.topics import TopicsImage, describe
from kafkasim.model.group.rules import GroupRules
from kafkasim.model.group.shard import GroupShard

BATCH_REFRESH_INTERVAL_MS = 10_000
"""The least time between two refreshes of a group (REGEX_BATCH_REFRESH_INTERVAL_MS)."""

_NOT_IN_RE2 = re.compile(r"(?<!\\)(?:\\\\)*(?:\\[1-9]|\(\?(?:<?[=!]|>|P=|\()|[*+?}]\+)")


def is_valid(regex: str) -> bool:
    """Return whether RE2/J compiles an expression."""
    if _NOT_IN_RE2.search(regex):
        return False
    try:
        re.compile(regex)
    except re.error:
        return False
    return True


class RegularExpressions:
    """Resolves the regular expressions of consumer groups."""

    def __init__(
        self,
        runtime: CoordinatorRuntime,
        rules: GroupRules,
        image: TopicsImage,
        writer: ConsumerGroupWriter,
    ) -> None:
        self.runtime = runtime
        self.rules = rules
        self.image = image
        self.writer = writer
        # ``may_describe(connection)(topic)``: with an authorizer, whether a member may.
        self.may_describe: Callable[[int], Callable[[str], bool]] | None = None
        self.created_at = -1  # the metadata offset at which topics were last created
        self._scheduled: dict[str, None] = {}  # groups that are being resolved

    def update(
        self,
        shard: GroupShard,
        group: ConsumerGroup,
        old: ConsumerGroupMember,
        new: ConsumerGroupMember,
        entries: list[Entry],
        connection: int,
        now: int,
    ) -> bool:
        """Note what a member changes, and have the expressions resolved if need be.

        They match the topics that the member whose heartbeat came on ``connection`` may describe.
        Return whether the group epoch has to rise.

        Raises:
            HeartbeatRefused: INVALID_REGULAR_EXPRESSION.
        """
        counts = regex_counts(group.members)
        bump = refresh = False
        if old.regex != new.regex:
            if counts.get(old.regex) == 1:
                entries.append(regex_entry(group.group_id, old.regex, None))
            if new.regex and new.regex not in counts:
                refuse_if(not is_valid(new.regex), Errors.INVALID_REGULAR_EXPRESSION)
                refresh = True
            elif new.regex:
                bump = new.regex in group.regexes
        if (counts or refresh) and self._may_refresh(group, now):
            wanted = regex_counts(group.with_member(new))
            first = next(iter(group.regexes.values()), None)
            version = 0 if first is None else first.version
            refresh |= len(wanted) != len(group.regexes) or version < self.created_at
            if refresh and wanted:
                self._schedule(shard, group.group_id, tuple(sorted(wanted)), connection, now)
        return bump

    def after(
        self, group: ConsumerGroup, old: ConsumerGroupMember, new: ConsumerGroupMember
    ) -> Regexes:
        """Return the resolved expressions that are left when a member changes its own."""
        if old.regex == new.regex or regex_counts(group.members).get(old.regex) != 1:
            return group.regexes
        return {regex: found for regex, found in group.regexes.items() if regex != old.regex}

    def _may_refresh(self, group: ConsumerGroup, now: int) -> bool:
        if group.group_id in self._scheduled:
            return False
        first = next(iter(group.regexes.values()), None)
        if first is None:
            return True
        return self.runtime.wall_ms(now) > first.timestamp_ms + BATCH_REFRESH_INTERVAL_MS

    def _schedule(
        self,
        shard: GroupShard,
        group_id: str,
        regexes: tuple[str, ...],
        connection: int,
        now: int,
    ) -> None:
        """Resolve expressions beside the coordinator's thread, which takes the result later."""
        version, now_ms = self.image.offset, self.runtime.wall_ms(now)
        names = sorted(self.image.topic_names)
        found = {
            regex: ResolvedRegularExpression(
                self._described(_matching(regex, names), connection), version, now_ms
            )
            for regex in regexes
        }
        self._scheduled[group_id] = None

        def on_resolved(_message: None, at: int) -> None:
            self._scheduled.pop(group_id, None)
            if shard.context.is_active:
                self._store(shard, group_id, found, at)

        self.runtime.out.append(Post(shard.context.lane, on_resolved, None))

    def _described(self, topics: tuple[str, ...], connection: int) -> tuple[str, ...]:
        """Leave out what the member may not describe (filterTopicDescribeAuthorizedTopics)."""
        if self.may_describe is None:
            return topics
        return tuple(filter(self.may_describe(connection), topics))

    def _store(
        self,
        shard: GroupShard,
        group_id: str,
        found: dict[str, ResolvedRegularExpression],
        now: int,
    ) -> None:
        """Append what the expressions matched (handleRegularExpressionsResult)."""
        group = shard.consumer_groups.get(group_id)
        if group is None:
            return
        counts = regex_counts(group.members)
        found = {regex: resolved for regex, resolved in found.items() if regex in counts}
        entries = [regex_entry(group_id, regex, resolved) for regex, resolved in found.items()]
        known = group.regexes
        bump = any(
            (known[regex].topics if regex in known else ()) != resolved.topics
            for regex, resolved in found.items()
        )
        names = subscribed_topics(group.members, {**known, **found})
        metadata = describe(self.image, names, self.rules.counts_racks())
        if bump or metadata != group.metadata:
            hashed = self.rules.hashes_topics()
            entries += epoch_entries(group, group.group_epoch + 1, metadata, hashed)
        change = Change(entries)
        self.writer.write(shard, group_id, change, "regular expressions were resolved", now)


def _matching(regex: str, names: list[str]) -> tuple[str, ...]:
    matches: Callable[[str], object] = re.compile(regex).fullmatch
    return tuple([name for name in names if matches(name) is not None])
