"""What share of the drawn scenarios is in which world.

``python -m kafkasim.scenarios.searching.worlds.shares`` prints it.

The search finds no bug of a rule that no drawn scenario exercises. So this table has each kind of
world with the share of seeds that must have it. Scenarios are drawn, but not run.
``tests/scenarios/test_swarm_shares.py`` fails if a share is too small.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from kafkasim.model.controller.common.records import ELR_FEATURE
from kafkasim.model.records import COORDINATOR_TOPICS
from kafkasim.scenarios.language.units import duration_us
from kafkasim.scenarios.searching.draw import MODES, draw, mode_of

Scenario = dict[str, Any]

LAG_MS = 30_000
"""Kafka's default of replica.lag.time.max.ms."""

SESSION_MS = {"kraft": 9000, "zookeeper": 18_000}
"""Kafka's default of a broker's session timeout."""

LONG_US = 50_000_000
"""A run of about a minute lasts at least so long."""


@dataclass(frozen=True)
class World:
    """A kind of world: its name, the modes that have it, the share of their seeds that must."""

    name: str
    modes: Sequence[str]
    least: float
    fits: Callable[[Scenario], bool]


def table(seeds: Iterable[int]) -> Iterator[tuple[World, str, float]]:
    """Yield each world, each of its modes, and the share of the mode's seeds that have it."""
    drawn: dict[str, list[Scenario]] = {mode: [] for mode in MODES}
    for seed in seeds:
        drawn[mode_of(seed)].append(draw(seed))
    for world in WORLDS:
        for mode in world.modes:
            yield world, mode, sum(map(world.fits, drawn[mode])) / len(drawn[mode])


# --------------------------------------------------------------------------------- of the cluster


def _config(name: str) -> Callable[[Scenario], Any]:
    return lambda data: data["cluster"]["config"].get(name)


def _servers(count: int) -> Callable[[Scenario], bool]:
    return lambda data: count in (data["cluster"].get(key) for key in ("controllers", "zookeepers"))


def _release(*names: str) -> Callable[[Scenario], bool]:
    return lambda data: data["cluster"].get("kafka-version", "4.0") in names


def _elr(data: Scenario) -> bool:
    cluster = data["cluster"]
    features = cluster.get("features", {})
    return cluster.get("kafka-version") == "4.1" or ELR_FEATURE in features


def _timers(data: Scenario) -> tuple[float, float]:
    """Return a broker's lag and session timeouts, each as a multiple of Kafka's default."""
    config = data["cluster"]["config"]
    mode = data["cluster"].get("mode", "kraft")
    session = {"kraft": "broker.session.timeout.ms", "zookeeper": "zookeeper.session.timeout.ms"}
    return (
        config["replica.lag.time.max.ms"] / LAG_MS,
        config[session[mode]] / SESSION_MS[mode],
    )


def _lag_first(data: Scenario) -> bool:
    lag, session = _timers(data)
    return lag * LAG_MS < session * SESSION_MS[data["cluster"].get("mode", "kraft")]


def _reads_by_rack(data: Scenario) -> bool:
    groups = [each for each in data["workload"] if "rack" in each]
    return bool(groups and _config("replica.selector.class")(data) and data["cluster"]["racks"])


# ------------------------------------------------------------------------------------ what happens


def _operated(data: Scenario, *kinds: str) -> list[Scenario]:
    return [each for each in data.get("operations", ()) if each["kind"] in kinds]


def _voters_change(data: Scenario) -> bool:
    return bool(data["faults"]) and bool(_operated(data, "add-voter", "remove-voter"))


def _voter_disk_replaced(data: Scenario) -> bool:
    replaced = [each["node"] for each in _operated(data, "replace-disk")]
    return any(node.startswith("controller-") for node in replaced)


def _first_voter_disk_replaced(data: Scenario) -> bool:
    """Return whether a controller that votes from the start gets an empty disk."""
    first = [f"controller-{n + 1}" for n in range(data["cluster"].get("controllers", 0))]
    return any(each["node"] in first for each in _operated(data, "replace-disk"))


def _features_change(data: Scenario) -> bool:
    return bool(_operated(data, "update-features"))


def _unclean(data: Scenario) -> bool:
    key = "unclean.leader.election.enable"
    changed = _operated(data, "alter-config")
    return any(each.get("config", {}).get(key) for each in (*data["topics"], *changed))


