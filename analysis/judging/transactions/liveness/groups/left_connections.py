"""Stalls of an old consumer whose quota is spent on connections that it has left.

A fetch above the quota gets an empty answer at once, and the broker mutes the connection for the
throttle time (KIP-219, ClientQuotaManager.throttle). An old consumer does not know of that time. It
sends its next fetch at once, which waits in the muted connection, and gives up after
socket.timeout.ms (SimpleConsumer.sendRequest). Its fetch on a new connection is above the quota,
too.

When the broker unmutes a connection, it reads the fetch that waits there before it learns that the
client has closed the connection (Selector.attemptRead), and answers it. If the quota has room by
then, this answer takes it, and goes to nobody. A throttle time is about as long as the quota's
windows. So if it is above socket.timeout.ms, a fetch of before may come first each time.
"""

from __future__ import annotations

import re

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts

LEFT = "quota-spent-on-left-connections"

TURNS_US = 22_000_000
"""Two times all windows of a quota: ClientQuotaManagerConfig.DefaultNumQuotaSamples of
DefaultQuotaWindowSizeSeconds. A consumer that is served at all is served within them."""

CLOCKS_US = 100_000
"""How much earlier a broker may unmute a connection by its own clock, which may be fast."""

_READS = re.compile(r"group (\S+) is at \d+ of \d+ in (\S+) \(last read by (\S+)\)$")


class LeftConnections:
    """Follows since when each leader has throttled an old consumer without a break.

    A break is a time without a muted connection. A client that keeps to the throttle time, or waits
    for its connection, is throttled again after a break only.
    """

    def __init__(self, trace: FactSource) -> None:
        self._trace = trace
        self._old: dict[tuple[str, str], None] = {}  # (group, node) of old consumers
        self._topics: dict[str, str] = {}  # id -> name
        self._leaders: dict[PartitionKey, tuple[int, str]] = {}  # (epoch, node)
        self._muted: dict[tuple[str, str], tuple[int, int]] = {}
        """(leader, consumer) -> since when it has been throttled, and until when, in µs"""
        self._now_us = 0
        trace.subscribe(facts.TopicCreated, self._on_topic)
        trace.subscribe(facts.BecameLeader, self._on_leader)
        trace.subscribe(facts.PartitionOwner, self._on_owner)

    def excuse(self, line: str) -> str:
        """Return why Kafka would miss for ever what a line of a stalled run tells of, or ""."""
        found = _READS.match(line)
        if found is None or (found[1], found[3]) not in self._old:
            return ""
        for key, (_, leader) in self._leaders.items():
            if found[2] == f"{self._topics.get(key[0])}-{key[1]}":
                since, until = self._muted.get((leader, found[3]), (0, 0))
                if self._now_us < until and self._now_us - since >= TURNS_US:
                    return LEFT
        return ""

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        self._topics[fact.topic_id] = fact.topic

    def _on_leader(self, _seq: int, _t: int, node: str, fact: facts.BecameLeader) -> None:
        key = (fact.topic_id, fact.partition)
        self._leaders[key] = max(self._leaders.get(key, (-1, "")), (fact.leader_epoch, node))

    def _on_owner(self, _seq: int, _t: int, node: str, fact: facts.PartitionOwner) -> None:
        if not self._old:
            self._trace.subscribe(facts.Throttled, self._on_throttled)
            self._trace.subscribe(facts.Polled, self._on_polled)
            self._trace.subscribe(facts.Phase, self._on_phase)
        self._old[fact.group, node] = None

    def _on_throttled(self, _seq: int, t_us: int, node: str, fact: facts.Throttled) -> None:
        """Note a throttled fetch. Clients have the names of their hosts, unless others are set."""
        if fact.request == "Fetch":
            key = (node, fact.client_id)
            since, until = self._muted.get(key, (t_us, t_us))
            muted_us = t_us + fact.throttle_ms * 1000
            goes_on = t_us < until - CLOCKS_US
            self._muted[key] = (since if goes_on else t_us, max(until, muted_us))

    def _on_polled(self, _seq: int, _t: int, node: str, fact: facts.Polled) -> None:
        """Begin anew with the leader of a partition of which a consumer gets something."""
        if self._muted:
            _, leader = self._leaders.get((fact.topic_id, fact.partition), (-1, ""))
            self._muted.pop((leader, node), None)

    def _on_phase(self, _seq: int, t_us: int, _node: str, _fact: facts.Phase) -> None:
        self._now_us = t_us
