"""A whole small cluster under any sequence of faults and operator verbs keeps every invariant.

Theorem: three brokers, three controllers, a topic of two partitions with three replicas, an
idempotent acks=all producer and a group of two; whatever is paused, crashed, cut off, powered off
or restarted within the no-loss budget, no invariant of section 0 breaks, nothing acknowledged is
lost, and once everything is healed the cluster converges within the limit of its configuration.

The oracle is the run's own invariants and delivery judge. ``-m soak`` runs the same with many
examples, new ones each time under ``HYPOTHESIS_PROFILE=soak``.
"""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from kafkasim import strategies
from kafkasim.scenarios.language.nodes import node_names
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.language.tables import FaultTable
from kafkasim.scenarios.language.translate import translate
from kafkasim.scenarios.running.runner import ScenarioRun
from kafkasim.sim.faults.kinds import Fault

BROKERS = ("broker-1", "broker-2", "broker-3")
CONTROLLERS = ("controller-1", "controller-2", "controller-3")
CLIENTS = ("producer-1", "consumer-1", "consumer-2")
SERVERS = BROKERS + CONTROLLERS
ROLES = ("leader:orders-0", "follower:orders-0", "leader:orders-1", "active-controller")
PLACES = SERVERS + ROLES
MS = 1000

SCENARIO = {
    "name": "stateful",
    "claim": "A small cluster survives any schedule of faults within the budget.",
    "duration": "1s",
    "cluster": {
        "config": {
            "replica.lag.time.max.ms": 1500,
            "broker.session.timeout.ms": 2500,
            "broker.heartbeat.interval.ms": 500,
            "replica.socket.timeout.ms": 2000,
            "replica.fetch.backoff.ms": 200,
            "group.initial.rebalance.delay.ms": 100,
            "group.min.session.timeout.ms": 1000,
            "offsets.topic.num.partitions": 1,
        }
    },
    "topics": [
        {
            "name": "orders",
            "partitions": 2,
            "replication-factor": 3,
            "config": {"min.insync.replicas": 2, "segment.bytes": 4000},
        }
    ],
    "workload": [
        {
            "kind": "producer",
            "rate": "8/s",
            "config": {
                "linger.ms": 0,
                "request.timeout.ms": 1500,
                "delivery.timeout.ms": 15_000,
                "metadata.max.age.ms": 5000,
            },
        },
        {
            "kind": "consumer-group",
            "count": 2,
            "commit": "sync",
            "config": {
                "session.timeout.ms": 2000,
                "heartbeat.interval.ms": 500,
                "auto.offset.reset": "earliest",
                "request.timeout.ms": 2000,
                "default.api.timeout.ms": 5000,
                "metadata.max.age.ms": 5000,
            },
        },
    ],
    "expect": {"permits": ["duplicate"]},
}

OTHER_KINDS = ("slow-link", "flaky", "reset", "clock-drift")
"""Kinds without a rule of their own; after half-open, a group may need longer to converge."""

places = st.sampled_from(PLACES)
short = st.sampled_from((200, 800, 2000, 4000)).map(lambda ms: ms * MS)


class LiveRun(ScenarioRun):
    """A run that is driven from outside, and whose admin client waits for wishes."""

    elections = 0

    async def _create_topics(self, port):
        await super()._create_topics(port)
        while True:
            await asyncio.sleep(0.2)
            if self.elections:
                self.elections -= 1
                try:
                    await port.call("admin.elect_leaders", 0, None)
                except Exception as error:
                    note(f"the election got no answer: {error}")