def _min_isr(rises: bool) -> Callable[[Scenario], bool]:
    key = "min.insync.replicas"

    def changes(data: Scenario) -> bool:
        values = [data["topics"][0]["config"].get(key, 1)]
        changed = [each for each in _operated(data, "alter-config") if key in each["config"]]
        values += [each["config"][key] for each in sorted(changed, key=_begins)]
        pairs = pairwise(values)
        return any(before != after and (before < after) is rises for before, after in pairs)

    return changes


def _begins(what: Scenario) -> tuple[bool, int]:
    """Return whether a fault or operation waits for a fact, and its time or delay in µs."""
    at = what.get("at", "0ms")
    return "when" in what, duration_us(at[0] if isinstance(at, list) else at)


def _leaves_for_good(data: Scenario) -> bool:
    """Return whether a broker goes and stays away until all faults are healed."""
    ways = ("crash", "power-loss", "stop", "isolate")
    gone = [each for each in data["faults"] if each["kind"] in ways and "node" in each]
    return any(_is_broker(each["node"]) and not each.keys() & {"for", "until"} for each in gone)


def _is_broker(node: str) -> bool:
    return node.startswith(("broker-", "any-broker", "leader:", "follower:"))


def _loses_zookeeper(data: Scenario) -> bool:
    """Return whether leaders are elected, and a broker is cut off from ZooKeeper alone."""
    cuts = [each.get("peers", ("",)) for each in data["faults"] if each["kind"] == "partition"]
    alone = [all(peer.startswith("zookeeper-") for peer in peers) for peers in cuts]
    return any(alone) and bool(_operated(data, "elect-leader"))


def _is_long(data: Scenario) -> bool:
    return duration_us(data["duration"]) >= LONG_US


