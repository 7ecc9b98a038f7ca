"""What judges need to know of a scenario, as values (``analysis/judging/settings.py``)."""

from __future__ import annotations

import json
from collections.abc import Mapping

from kafkasim.analysis.judging.settings import EVERY, Settings
from kafkasim.analysis.judging.source import BrokerLimits
from kafkasim.model.config import BrokerConfig
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.running.cluster import Cluster
from kafkasim.scenarios.running.outside.groups import audited, outputs, own_groups
from kafkasim.scenarios.running.share_settings import delivery_limit

ALLOWS_UNCLEAN = "unclean.leader.election.enable"


def judged_settings(scenario: Scenario, cluster: Cluster) -> Settings:
    """Return the settings of a run."""
    expect, properties = scenario.expect, BrokerConfig.from_properties(scenario.cluster.config)
    return Settings(
        zookeeper=scenario.cluster.mode == "zookeeper",
        hosts=dict(cluster.hosts),
        voters=tuple(cluster.first_voters),
        unclean=_unclean(scenario),
        limits=_limits(properties),
        super_users=properties.super_user_names,
        allows_everyone=properties.allow_everyone_if_no_acl_found,
        share_deliveries=delivery_limit(scenario),
        own_groups=tuple(own_groups(scenario)),
        outputs=outputs(scenario),
        audited=audited(scenario),
        transactional_ids=dict(cluster.clients.transactional_ids),
        members={group: tuple(each) for group, each in cluster.clients.members.items()},
        streams={each.application_id: json.dumps(each.topology) for each in scenario.streams},
        permits=tuple(expect.permits),
        must_see=tuple(expect.must_see),
        in_time=tuple(expect.in_time),
        never=tuple(expect.never),
        faults_us=scenario.duration,
    )


def _limits(properties: BrokerConfig) -> BrokerLimits:
    return BrokerLimits(
        retention_us=properties.offsets_retention_minutes * 60_000_000,
        producer_us=properties.producer_id_expiration_ms * 1000,
    )


def _unclean(scenario: Scenario) -> tuple[str, ...]:
    """Return the topics whose settings allow unclean elections, or an operator asks for one."""
    found = [
        operation.topic or EVERY
        for operation in scenario.operations
        if (operation.kind == "elect-leader" and operation.election == "unclean")
        or _allows(operation.config)
    ]
    found += [topic.name for topic in scenario.topics if _allows(topic.config)]
    if _allows(scenario.cluster.config):
        found.append(EVERY)
    return tuple(dict.fromkeys(found))


def _allows(config: Mapping[str, object]) -> bool:
    return str(config.get(ALLOWS_UNCLEAN, "")).lower() == "true"
