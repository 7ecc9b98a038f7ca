"""A classic group gives way to a consumer group, with its members or without (KIP-848)."""

from __future__ import annotations

from kafkasim.model.config import BrokerConfig
from kafkasim.model.errors import Errors
from kafkasim.model.group.classic.group import ClassicGroup
from kafkasim.model.group.classic.rebalance import ClassicRebalance
from kafkasim.model.group.modern.checks import HeartbeatRefused, refuse_if
from kafkasim.model.group.modern.departures import Departures
from kafkasim.model.group.modern.log.writer import Change
from kafkasim.model.group.modern.migration.conversion import (
    ConversionError,
    may_upgrade,
    upgraded,
)
from kafkasim.model.group.modern.state.consumer_group import ConsumerGroup
from kafkasim.model.group.modern.state.topics import TopicsImage
from kafkasim.model.group.records import GroupMetadataKey
from kafkasim.model.group.rules import GroupRules
from kafkasim.model.group.shard import GroupShard


class Upgrades:
    """Makes consumer groups of classic ones."""

    def __init__(
        self,
        config: BrokerConfig,
        rules: GroupRules,
        image: TopicsImage,
        classic: ClassicRebalance,
        departures: Departures,
    ) -> None:
        self._config = config
        self._rules = rules
        self._image = image
        self._classic = classic
        self._departures = departures

    def replace(self, classic: ClassicGroup, change: Change) -> ConsumerGroup:
        """Return a new consumer group in place of an empty classic one."""
        change.entries.append((GroupMetadataKey(classic.group_id), None))
        change.replaces = classic
        change.then.append(lambda _now: self._classic.cancel_timers(classic))
        return ConsumerGroup(classic.group_id, self._rules)

    def convert(
        self, shard: GroupShard, classic: ClassicGroup, change: Change, now: int
    ) -> ConsumerGroup:
        """Return the consumer group that a classic group with members becomes.

        Its parked joins and syncs are answered REBALANCE_IN_PROGRESS before the write, so also if
        that fails (convertToConsumerGroup).

        Raises:
            HeartbeatRefused: GROUP_ID_NOT_FOUND, it may not be converted, or user data would be
                lost; UNKNOWN_SERVER_ERROR, it cannot.
        """
        config, group_id = self._config, classic.group_id
        allowed = may_upgrade(
            classic, config.group_consumer_migration_policy, config.group_consumer_max_size
        )
        refuse_if(not allowed, Errors.GROUP_ID_NOT_FOUND)
        self._classic.fail_parked(classic, Errors.REBALANCE_IN_PROGRESS)
        try:
            group, entries = upgraded(classic, self._rules, self._image)
        except ConversionError as error:
            raise HeartbeatRefused(error.error) from None
        change.entries += entries
        change.converts_to = "consumer"

        def follow(at: int) -> None:
            self._classic.cancel_timers(classic)
            for member in classic.members.values():
                session_ms = member.session_timeout_ms
                self._departures.arm_session(shard, group_id, member.member_id, at, session_ms)

        change.then.append(follow)
        return group
