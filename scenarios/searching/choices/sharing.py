"""Faults for share groups (KIP-932) while members hold acquired records.

Bugs of a share group concern records that a member holds, acknowledgements whose state is being
written, and the state that the next leader or share coordinator reads. If members process a record
in milliseconds, there are hardly ever such records, and a new leader reads only a start offset. So
the members of most groups take as long for a record as workers of a queue do. A strike begins at a
fact of a share group, and hits a member, the leader of a partition or the share coordinator. It
lasts about as long as a lock or a session. Most strikes are followed by a second or third one.
"""

from __future__ import annotations

import random
from typing import Any

from kafkasim.scenarios.language.units import duration_us
from kafkasim.scenarios.searching.chains.anchor import Anchor
from kafkasim.scenarios.searching.shapes.focus import ms

AT_WORK = 0.75
"""The share of share groups whose members are busy."""

MEETINGS = 0.7
"""The share of seeds with share groups in which something happens to them at a fact of theirs."""

JOBS = 0.5
"""The share of these whose records are few."""

LONGEST_WORK_MS = 1500
"""How long a record takes at most, on average."""

LEAST_LOCK_MS = 1000
"""Kafka's bound of group.share.min.record.lock.duration.ms."""

DEPOSED = 0.25
"""The share of these in which a share coordinator is replaced, and then a leader."""

FOLLOWING = (1, 2, 2, 3)
"""How many strikes follow one another: most bugs need the second or the third."""

MOMENTS: tuple[tuple[dict[str, Any], int], ...] = (
    ({"fact": "ShareAcquired"}, 60),
    ({"fact": "ShareAcquired", "at-least": {"delivery_count": 2}}, 10),
    ({"fact": "ShareMoved", "fields": {"reason": "acknowledged"}}, 60),
    ({"fact": "ShareMoved", "fields": {"state": "AVAILABLE"}}, 10),
    ({"fact": "ShareMoved", "fields": {"reason": "lock-expired"}}, 5),
    ({"fact": "ShareStartMoved"}, 40),
    ({"fact": "SharePartitionLoaded"}, 8),
    ({"fact": "ShareStatesLoaded", "fields": {"loaded": True}}, 3),
)
"""Facts of leaders and share coordinators; how many there are before the one that counts."""

OF_LEADERS = ("ShareAcquired", "ShareMoved", "ShareStartMoved", "SharePartitionLoaded")
"""Facts whose host leads a share partition."""

MEMBER_AWAY = ("crash", "stop", "gc-pause", "gc-pause", "gc-pause", "isolate", "power-loss")
BROKER_AWAY = ("crash", "crash", "gc-pause", "gc-pause", "isolate", "stop")

OF_MEMBERS = ("ShareAcknowledge", "ShareFetch", "ShareGroupHeartbeat")
OF_STATES = ("WriteShareGroupState", "WriteShareGroupState", "ReadShareGroupState")
"""What leaders ask the share coordinator."""


def at_work(rng: random.Random, data: dict[str, Any], group: dict[str, Any]) -> None:
    """Let the members of some groups work on records for most of their time.

    If one member keeps up alone, what it acknowledges is always the first that is open, and no
    state but a start offset is ever persisted. Records may also be jobs: few, and each takes a good
    part of a lock. A lock lasts for the work on a whole poll(), so it expires where something
    happens to its member. A state that takes a while to be written is under way when others ask
    for records.
    """
    if rng.random() >= AT_WORK:
        return
    config = data["cluster"]["config"]
    most = group["config"]["max.poll.records"] = rng.choice((1, 1, 2, 5))
    if rng.random() < JOBS:
        group["count"] = max(group["count"], rng.choice((3, 4, 6)))
        for each in data["workload"]:
            if each["kind"] == "producer":
                each["rate"] = rng.choice(("2/s", "4/s"))
    work = rng.uniform(0.3, 0.9) * group["count"] * 1000 / _rate(data)
    work = max(2.0, min(work, LONGEST_WORK_MS))
    group["processing"] = [ms(work * 0.2), ms(work * 1.8)]
    lock = int(max(LEAST_LOCK_MS, work * 1.8 * most * rng.uniform(1.05, 2.0)))
    group["group-config"]["share.record.lock.duration.ms"] = lock
    if rng.random() < 0.5:
        config["share.coordinator.append.linger.ms"] = int(min(work * rng.uniform(0.1, 0.8), 500))


