"""A reader of a follower (KIP-392) that has not taken the newest high watermark.

A leader's fetch session remembers the high watermark that it last sent of a partition, and leaves
the partition out of its answers until there is news (FetchSession.CachedPartition
.maybeUpdateResponseData). The follower may not have taken it (AbstractFetcherThread
.processFetchRequest):

- the partition had another fetch offset, or was not fetched, when the answer came: the follower had
  led in between, and follows the same leader again. The session goes on, because the partition was
  added again before the fetcher had asked for anything else, and
  CachedPartition.updateRequestParams keeps what was sent;
- the follower follows the same leader in a newer epoch by the time the answer comes to what it had
  asked in the older one (KAFKA-18991: not in 2.8 and 4.0.0, which compare the fetch offset only);
- the answer told of a divergence. The follower truncates its log and leaves the high watermark to
  the next answer.

So the follower's high watermark stands still until the next append, and its readers wait there.
The rest is equal in 3.9.1, 4.0.0, 4.1.0 and 4.2.0.
"""

from __future__ import annotations

import re

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts
from kafkasim.model.facts.names import node_of

UNTAKEN = "high-watermark-not-taken"

_LINE = re.compile(r"group (\S+) is at (\d+) of (\d+) in (\S+)-(\d+) \(last read by (\S+)\)$")


class UntakenWatermarks:
    """Follows what followers may have missed, and which follower each consumer reads."""

    def __init__(self, trace: FactSource) -> None:
        self._topics: dict[str, str] = {}  # name -> the id of the latest topic
        self._moved: dict[PartitionKey, int] = {}  # the row of the last move at a leader
        # Whom a replica has followed since both hosts started.
        self._followed: dict[tuple[str, PartitionKey], dict[str, None]] = {}
        self._missed: dict[tuple[str, PartitionKey], int] = {}  # the row that may have cost it one
        self._read: dict[tuple[str, PartitionKey], int] = {}  # (consumer, partition) -> a follower
        self._final: dict[tuple[str, PartitionKey], facts.FinalReplica] = {}
        trace.subscribe(facts.TopicCreated, self._on_topic)
        trace.subscribe(facts.HighWatermark, self._on_high_watermark)
        trace.subscribe(facts.BecameFollower, self._on_follower)
        trace.subscribe(facts.Truncated, self._on_truncated)
        trace.subscribe(facts.HostStopped, self._on_stopped)
        trace.subscribe(facts.ReadReplica, self._on_read_replica)
        trace.subscribe(facts.FinalReplica, self._on_final)

    def excuse(self, line: str) -> str:
        """Return why a group reads no further from a follower, or ""."""
        found = _LINE.match(line)
        if found is None or found[4] not in self._topics:
            return ""
        position, exposed = int(found[2]), int(found[3])
        key = (self._topics[found[4]], int(found[5]))
        follower = node_of(self._read.get((found[6], key), -1))
        final = self._final.get((follower, key))
        misses = self._missed.get((follower, key), -1) > self._moved.get(key, -1)
        if final is None or final.leading or not misses:
            return ""
        waits = final.high_watermark == position and final.log_end_offset >= exposed
        return UNTAKEN if waits else ""

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        self._topics[fact.topic] = fact.topic_id

    def _on_high_watermark(self, seq: int, _t: int, _node: str, fact: facts.HighWatermark) -> None:
        self._moved[(fact.topic_id, fact.partition)] = seq

    def _on_follower(self, seq: int, _t: int, node: str, fact: facts.BecameFollower) -> None:
        """Note a follower that follows a leader anew whose session has gone on."""
        replica = (node, (fact.topic_id, fact.partition))
        followed = self._followed.setdefault(replica, {})
        leader = node_of(fact.leader)
        if leader in followed:
            self._missed[replica] = seq
        if fact.leader != -1:
            followed[leader] = None

    def _on_truncated(self, seq: int, _t: int, node: str, fact: facts.Truncated) -> None:
        self._missed[node, (fact.topic_id, fact.partition)] = seq

    def _on_stopped(self, _seq: int, _t: int, node: str, _fact: facts.HostStopped) -> None:
        """Forget the sessions of a host; whoever comes back is sent everything."""
        for replica, followed in self._followed.items():
            followed.pop(node, None)
            if replica[0] == node:
                followed.clear()
        for replica in [each for each in self._missed if each[0] == node]:
            del self._missed[replica]

    def _on_read_replica(self, _seq: int, _t: int, node: str, fact: facts.ReadReplica) -> None:
        if fact.replica != -1:  # −1: it asks the leader again, which names the same one
            self._read[node, (fact.topic_id, fact.partition)] = fact.replica

    def _on_final(self, _seq: int, _t: int, node: str, fact: facts.FinalReplica) -> None:
        self._final[node, (fact.topic_id, fact.partition)] = fact