def _is_full(data: Scenario) -> bool:
    """Return whether a long run has many events, also in its second half."""
    times = [_begins(each) for each in (*data["faults"], *data.get("operations", ()))]
    late = [us for seen, us in times if not seen and us >= LONG_US // 2]
    return _is_long(data) and len(late) >= 5


def _records_deleted(data: Scenario) -> bool:
    return bool(_operated(data, "delete-records"))


def _records_expire(data: Scenario) -> bool:
    """Return whether the topic deletes records by age or size, from the start or later."""
    changed = _operated(data, "alter-config")
    configs = [each.get("config", {}) for each in (*data["topics"], *changed)]
    return any(config.get(key, -1) != -1 for config in configs for key in RETENTION)


RETENTION = ("retention.ms", "retention.bytes")


def _batches_are_full(data: Scenario) -> bool:
    """Return whether a producer waits for more records than one: its batches have many."""
    producers = [each for each in data["workload"] if each["kind"] == "producer"]
    return any(each.get("config", {}).get("linger.ms") for each in producers)


def _spoiled_moves(data: Scenario) -> bool:
    """Return whether a server is deaf, slow or cut off in a run in which leaderships move twice."""
    spoiled = ("partition", "partition-oneway", "slow-link", "flaky", "hold", "slow-disk")
    links = [each for each in data["faults"] if each["kind"] in spoiled]
    moves = _operated(data, "elect-leader")
    return bool(links) and len(moves) > 1


def _waits(key: str) -> Callable[[Scenario], bool]:
    """Return whether a fault begins (``when``) or ends (``until``) at a fact."""
    return lambda data: any(key in each for each in data["faults"])


def _ends(*keys: str) -> Callable[[Scenario], bool]:
    """Return whether a fault ends at a fact with fields, a bound, a host or a count."""
    return lambda data: any(each.get("until", {}).keys() & set(keys) for each in data["faults"])


def _overtakes(data: Scenario) -> bool:
    """Return whether records are deleted as soon as a replica lacks some that are committed."""
    bounds = [each.get("when", {}).get("at-most", {}) for each in data.get("operations", ())]
    return any("acknowledged" in bound for bound in bounds)


def _voters_change_in_elections(data: Scenario) -> bool:
    """Return whether an operator changes the voters at a fact of the quorum."""
    waits = [each.get("when", {}) for each in _operated(data, "add-voter", "remove-voter")]
    return any(when.get("fact") in ("RaftRole", "VotersChanged") for when in waits)


def _sharing(data: Scenario) -> list[str]:
    """Return the isolation level of each share group."""
    groups = [each for each in data["workload"] if each["kind"] == "share-group"]
    return [each["group-config"]["share.isolation.level"] for each in groups]


def _transacts(data: Scenario) -> bool:
    return any(
        "transactional-id" in each or each["kind"] == "processor" for each in data["workload"]
    )


def _at_steps(*apis: str) -> Callable[[Scenario], bool]:
    """Return whether a fault strikes a client when it sends or gets a message (of these APIs)."""

    def struck(data: Scenario) -> bool:
        waits = [each.get("when", {}) for each in data["faults"] if each.get("node") == "@node"]
        named = [when.get("request") or when.get("response") for when in waits]
        return any(api is not None and (not apis or api in apis) for api in named)

    return struck


JOINS = ("JoinGroup", "SyncGroup", "ConsumerGroupHeartbeat")


def _recreated(data: Scenario) -> bool:
    """Return whether one of several topics that a group reads is deleted and created again."""
    gone = [each["topic"] for each in _operated(data, "delete-topic")]
    again = [each["topic"] for each in _operated(data, "create-topic") if each["topic"] in gone]
    return any(len(w.get("topics", ())) > 1 and set(w["topics"]) & set(again)
               for w in data["workload"])  # fmt: skip


def _comes_late(data: Scenario) -> bool:
    """Return whether groups start without a topic that they read, and that is created later."""
    soon = [each for each in _operated(data, "delete-topic") if isinstance(each.get("at"), str)]
    gone = [each["topic"] for each in soon if duration_us(each["at"]) <= 300_000]
    again = [each["topic"] for each in _operated(data, "create-topic") if each["topic"] in gone]
    return any(set(each.get("topics", ())) & set(again) for each in data["workload"])


def _roles_clock_steps(data: Scenario) -> bool:
    """Return whether the clock of whoever is a coordinator or the controller jumps."""
    roles = ("coordinator:", "transaction-coordinator:", "active-controller")
    stepped = [each["node"] for each in data["faults"] if each["kind"] == "clock-step"]
    return any(node.startswith(roles) for node in stepped)


def _internal_topics_move(data: Scenario) -> bool:
    moves = _operated(data, "reassign")
    return any(each["topic"] in COORDINATOR_TOPICS for each in moves)


def _leads_again(data: Scenario) -> bool:
    """Return whether a partition gets another leader and the first one back, beside a hold."""
    moves = _operated(data, "reassign")
    orders = [(each["topic"], each.get("partition"), each.get("replicas")) for each in moves]
    back = any(orders[n] == orders[n + 2] != orders[n + 1] for n in range(len(orders) - 2))
    return back and any(each["kind"] == "hold" for each in data["faults"])


def _leases_outlast(data: Scenario) -> bool:
    """Return whether a consumer keeps to a read replica for longer than the run."""
    ages = [each["config"].get("metadata.max.age.ms", 0) for each in data["workload"]
            if "rack" in each]  # fmt: skip
    return _reads_by_rack(data) and 1000 * max(ages) > duration_us(data["duration"])


BOTH, KRAFT, ZOOKEEPER = MODES, MODES[:1], MODES[1:]

WORLDS: tuple[World, ...] = (
    World("voters change under faults", KRAFT, 0.1, _voters_change),
    World("a controller's disk is replaced", KRAFT, 0.06, _voter_disk_replaced),
    World("a first voter's disk is replaced", KRAFT, 0.03, _first_voter_disk_replaced),
    World("50 s or longer", BOTH, 0.04, _is_long),
    World("50 s or longer, and full of events", BOTH, 0.01, _is_full),
    World("one controller or ZooKeeper server", BOTH, 0.1, _servers(1)),
    World("three of them", BOTH, 0.1, _servers(3)),
    World("five of them", BOTH, 0.03, _servers(5)),
    World("ELR on from the start", KRAFT, 0.2, _elr),
    World("ELR off at the start", KRAFT, 0.2, lambda data: not _elr(data)),
    World("ELR turned on or off", KRAFT, 0.03, _features_change),
    World("unclean elections of the topic", BOTH, 0.05, _unclean),
    World("min.insync.replicas lowered", BOTH, 0.05, _min_isr(rises=False)),
    World("min.insync.replicas raised", BOTH, 0.05, _min_isr(rises=True)),
    World("a broker leaves for good", BOTH, 0.05, _leaves_for_good),
    World("leaders move without ZooKeeper", ZOOKEEPER, 0.03, _loses_zookeeper),
    World("reads by rack", BOTH, 0.05, _reads_by_rack),
    World("lag before session", BOTH, 0.2, _lag_first),
    World("session before lag", BOTH, 0.2, lambda data: not _lag_first(data)),
    World("lag up to a tenth of Kafka's", BOTH, 0.1, lambda data: _timers(data)[0] <= 0.1),
    World("lag of Kafka's or longer", BOTH, 0.03, lambda data: _timers(data)[0] >= 1),
    World("session up to a fifth of Kafka's", BOTH, 0.05, lambda data: _timers(data)[1] <= 0.2),
    World("session of Kafka's or longer", BOTH, 0.03, lambda data: _timers(data)[1] >= 1),
    World("records are deleted", BOTH, 0.08, _records_deleted),
    World("records expire", BOTH, 0.03, _records_expire),
    World("offsets expire", BOTH, 0.02,
          lambda data: _config("offsets.retention.minutes")(data) is not None),
    World("batches of many records", BOTH, 0.1, _batches_are_full),
    World("leaders move while a link is spoiled", BOTH, 0.1, _spoiled_moves),
    World("a fault begins at a fact", BOTH, 0.5, _waits("when")),
    World("a fault ends at a fact", BOTH, 0.1, _waits("until")),
    World("a fault ends at a fact with fields", BOTH, 0.06, _ends("fields")),
    World("a fault ends at a fact with a bound", BOTH, 0.05, _ends("at-least", "at-most")),
    World("a fault ends at a fact of a role", BOTH, 0.05, _ends("node")),
    World("a fault ends at the n-th fact", BOTH, 0.06, _ends("count")),
    World("the log start passes a follower", BOTH, 0.03, _overtakes),
    World("voters change in an election", KRAFT, 0.03, _voters_change_in_elections),
    World("an old metadata.version", KRAFT, 0.03,
          lambda data: data["cluster"].get("features", {}).get("metadata.version", 25) < 22),
    World("a share group", KRAFT, 0.1, lambda data: bool(_sharing(data))),
    World("a share group that reads committed records", KRAFT, 0.04,
          lambda data: "read_committed" in _sharing(data)),
    World("a share group beside transactions", KRAFT, 0.03,
          lambda data: bool(_sharing(data)) and _transacts(data)),
    World("a client is struck at a step", BOTH, 0.05, _at_steps()),
    World("a member is struck while it joins", BOTH, 0.01, _at_steps(*JOINS)),
    World("a share session ends at a step", KRAFT, 0.01,
          _at_steps("ShareFetch", "ShareAcknowledge")),
    World("one of two topics is recreated", BOTH, 0.015, _recreated),
    World("a subscribed topic comes late", BOTH, 0.008, _comes_late),
    World("transactional ids expire", BOTH, 0.02,
          lambda data: _config("transactional.id.expiration.ms")(data) is not None),
    World("a coordinator's or controller's clock jumps", BOTH, 0.025, _roles_clock_steps),
    World("internal topics move", BOTH, 0.03, _internal_topics_move),
    World("a broker leads again while messages wait", BOTH, 0.02, _leads_again),
    World("a read replica outlasts the run", BOTH, 0.015, _leases_outlast),
    World("2.8", ZOOKEEPER, 0.3, _release("2.8-zk")),
    World("3.9", BOTH, 0.1, _release("3.9")),
    World("4.0", KRAFT, 0.1, _release("4.0")),
    World("4.1", KRAFT, 0.1, _release("4.1")),
    World("inter.broker.protocol.version 2.6", ZOOKEEPER, 0.3,
          lambda data: _config("inter.broker.protocol.version")(data) is not None),
)  # fmt: skip
"""Every world that the search is to visit. A share is above what a few hundred seeds may miss."""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--seeds", type=int, default=400, help="how many (default 400)")
    options = parser.parse_args()
    print(f"{'world':38} {'mode':10} {'least':>6} {'drawn':>6}")
    for world, mode, share in table(range(options.first, options.first + options.seeds)):
        short = "  falls short" if share < world.least else ""
        print(f"{world.name:38} {mode:10} {world.least:6.1%} {share:6.1%}{short}")


if __name__ == "__main__":
    main()
