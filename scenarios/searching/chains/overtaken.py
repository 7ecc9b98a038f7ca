"""A chain in which the log start of a partition passes the log end of a follower that is away.

DeleteRecords and retention delete records below the high watermark, and the high watermark waits
only for the ISR. So the leader may have deleted the offsets that a follower needs when it returns.
Its fetch gets OFFSET_OUT_OF_RANGE, and it restarts its log at the leader's log start
(ReplicaFetcherThread, AbstractFetcherThread.fetchOffsetAndTruncate). Independent faults and
operations hardly ever happen in this order:

    chain = away, the high watermark moves on, the log start moves, [disturbance,] back, event

Each step waits for the fact of the one before. The second one is a high watermark that fewer
replicas have reached than there are: the ISR has, so a follower outside of it has not. The log of
__consumer_offsets is compacted, so the retention of offsets moves no log start
(UnifiedLog.deleteOldSegments deletes by size and by time only with cleanup.policy=delete).
"""

from __future__ import annotations

import random
from typing import Any

from kafkasim.scenarios.language.units import duration_us
from kafkasim.scenarios.searching.chains import events
from kafkasim.scenarios.searching.chains.anchor import Anchor
from kafkasim.scenarios.searching.chains.disturbances import (
    connections_break,
    cut_from_one,
    late_api,
    late_replication,
    slow_disk,
)
from kafkasim.scenarios.searching.chains.pace import Pace
from kafkasim.scenarios.searching.shapes.apart import has_second_process, is_about_its_faults
from kafkasim.scenarios.searching.shapes.focus import Focus, ms

SHARE = 0.1
"""The share of seeds with this chain. In about half of them a follower is overtaken in the end."""

WAITED_MS = 6000
"""A follower whose session and lag are longer is stopped cleanly: it leaves the ISR at once."""

AWAY = ("crash", "crash", "power-loss", "stop", "gc-pause", "isolate")

RETAINED: tuple[dict[str, Any], ...] = (
    {"retention.ms": 300}, {"retention.ms": 1000}, {"retention.bytes": 300},
)  # fmt: skip
"""How little an operator lets the topic keep."""

DISTURBANCES = (late_replication, late_api, cut_from_one, connections_break, slow_disk)

EVENTS = (
    events.broker_away, events.leader_away, events.leader_away, events.leaders_move,
    events.broker_restarts, events.controller_away,
)  # fmt: skip


def overtaken(rng: random.Random, data: dict[str, Any], mode: str) -> None:
    """Let the log start pass the log end of a follower that is away, in some seeds.

    Where a second process of a broker runs, no broker goes away (choices/operators.py:duplicates).
    """
    topic = data["topics"][0]
    old = any(each.get("protocol") == "zookeeper" for each in data["workload"])
    if rng.random() >= SHARE or is_about_its_faults(data):
        return
    if topic["replication-factor"] == 1 or "cleanup.policy" in topic["config"]:
        return
    if has_second_process(data):
        return
    chain = _Chain(rng, data, mode)
    chain.leave()
    late = data["cluster"].get("kafka-version") == "2.8-zk"  # its retention begins after 30 s
    # Retention moves an old consumer back (ConsumerFetcherThread.handleOffsetOutOfRange).
    if old or late or rng.random() < 0.5:
        chain.delete()
    else:
        chain.expire()
    chain.follow()
    ends = ms(chain.at + chain.longest + 1000)
    data["duration"] = max(data["duration"], ends, key=duration_us)