def lock_ms(data: dict[str, Any], group: dict[str, Any]) -> int:
    """Return how long a member of a group may hold a record."""
    own = group["group-config"].get("share.record.lock.duration.ms")
    return int(own or data["cluster"]["config"]["group.share.record.lock.duration.ms"])


def _rate(data: dict[str, Any]) -> float:
    """Return how many records the producers of a scenario write in a second."""
    producers = [each for each in data["workload"] if each["kind"] == "producer"]
    rates = [
        each.get("count", 1) * float(str(each["rate"]).removesuffix("/s")) for each in producers
    ]
    return float(max(1.0, sum(rates)))


class _Meeting:
    """Strikes that follow one another around one share group."""

    def __init__(
        self,
        rng: random.Random,
        data: dict[str, Any],
        group: dict[str, Any],
        members: list[str],
        brokers: bool,
    ) -> None:
        self.rng = rng
        self.data = data
        self.members = members
        config = data["cluster"]["config"]
        session = int(config["group.share.session.timeout.ms"])
        self._timers = (20, lock_ms(data, group), lock_ms(data, group), session)
        self._broker_session = int(config.get("broker.session.timeout.ms", 9000))
        self._states = int(config["share.coordinator.state.topic.num.partitions"])
        of_brokers = (self._leader_away, self._leader_away, self._coordinator_away,
                      self._late_states, self._late_states)  # fmt: skip
        of_members = (self._member_away, self._member_away, self._late)
        self.strikes = (*of_members, *of_brokers) if brokers else of_members

    def near(self) -> float:
        """Draw a gap: up to one and a half of a timer."""
        return min(self.rng.choice(self._timers) * self.rng.uniform(0.1, 1.5), 3000.0)

    def moment(self) -> Anchor:
        """Draw a moment, shortly after a fact of the share group."""
        fact, most = self.rng.choice(MOMENTS)
        count = int(float(most + 1) ** self.rng.random())  # there may be few records
        when = {**fact, "count": count}
        return Anchor(self.rng.choice((0.1, 5.0, 30.0, self.near())), when)

    def _add(self, kind: str, anchor: Anchor, delay: float, **keys: Any) -> None:
        self.data["faults"].append({"kind": kind, **anchor.at(delay), **keys})

    def _lasts(self, *timers: int) -> str:
        timer = self.rng.choice(timers or self._timers)
        return ms(max(50.0, min(timer * self.rng.uniform(0.1, 2.0), 6000.0)))

    def deposed_coordinator(self) -> None:
        """A share coordinator is away for long enough to be replaced; then a leader goes away.

        What was on its way to the first one may come to its successor later than what came after.
        What the two have made of it is seen by the next leader, which reads it.
        """
        rng, data = self.rng, self.data
        anchor = Anchor(0.1, {"fact": "ShareMoved", "count": rng.randrange(5, 40)})
        lasts = min(self._broker_session * rng.uniform(0.7, 1.7), 10_000.0)
        coordinator = self._coordinator(anchor)
        if rng.random() < 0.7:
            self._add("gc-pause", anchor, 0.0, node=coordinator, guarded=True, **{"for": ms(lasts)})
        else:
            self._broker_away(anchor, 0.0, coordinator)
            self._late_states(anchor, 0.0)
        if rng.random() < 0.5:
            self._add("gc-pause", anchor, 0.0, node=rng.choice(self.members),
                      **{"for": ms(lasts * rng.uniform(0.3, 1.0))})  # fmt: skip
        after = lasts + rng.choice((20.0, 200.0, 1000.0)) * rng.uniform(0.2, 1.5)
        self._leader_away(anchor, after)
        planned = duration_us(data["duration"]) / 1000
        data["duration"] = ms(max(planned, min(3000 + after + 1500, 20_000)))

    def _member_away(self, anchor: Anchor, delay: float) -> None:
        """A member is away, often with records in hand."""
        kind, node = self.rng.choice(MEMBER_AWAY), self.rng.choice(self.members)
        self._add(kind, anchor, delay, node=node, **{"for": self._lasts()})

    def _leader_away(self, anchor: Anchor, delay: float) -> None:
        """Whoever leads the share partition goes away, and the next leader reads the state."""
        here = anchor.when is not None and anchor.when["fact"] in OF_LEADERS
        node = "@node" if here else f"leader:{self.data['topics'][0]['name']}-0"
        self._broker_away(anchor, delay, node)

    def _coordinator_away(self, anchor: Anchor, delay: float) -> None:
        """A share coordinator goes away, and what was on its way to it meets its successor."""
        self._broker_away(anchor, delay, self._coordinator(anchor))

    def _coordinator(self, anchor: Anchor) -> str:
        if anchor.when is not None and anchor.when["fact"] == "ShareStatesLoaded":
            return "@node"
        return f"leader:__share_group_state-{self.rng.randrange(self._states)}"

    def _broker_away(self, anchor: Anchor, delay: float, node: str) -> None:
        lasts = self._lasts(*self._timers, self._broker_session, self._broker_session)
        kind = self.rng.choice(BROKER_AWAY)
        self._add(kind, anchor, delay, node=node, guarded=True, **{"for": lasts})

    def _late(self, anchor: Anchor, delay: float) -> None:
        """What a member asks a leader is late, or its answer."""
        how = {"api": self.rng.choice(OF_MEMBERS), "direction": self._direction()}
        self._add("hold", anchor, delay, node=self.rng.choice(self.members), **how,
                  **{"for": self._lasts()})  # fmt: skip

    def _late_states(self, anchor: Anchor, delay: float) -> None:
        """What leaders ask the share coordinator is late, or its answer; some of it is lost.

        It is late among all brokers, or to one share coordinator alone: another one that takes its
        place hears of later writes first.
        """
        brokers = [f"broker-{number + 1}" for number in range(self.data["cluster"]["brokers"])]
        where: dict[str, Any] = {"nodes": brokers, "peers": brokers}
        if self.rng.random() < 0.6:
            where = {"node": self._coordinator(anchor), "peers": brokers}
        how = {"api": self.rng.choice(OF_STATES), "direction": self._direction()}
        lasts = self._lasts(*self._timers, self._broker_session, self._broker_session)
        self._add("hold", anchor, delay, **where, **how, **{"for": lasts})
        if self.rng.random() < 0.2:
            end = delay + float(lasts.removesuffix("ms"))
            self._add("reset", anchor, end, **where)

    def _direction(self) -> str:
        return self.rng.choice(("request", "response"))


def meet(
    rng: random.Random,
    data: dict[str, Any],
    group: dict[str, Any],
    members: list[str],
    *,
    brokers: bool,
) -> None:
    """Strike who serves a share group or is in it; its members alone unless ``brokers``."""
    if rng.random() >= MEETINGS:
        return
    meeting = _Meeting(rng, data, group, members, brokers)
    if brokers and rng.random() < DEPOSED:
        meeting.deposed_coordinator()
        return
    for _ in range(rng.choice((1, 1, 2))):
        anchor, delay = meeting.moment(), 0.0
        for _ in range(rng.choice(FOLLOWING)):
            rng.choice(meeting.strikes)(anchor, delay)
            if rng.random() < 0.3:  # at a fact of its own, so that the two overlap in any order
                anchor, delay = meeting.moment(), 0.0
            else:
                delay += meeting.near()
