"""Strikes at clients in the middle of a protocol.

Between two steps of a protocol the client and the server know different states: the coordinator has
given out a member id, a generation or a target, and the member has not confirmed it. Most facts are
recorded by the server, and name no host of a client. So these strikes wait for a message: the
client has sent the request, or the server has sent the response and the client has not received it.
Then the client crashes (with or without a restart), stops, pauses, is cut off, or loses its
connections. Often a strike at the coordinator or at another client follows.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from kafkasim.scenarios.searching.chains.anchor import Anchor
from kafkasim.scenarios.searching.clients.cast import Cast
from kafkasim.scenarios.searching.clients.members import flapping_member, late_member
from kafkasim.scenarios.searching.clients.strikes import STRIKES
from kafkasim.scenarios.searching.shapes.apart import has_second_process, is_about_its_faults
from kafkasim.scenarios.searching.shapes.focus import ms

SHARE = 0.06
"""The share of seeds with a strike at a step."""

OF_SHARE_GROUPS = 0.12
"""The same of seeds with a share group."""

FOR_GOOD = 0.2
"""The share of deaths after which the client stays away until the faults are healed."""

FOLLOWED = 0.5
"""The share of strikes that others follow."""


@dataclass(frozen=True)
class Step:
    """A message of a client's protocol; ``most`` is how many there are before the one that counts.

    ``more`` are conditions on its fields, as the scenario language has them.
    """

    direction: str  # request | response
    api: str
    most: int
    more: dict[str, Any] = field(default_factory=dict)

    def when(self, rng: random.Random) -> dict[str, Any]:
        """Draw the condition; early messages are drawn more often, as late ones may not come."""
        count = int(float(self.most + 1) ** rng.random())
        return {self.direction: self.api, **self.more, "count": count}


def _fields(**fields: Any) -> dict[str, Any]:
    return {"fields": fields}


OF_CLASSIC_GROUPS = (
    Step("response", "JoinGroup", 4, _fields(error="MEMBER_ID_REQUIRED")),  # KIP-394
    Step("request", "JoinGroup", 8),
    Step("response", "JoinGroup", 6, _fields(error="NONE")),
    Step("response", "JoinGroup", 4, {"at-least": {"members": 1}}),  # the leader's
    Step("request", "SyncGroup", 6),
    Step("response", "SyncGroup", 6, _fields(error="NONE")),
    Step("request", "Heartbeat", 30),
    Step("response", "Heartbeat", 3, _fields(error="REBALANCE_IN_PROGRESS")),
    Step("request", "LeaveGroup", 1),
    Step("response", "OffsetFetch", 4),
    Step("request", "OffsetCommit", 20),
)
"""The join handshake, and what a member does afterwards."""

OF_CONSUMER_GROUPS = (
    Step("request", "ConsumerGroupHeartbeat", 4, _fields(member_epoch=0)),
    Step("response", "ConsumerGroupHeartbeat", 6, {"at-least": {"member_epoch": 1}}),
    Step("response", "ConsumerGroupHeartbeat", 30),
    Step("request", "ConsumerGroupHeartbeat", 30, {"at-least": {"member_epoch": 1}}),
    Step("request", "ConsumerGroupHeartbeat", 1, {"at-most": {"member_epoch": -1}}),  # it leaves
    Step("response", "OffsetFetch", 4),
    Step("request", "OffsetCommit", 20),
)
"""From the first heartbeat to the acknowledgement of the target (KIP-848), and its end."""

OF_SHARES = (
    Step("request", "ShareGroupHeartbeat", 4, _fields(member_epoch=0)),
    Step("response", "ShareGroupHeartbeat", 6, {"at-least": {"member_epoch": 1}}),
    Step("request", "ShareFetch", 4, _fields(session_epoch=0)),
    Step("request", "ShareFetch", 40, {"at-least": {"session_epoch": 1}}),
    Step("response", "ShareFetch", 40, {"at-least": {"partitions": 1}}),  # records are in it
    Step("request", "ShareAcknowledge", 20),
    Step("response", "ShareAcknowledge", 20),
    Step("request", "ShareAcknowledge", 1, _fields(session_epoch=-1)),
)
"""Members of share groups (KIP-932): the group, the session with a leader, the records."""

OF_PRODUCERS = (
    Step("response", "InitProducerId", 2),
    Step("request", "Produce", 60),
    Step("response", "Produce", 60),
)

OF_TRANSACTIONS = (
    Step("request", "InitProducerId", 2),
    Step("response", "InitProducerId", 3),
    Step("response", "AddPartitionsToTxn", 20),
    Step("request", "Produce", 60),
    Step("response", "Produce", 60),
    Step("request", "EndTxn", 20),
    Step("response", "EndTxn", 20),
)

OF_PROCESSORS = (
    Step("response", "AddOffsetsToTxn", 20),
    Step("request", "TxnOffsetCommit", 20),
    Step("response", "TxnOffsetCommit", 20),
    Step("response", "EndTxn", 20),
)


def client_steps(rng: random.Random, data: dict[str, Any], mode: str) -> None:
    """Strike a client of some seeds at a step of its protocol, once or twice."""
    shares = any(each["kind"] == "share-group" for each in data["workload"])
    if rng.random() >= (OF_SHARE_GROUPS if shares else SHARE):
        return
    if is_about_its_faults(data):
        return
    cast = Cast(rng, data, mode)
    steps = rng.choice(_pools(cast, shares))
    if steps is OF_CLASSIC_GROUPS or steps is OF_CONSUMER_GROUPS:
        for change in (late_member, flapping_member):  # so that the group rebalances at all
            if rng.random() < 0.4:
                change(cast)
        cast = Cast(rng, data, mode)
    for _ in range(rng.choice((1, 1, 2))):
        _strike(cast, rng.choice(steps).when(rng))


def strike_at_a_step(cast: Cast) -> None:
    """Strike a client at one of the steps of its protocol."""
    step = cast.rng.choice(cast.rng.choice(_pools(cast, False)))
    _strike(cast, step.when(cast.rng))


def _pools(cast: Cast, shares: bool) -> list[tuple[Step, ...]]:
    """Return the protocols that clients of the scenario have, those of groups more than once."""
    modern = [each["config"].get("group.protocol") == "consumer" for each in cast.groups]
    pools: list[tuple[Step, ...]] = [OF_PRODUCERS]
    if not all(modern):
        pools += [OF_CLASSIC_GROUPS] * 3
    if any(modern):
        pools += [OF_CONSUMER_GROUPS] * 3
    if shares:
        pools += [OF_SHARES] * 4
    if any("transactional-id" in each for each in cast.writers):
        pools += [OF_TRANSACTIONS] * 2
    if cast.processors:
        pools.append(OF_PROCESSORS)
    return pools


def _strike(cast: Cast, when: dict[str, Any]) -> None:
    """Strike the client of a message, at once or within a few round trips."""
    rng, faults = cast.rng, cast.data["faults"]
    kind = rng.choice(("crash", "crash", "stop", "gc-pause", "isolate", "reset", "restart"))
    fault: dict[str, Any] = {"kind": kind, "node": "@node", "when": when}
    later = rng.choice((0, 0, 200, 1000, 10_000))
    if later:
        fault["at"] = f"{later}us"
    if kind == "reset":
        fault["peers"] = list(cast.brokers)
    elif kind == "gc-pause" or (kind != "restart" and rng.random() >= FOR_GOOD):
        fault["for"] = ms(cast.away())
    faults.append(fault)
    if rng.random() < FOLLOWED and not has_second_process(cast.data):
        rng.choice(STRIKES)(cast, Anchor(cast.near(), when), 0.0)