class _Chain:
    """The topic, a broker that follows some of its partitions, and when it goes away."""

    def __init__(self, rng: random.Random, data: dict[str, Any], mode: str) -> None:
        self.rng = rng
        self.topic: dict[str, Any] = data["topics"][0]
        self.focus = Focus.beside(rng, data, mode)
        self.pace = Pace.of(rng, mode, self.focus.config)
        self.partitions = max(self.topic["partitions"], len(self.focus.orders))
        self.name = {"topic": self.topic["name"]}
        self.at = float(rng.randrange(300, 2000))
        self.longest = 0.0

    def leave(self) -> None:
        """Let a follower go away, and come back once the log start has moved, or later.

        A leader goes on without its only follower, so that there is something to delete.
        """
        rng = self.rng
        config, factor = self.topic["config"], self.topic["replication-factor"]
        config["min.insync.replicas"] = min(config.get("min.insync.replicas", 1), factor - 1)
        leaves = min(self.pace.session_ms, 1.5 * self.pace.lag_ms)
        kind = rng.choice(AWAY) if leaves <= WAITED_MS else "stop"
        self.longest = (0 if kind == "stop" else leaves) + rng.choice((1500, 2500, 4000))
        node = f"follower:{self.topic['name']}-{rng.randrange(self.partitions)}"
        self.focus.faults.append({
            "kind": kind, "node": node, "guarded": True, "at": ms(self.at), "for": ms(self.longest),
        })  # fmt: skip
        if kind != "gc-pause" and rng.random() < 0.6:
            self.focus.faults[-1]["until"] = {**self._moved(), "count": rng.choice((1, 1, 2, 4))}

    def delete(self) -> None:
        """Let an operator delete what is below the high watermark once the follower lacks some."""
        gap = self.rng.choice((1, 100, 500))
        for partition in range(self.partitions):
            where = {**self.name, "partition": partition}
            self._operate("delete-records", gap, where, **where, offset=-1)

    def expire(self) -> None:
        """Let an operator lower the topic's retention then; its segments hold a batch or a few.

        A batch has to fit into a segment. A fetch reads one segment, so a consumer that has a
        record of it left must not wait long for the other partitions.
        """
        size = self.topic["config"].setdefault("segment.bytes", 600)
        self.focus.config["log.retention.check.interval.ms"] = self.rng.choice((100, 300))
        self.focus.config["log.initial.task.delay.ms"] = self.rng.choice((0, 1000))
        for each in self.focus.data["workload"]:
            if each["kind"] == "producer":
                each["config"].setdefault("batch.size", size // 2)
            elif each["kind"] == "consumer-group":
                each["config"].setdefault("fetch.max.wait.ms", 30)
        kept = self.rng.choice(RETAINED)
        gap = self.rng.choice((1, 100, 500))
        self._operate("alter-config", gap, self.name, **self.name, config=dict(kept))

    def follow(self) -> None:
        """Disturb the follower's return in half of the seeds, and let something follow it."""
        rng = self.rng
        if rng.random() < 0.5:
            anchor = Anchor(rng.choice((1.0, 100.0, self.pace.near())), self._moved())
            rng.choice(DISTURBANCES)(self.focus, self.pace, anchor)
        anew = {"fact": "LogStart", "fields": {**self.name, "reason": "reset"}}
        anchor = Anchor(rng.choice((0.1, 10.0, self.pace.near())), anew)
        if rng.random() < 0.4:  # the follower, whose log is new: its start must be durable
            kind = rng.choice(("crash", "power-loss", "stop"))
            away = {"kind": kind, "node": "@node", "guarded": True, **anchor.at()}
            self.focus.faults.append({**away, "for": ms(self.pace.away())})
        else:
            rng.choice(EVENTS)(self.focus, self.pace, anchor)

    def _moved(self) -> dict[str, Any]:
        """Return the condition that a log start of the topic moves, on whichever replica."""
        return {"fact": "LogStart", "fields": dict(self.name)}

    def _operate(self, kind: str, gap: float, where: dict[str, Any], **keys: Any) -> None:
        """Let an operator act ``gap`` ms after a replica lacks what is below a high watermark."""
        lacks = {"fact": "HighWatermark", "fields": dict(where),
                 "at-most": {"acknowledged": self.topic["replication-factor"] - 1}}  # fmt: skip
        self.focus.operations.append({"kind": kind, **Anchor(gap, lacks).at(), **keys})
