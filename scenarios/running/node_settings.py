"""The release, properties, rules and rack of each server, and what operators change of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from kafkasim.model.broker.rules import BrokerRules
from kafkasim.model.config import BrokerConfig, Config
from kafkasim.model.controller.kraft.feature_levels import formatted
from kafkasim.model.directories import roots
from kafkasim.model.effects import Process
from kafkasim.model.facts import TimeLimit
from kafkasim.scenarios.language.tables import ClusterTable, NodeTable
from kafkasim.scenarios.variants.compose import compose, overridden_by, watched
from kafkasim.scenarios.variants.releases import BROKER, with_version
from kafkasim.scenarios.variants.rules import Rules

TIME_LIMITS = (
    "broker.heartbeat.interval.ms", "broker.session.timeout.ms", "replica.fetch.wait.max.ms",
    "replica.lag.time.max.ms", "request.timeout.ms", "zookeeper.session.timeout.ms",
)  # fmt: skip
"""The settings that judges of waits compare with; a process tells those that it has."""

FOREVER_US = 2**62
"""Longer than any run, and with room for judges to add to it"""

Started = TypeVar("Started", bound=Process)

UNCHANGED = NodeTable.model_validate({})
"""The table of a node that the scenario does not mention."""


class NodeSettings:
    """What a server is started with. An upgrade changes it for the node's next start.

    ``variants`` are the ids of those in force, and ``epochs_used`` is the history of transactional
    ids before the run. ``act(node, rule)`` is called when a variant decides otherwise on a
    node than its release, or would do so if it is watched and not in force, until it returns
    true. The rules of clients and of ZooKeeper name no node.
    """

    def __init__(
        self,
        cluster: ClusterTable,
        variants: Sequence[str],
        epochs_used: Mapping[str, int],
        act: Callable[[str, str], bool],
    ) -> None:
        self._cluster = cluster
        self._variants = compose(variants)
        self._others = compose([name for name in cluster.watched if name not in variants])
        self._overridden = overridden_by([*variants, *cluster.watched])
        self._epochs_used = epochs_used
        self._act = act
        # (release, node) -> rules with the variants in force; without any, the node is ""
        self._rules: dict[tuple[str, str], Rules] = {}
        self._installed: dict[str, str] = {}  # node -> release that an operator installed
        self._altered: dict[str, dict[str, Any]] = {}  # node -> properties that an operator set

    def version(self, node: str) -> str:
        """Return the release that a node runs, or will run once it is started."""
        own = self._table(node).kafka_version
        return self._installed.get(node) or own or self._cluster.kafka_version

    def config(self, node: str) -> BrokerConfig:
        """Return a server's configuration: release, cluster, node, operator, the last one wins."""
        return BrokerConfig.from_properties({
            **BROKER.get(self.version(node), {}),
            **self._cluster.config,
            **self._table(node).config,
            **self._altered.get(node, {}),
        })  # fmt: skip

    def rules(self, node: str | None = None) -> Rules:
        """Return the rules of a node's release, or of the cluster's, with the variants in force."""
        version = self._cluster.kafka_version if node is None else self.version(node)
        key = (version, (node or "") if self._overridden else "")
        rules = self._rules.get(key)
        if rules is None:
            rules = self._rules[key] = self._watched(*key)
        return rules

    def _watched(self, version: str, node: str) -> Rules:
        rules, others = with_version(self._variants, version), with_version(self._others, version)
        return watched(rules, others, self._overridden, partial(self._act, node))

    def broker_rules(self, node: str) -> BrokerRules:
        """Return those of a node's rules that a broker needs."""
        rules = self.rules(node)
        return BrokerRules(
            rules.replication,
            rules.storage,
            rules.raft,
            rules.group,
            rules.share,
            rules.transaction,
            rules.lifecycle,
            rules.zk_controller,
            rules.authorizer,
            rules.connections,
            rules.controller.supported_features(),
            self._epochs_used,
        )

    def rack(self, node: str, number: int) -> str | None:
        """Return the rack of the ``number``-th node of a kind, from 1; None without racks."""
        racks = self._cluster.racks
        around = racks[(number - 1) % len(racks)] if racks else None
        return self._table(node).rack or around

    def volumes(self, broker: str) -> dict[str, int]:
        """Return the capacity of each log directory of a broker, by the prefix of its files."""
        own = self._table(broker).disk_capacity
        capacity = self._cluster.disk_capacity if own is None else own
        if capacity is None:
            return {}
        return dict.fromkeys(roots(self.config(broker).log_dirs), capacity)

    def formatted_features(self) -> dict[str, int]:
        """Return the features that kafka-storage format sets: what the oldest node supports."""
        cluster = self._cluster
        rules = with_version(self._variants, cluster.versions[0])
        return formatted(rules.controller.supported_features(), cluster.features)

    def install(
        self, node: str, version: str, config: Mapping[str, Any], remove: Iterable[str]
    ) -> None:
        """Give a node another release and other properties, from its next start on.

        ``remove`` names properties that an earlier call set and that are dropped now.
        """
        self._installed[node] = version
        altered = {**self._altered.get(node, {}), **config}
        dropped = list(remove)
        self._altered[node] = {key: altered[key] for key in altered if key not in dropped}

    def _table(self, node: str) -> NodeTable:
        return self._cluster.nodes.get(node, UNCHANGED)


def told(config: Config, process: Started) -> Started:
    """Let a process tell the time limits of its configuration when it starts; return it."""
    known = config.properties()
    process.out.extend([time_limit(key, known[key]) for key in TIME_LIMITS if key in known])
    return process


def time_limit(config: str, limit_ms: int) -> TimeLimit:
    """Return the fact of a time limit. Kafka's longest ones have more µs than an int64 holds."""
    return TimeLimit(config, min(limit_ms * 1000, FOREVER_US))


def properties_text(config: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return properties sorted by name, with values as a properties file has them."""
    return tuple((key, _text(value)) for key, value in sorted(config.items()))


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
