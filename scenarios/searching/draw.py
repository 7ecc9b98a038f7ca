"""Draw a whole scenario from a seed, so that no two runs test the same cluster.

A seed becomes a scenario in this order: a cluster and its topic (draw_cluster.py), workloads
(draw_workload.py), faults (draw_faults.py) and operations (draw_operations.py). In most seeds a
*chain* of events, one shortly after the other (chains/chain.py), or a *shape*, a few small faults
close together in place and time (draw_shape.py, shapes/), then replaces the faults and operations.

The following steps change some of the scenarios, in this order:

- A second log directory fails, a topic grows, or records are deleted.
- On KRaft, groups use the consumer protocol (KIP-848). Producers use transactions
  (draw_transactions.py), and some of their requests or responses are late. Late responses are lost
  with their connection. In ZooKeeper mode, groups are of old consumers. Groups subscribe by
  patterns, or change their protocol during the run.
- Timers and buffers are lowered until a run exceeds them (clients/limits.py). In half of the seeds
  faults hit clients and coordinators, too (clients/meeting.py). A message of a producer is delayed
  until it may give up (clients/patience.py). A few seeds are quiet for a minute, and then a group
  rebalances.
- How groups commit, and how producers compress and partition, is chosen (choices/clients.py), with
  users' assignors and partitioners (choices/custom.py). An operator resets or deletes the offsets
  of a group (choices/offsets.py).
- Worlds (worlds/): the voters of the quorum change, brokers leave for good, lag and session times
  are up to ten times Kafka's, the topic's settings change, the release is the newest, transactional
  ids have few epochs left, a segment holds a few batches, a broker loses ZooKeeper while leaders
  move.
- Idle time, rates and the duration are lowered to a budget of exchanges (budget.py).
- An operator sets quotas, upgrades the cluster, unregisters a broker (choices/operators.py).
- Clusters of 4.1 have a share group (choices/share_groups.py), and most of these groups get faults
  of their own (choices/sharing.py).
- The log start passes the log end of a follower that is away (chains/overtaken.py), or the voters
  change during an election (worlds/voters.py). Faults begin and end at triggers
  (choices/triggers.py).
- Rare cases (seldom/): a client is struck at a step of its protocol, one of two topics is
  recreated or created late, transactional ids expire, clocks of coordinators jump, internal topics
  are moved, consumers keep an outdated read replica, a broker loses a role and gets it back while
  its messages are under way.
- Everything that could have no effect is replaced or removed (choices/effects.py).

Timeouts are lowered to seconds, so that sessions end, replicas fall behind and leaders move within
a run of a few seconds. Each seed leaves out most kinds of faults, so that the others coincide more
often (Groce et al., Swarm Testing, 2012). What a drawn scenario permits depends on its
configuration only. :mod:`kafkasim.scenarios.searching.search` runs the scenarios.
"""

from __future__ import annotations

import random
from typing import Any