class ClusterMachine(RuleBasedStateMachine):
    run: LiveRun | None = None

    @initialize(seed=st.integers(0, 1 << 30))
    def boot(self, seed):
        self.run = LiveRun(parse(SCENARIO, "stateful"), seed, None, ())
        assert self.run._boot(), self.run.missing
        self.run._safety()

    def strike(self, kind, place, lasts=None, others=(), **parameters):
        """Start a fault now unless the no-loss budget forbids it."""
        named = tuple((name.replace("_", "-"), found) for name, found in parameters.items())
        fault = Fault(kind, (place,), others, 0, None, lasts, named, guarded=True)
        if not self.run.faults.injector.start(fault):
            note(f"skipped: {self.run.faults.injector.skipped[-1][1]}")

    @rule(ms=st.sampled_from((50, 500, 1500, 3000)))
    def time_passes(self, ms):
        self.run.world.run(self.run.world.now + ms * MS)

    @rule(place=places, lasts=short)
    def pause(self, place, lasts):
        self.strike("gc-pause", place, lasts)

    @rule(place=places, lasts=short)
    def crash(self, place, lasts):
        self.strike("crash", place, lasts)

    @rule(place=places, lasts=short)
    def lose_power(self, place, lasts):
        self.strike("power-loss", place, lasts)

    @rule(place=places)
    def restart_at_once(self, place):
        self.strike("restart", place)

    @rule(place=places, lasts=short)
    def stop_cleanly(self, place, lasts):
        self.strike("stop", place, lasts)

    @rule(place=places, lasts=short)
    def isolate(self, place, lasts):
        self.strike("isolate", place, lasts)

    @rule(place=places, other=st.sampled_from(SERVERS + CLIENTS), lasts=short, oneway=st.booleans())
    def cut(self, place, other, lasts, oneway):
        self.strike("partition-oneway" if oneway else "partition", place, lasts, (other,))

    @rule(
        place=st.sampled_from(BROKERS),
        purpose=st.sampled_from(("raft-fetch", "heartbeat", "alter-partition", "replica-fetch")),
        lasts=short,
    )
    def cut_purpose(self, place, purpose, lasts):
        others = tuple(name for name in SERVERS if name != place)
        self.strike("cut-purpose", place, lasts, others, purpose=purpose)

    @rule(place=places, lasts=short)
    def stall_disk(self, place, lasts):
        self.strike("disk-stall", place, lasts)

    @rule(place=places, lasts=short)
    def slow_disk(self, place, lasts):
        self.strike("slow-disk", place, lasts, factor=50)

    @rule(place=st.sampled_from(BROKERS), seconds=st.sampled_from((-5, 5)), lasts=short)
    def step_clock(self, place, seconds, lasts):
        self.strike("clock-step", place, lasts, offset_us=seconds * 1_000_000)

    @rule(table=strategies.faults(SCENARIO, kinds=OTHER_KINDS))
    def strike_as_drawn(self, table):
        """Start a fault of another kind, as the public strategies draw it."""
        nodes = node_names(self.run.scenario)
        fault = translate(FaultTable.model_validate(table), nodes, random.Random(0))
        if not self.run.faults.injector.start(fault):
            note(f"skipped: {self.run.faults.injector.skipped[-1][1]}")

    @rule(client=st.sampled_from(("consumer-1", "consumer-2")), lasts=short)
    def pause_member(self, client, lasts):
        self.strike("gc-pause", client, lasts)

    @rule(client=st.sampled_from(CLIENTS), lasts=short)
    def crash_client(self, client, lasts):
        self.strike("crash", client, lasts)

    @rule()
    def elect_preferred(self):
        """An operator asks for the preferred leaders; whether anybody hears is part of the game."""
        self.run.elections += 1

    @rule()
    def heal(self):
        for host in self.run.world.hosts.values():
            if host.paused:
                host.resume()
        self.run.world.link_faults.heal()

    @invariant()
    def every_invariant_holds(self):
        if self.run is None:
            return
        found = self.run.court.invariants._findings.all
        broken = [finding for finding in found if not finding.expected_by]
        assert not broken, broken[0]

    def teardown(self):
        run = self.run
        if run is None:
            return
        run._liveness()
        run._end()
        result = run._result(0.0)
        assert result.verdict != "fail", (
            result.anomalies, result.missing[:3], result.findings[:3]
        )  # fmt: skip


COMMON = {"deadline": None, "suppress_health_check": list(HealthCheck)}

ClusterMachine.TestCase.settings = settings(
    max_examples=12, stateful_step_count=12, derandomize=True, database=None, **COMMON
)
TestCluster = ClusterMachine.TestCase


class SoakMachine(ClusterMachine):
    """The same with more steps and examples."""


SoakMachine.TestCase.settings = settings(max_examples=200, stateful_step_count=40, **COMMON)
TestClusterSoak = pytest.mark.soak(SoakMachine.TestCase)
