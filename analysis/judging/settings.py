"""What judges take from a scenario: values that a stored run's manifest holds, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafkasim.analysis.judging.source import BrokerLimits

EVERY = "*"
"""Stands for every topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The cluster of a scenario, its brokers' limits, what its groups do, and what it expects."""

    zookeeper: bool = False
    hosts: Mapping[int, str] = field(default_factory=dict)  # controllers or ZooKeeper servers
    voters: tuple[int, ...] = ()  # the ids of the first voters
    unclean: tuple[str, ...] = ()  # topics that may elect uncleanly, now or later in the run
    limits: BrokerLimits = field(default_factory=BrokerLimits)
    share_deliveries: int = 5  # group.share.delivery.count.limit
    super_users: tuple[str, ...] = ()
    allows_everyone: bool = False  # allow.everyone.if.no.acl.found
    own_groups: tuple[str, ...] = ()  # groups whose members are a user's application
    outputs: Mapping[str, str] = field(default_factory=dict)
    """By group of a user's application: the topic with one record for each of its inputs"""
    streams: Mapping[str, str] = field(default_factory=dict)
    """By application.id of Kafka Streams: its topology as a scenario declares it, in JSON"""
    permits: tuple[str, ...] = ()  # findings that it allows (``verdict.py:Expectations``)
    must_see: tuple[str, ...] = ()
    in_time: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    faults_us: int = 0  # how long after ready the faults are healed
    audited: tuple[str, ...] = ()  # topics of which producers publish how many records they sent

    transactional_ids: Mapping[str, str] = field(default_factory=dict)  # by client host
    members: Mapping[str, Sequence[str]] = field(default_factory=dict)  # group -> client hosts

    def allows_unclean(self, topic: str) -> bool:
        """Return whether unclean elections of a topic may be held.

        Its configuration allows them, now or later in the run, or an operator asks for one.
        """
        return topic in self.unclean or EVERY in self.unclean


def settings_of(judged_by: Mapping[str, Any]) -> Settings:
    """Return the settings of a cluster that a run's manifest holds."""
    stored = dict(judged_by)
    stored["hosts"] = {int(node_id): host for node_id, host in stored["hosts"].items()}
    stored["limits"] = BrokerLimits(**stored["limits"])
    lists = [name for name, value in stored.items() if isinstance(value, list)]
    return Settings(**(stored | {name: tuple(stored[name]) for name in lists}))