from kafkasim.scenarios.searching.budget import within_budget
from kafkasim.scenarios.searching.chains.chain import play_chain
from kafkasim.scenarios.searching.chains.overtaken import overtaken
from kafkasim.scenarios.searching.choices.clients import codecs, commits, partitioners
from kafkasim.scenarios.searching.choices.custom import assignors
from kafkasim.scenarios.searching.choices.effects import effects
from kafkasim.scenarios.searching.choices.offsets import tamper_with_offsets
from kafkasim.scenarios.searching.choices.operators import (
    client_quotas,
    duplicates,
    hanging_aborted,
    looks_at_the_quorum,
    unregistered,
    upgrades,
)
from kafkasim.scenarios.searching.choices.share_groups import share_groups, share_meetings
from kafkasim.scenarios.searching.choices.triggers import triggers
from kafkasim.scenarios.searching.clients.limits import limits
from kafkasim.scenarios.searching.clients.meeting import meetings
from kafkasim.scenarios.searching.clients.patience import patience
from kafkasim.scenarios.searching.draw_cluster import (
    add_quorum,
    cluster,
    compaction,
    tables,
    topic,
)
from kafkasim.scenarios.searching.draw_faults import (
    faults,
    lost_replies,
    more_faults,
    two_directories,
)
from kafkasim.scenarios.searching.draw_operations import (
    delete_records,
    grow,
    more_operations,
    operations,
)
from kafkasim.scenarios.searching.draw_shape import play_shape
from kafkasim.scenarios.searching.draw_transactions import stalls, transactions
from kafkasim.scenarios.searching.draw_workload import (
    consumer_groups,
    migrations,
    old_consumers,
    patterns,
    permitted,
    quiet_groups,
    rack_readers,
    workloads,
)
from kafkasim.scenarios.searching.seldom.clocks import stepped_clocks
from kafkasim.scenarios.searching.seldom.idle_ids import idle_ids
from kafkasim.scenarios.searching.seldom.internal_topics import moved_internal_topics
from kafkasim.scenarios.searching.seldom.read_leases import read_leases
from kafkasim.scenarios.searching.seldom.recreated import late_topics, recreated_topics
from kafkasim.scenarios.searching.seldom.steps import client_steps
from kafkasim.scenarios.searching.seldom.tenures import returning_roles
from kafkasim.scenarios.searching.shapes.apart import is_about_its_faults
from kafkasim.scenarios.searching.worlds.departures import leave_for_good
from kafkasim.scenarios.searching.worlds.histories import histories
from kafkasim.scenarios.searching.worlds.releases import (
    features_change,
    newest_release,
    segments_that_all_take,
)
from kafkasim.scenarios.searching.worlds.sessions import lost_sessions
from kafkasim.scenarios.searching.worlds.timers import any_timers, few_records
from kafkasim.scenarios.searching.worlds.topic_settings import (
    min_isr_changes,
    one_batch_segments,
    unclean_elections,
)
from kafkasim.scenarios.searching.worlds.voters import changes_in_elections, voter_changes

MODES = ("kraft", "zookeeper")

CHAINS = 0.35
"""The share of seeds that play a chain."""

SHAPES = 0.5
"""The share of seeds that play a shape. The others play what was drawn independently."""


def mode_of(seed: int) -> str:
    """Return the mode that a seed draws: even seeds KRaft, odd seeds ZooKeeper."""
    return MODES[seed % 2]


def draw(seed: int) -> dict[str, Any]:
    """Return the data of the scenario with this number, as a TOML file would give it.

    Each step that was added later draws from a stream of its own, so that it changed nothing
    else in the scenarios of known seeds.
    """
    data = _draw(seed)
    consumer_groups(random.Random(f"swarm/{seed}/consumer-groups"), data)
    transactions(random.Random(f"swarm/{seed}/transactions"), data)
    stalls(random.Random(f"swarm/{seed}/transaction-stalls"), data)
    old_consumers(random.Random(f"swarm/{seed}/old-consumers"), data)
    lost_replies(random.Random(f"swarm/{seed}/lost-replies"), data)
    patterns(random.Random(f"swarm/{seed}/patterns"), data)
    migrations(random.Random(f"swarm/{seed}/migrations"), data)
    rack_readers(random.Random(f"swarm/{seed}/rack-readers"), data)
    limits(random.Random(f"swarm/{seed}/limits"), data)
    meetings(random.Random(f"swarm/{seed}/meetings"), data, mode_of(seed))
    compaction(random.Random(f"swarm/{seed}/compaction"), data)
    tables(random.Random(f"swarm/{seed}/tables"), data)
    patience(random.Random(f"swarm/{seed}/patience"), data, mode_of(seed))
    quiet_groups(random.Random(f"swarm/{seed}/quiet"), data)
    commits(random.Random(f"swarm/{seed}/commits"), data)
    codecs(random.Random(f"swarm/{seed}/codecs"), data)
    partitioners(random.Random(f"swarm/{seed}/partitioners"), data)
    tamper_with_offsets(random.Random(f"swarm/{seed}/offsets"), data)
    assignors(random.Random(f"swarm/{seed}/assignors"), data)
    worlds(seed, data)
    within_budget(random.Random(f"swarm/{seed}/budget"), data)
    client_quotas(random.Random(f"swarm/{seed}/quotas"), data)
    upgrades(random.Random(f"swarm/{seed}/upgrades"), data)
    unregistered(random.Random(f"swarm/{seed}/unregistered"), data)
    looks_at_the_quorum(random.Random(f"swarm/{seed}/looks"), data)
    hanging_aborted(random.Random(f"swarm/{seed}/hanging"), data)
    duplicates(random.Random(f"swarm/{seed}/duplicates"), data)
    share_groups(random.Random(f"swarm/{seed}/share-groups"), data)
    share_meetings(random.Random(f"swarm/{seed}/share-meetings"), data)
    overtaken(random.Random(f"swarm/{seed}/overtaken"), data, mode_of(seed))
    changes_in_elections(random.Random(f"swarm/{seed}/elections"), data)
    triggers(random.Random(f"swarm/{seed}/triggers"), data, mode_of(seed))
    seldom(seed, data)
    effects(random.Random(f"swarm/{seed}/effects"), data, mode_of(seed))
    segments_that_all_take(data)
    return data


def worlds(seed: int, data: dict[str, Any]) -> None:
    """Put some scenarios into another world."""
    any_timers(random.Random(f"swarm/{seed}/timers"), data, mode_of(seed))
    few_records(random.Random(f"swarm/{seed}/few-records"), data)
    voter_changes(random.Random(f"swarm/{seed}/voters"), data)
    min_isr_changes(random.Random(f"swarm/{seed}/min-isr"), data)
    unclean_elections(random.Random(f"swarm/{seed}/unclean"), data)
    leave_for_good(random.Random(f"swarm/{seed}/departures"), data)
    newest_release(random.Random(f"swarm/{seed}/newest"), data)
    features_change(random.Random(f"swarm/{seed}/features"), data)
    histories(random.Random(f"swarm/{seed}/histories"), data)
    one_batch_segments(random.Random(f"swarm/{seed}/segments"), data)
    lost_sessions(random.Random(f"swarm/{seed}/lost-sessions"), data, mode_of(seed))


def seldom(seed: int, data: dict[str, Any]) -> None:
    """Let happen in some scenarios what other draws meet hardly ever."""
    mode = mode_of(seed)
    recreated_topics(random.Random(f"swarm/{seed}/recreated-topics"), data)
    idle_ids(random.Random(f"swarm/{seed}/idle-ids"), data)
    read_leases(random.Random(f"swarm/{seed}/read-leases"), data, mode)
    stepped_clocks(random.Random(f"swarm/{seed}/stepped-clocks"), data, mode)
    moved_internal_topics(random.Random(f"swarm/{seed}/internal-topics"), data, mode)
    client_steps(random.Random(f"swarm/{seed}/client-steps"), data, mode)
    returning_roles(random.Random(f"swarm/{seed}/returning-roles"), data, mode)
    late_topics(random.Random(f"swarm/{seed}/late-topics"), data)


def _draw(seed: int) -> dict[str, Any]:
    """Return the scenario, with groups of the classic protocol."""
    mode = mode_of(seed)
    rng = random.Random(f"swarm/{seed}")
    brokers = rng.choice((3, 3, 3, 4, 5))
    orders = topic(rng, brokers)
    unclean = orders["config"].get("unclean.leader.election.enable", False)
    workload = workloads(rng)
    data: dict[str, Any] = {
        "name": f"swarm-{seed}",
        "claim": "Whatever this cluster is put through within its budget, it keeps its promises.",
        "duration": f"{rng.randrange(4, 11)}s",
        "cluster": cluster(rng, brokers, mode),
        "topics": [orders],
        "workload": workload,
        "faults": faults(rng, brokers, mode),
        "expect": {"permits": permitted(workload, unclean)},
    }
    done = operations(rng, brokers, orders)
    more = random.Random(f"swarm/{seed}/more")
    if mode == "kraft":
        add_quorum(more, data["cluster"])
    data["faults"] += more_faults(more, data["cluster"], mode)
    done += more_operations(more, brokers, orders)
    if done := _without_replaced_voters(done, data["cluster"]):
        data["operations"] = done
    played = random.Random(f"swarm/{seed}/played").random()
    if played < CHAINS:
        play_chain(random.Random(f"swarm/{seed}/chain"), data, mode)
        return data
    if played < CHAINS + SHAPES:
        play_shape(random.Random(f"swarm/{seed}/focus"), data, mode)
    if not is_about_its_faults(data):
        two_directories(random.Random(f"swarm/{seed}/dirs"), data)
        grow(random.Random(f"swarm/{seed}/grow"), data)
        delete_records(random.Random(f"swarm/{seed}/delete"), data)
    return data


def _without_replaced_voters(
    done: list[dict[str, Any]], cluster: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return the operations that replace no voter's disk.

    A voter that forgets its vote and its log is outside what a quorum survives.
    """
    voters = [f"broker-{number + 1}" for number in range(cluster.get("combined", 0))]
    return [each for each in done if each["kind"] != "replace-disk" or each["node"] not in voters]
