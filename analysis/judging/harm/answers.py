"""ACKLATE: a producer gets its response once its batches are committed.

An acks=all request waits until the high watermark has passed all batches that it appended, in all
of its partitions; acks=1 does not wait (DelayedProduce.tryComplete). A retried batch is a duplicate
at the leader: there is no fact of an append, but the request waits for it, too. So the judge counts
all batches of the producer that wait at the leader, also those above the high watermark when the
leader began to lead. When they are committed, the response leaves the broker at once. A second
covers the network and the threads of both sides. If neither the producer nor the leader was struck
since the batch's creation, the response must not be later, and must not be missing, so that the
producer retries: the second response has the same offset. If the high watermark took
request.timeout.ms, the response may come between two attempts of a producer that had given up. Then
its backoffs are added (reconnect.backoff.max.ms and retry.backoff.max.ms, a second each, and one
for metadata). A retry may also be refused while the ISR is too small, so retries are not judged
once the partition has changed. A leader that throttles the producer does not read its connection
for the throttle time (KIP-219, ClientQuotaManager.throttle), so requests wait there unread, and
time out.

Only batches that the newest leader has appended are judged: the record at the offset must be the
producer's. A deposed leader that does not know its successor answers acks=1 for an offset of its
own log.

How long the high watermark may take is not judged here but by HWSTALL, LAGREASON and FENCEREASON.
"""

from __future__ import annotations

from bisect import bisect_left

from kafkasim.analysis.judging.harm.truth.disturbances import OPEN, Disturbances
from kafkasim.analysis.judging.harm.truth.logs import Leader, Logs
from kafkasim.analysis.judging.harm.truth.nodes import Nodes
from kafkasim.analysis.judging.invariants.traced import TracedCluster
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts

BOUND_US = 1_000_000
RETRY_US = 3_000_000


class LateAnswers:
    """Judges the acknowledgements and failures that took long."""

    def __init__(
        self, cluster: TracedCluster, nodes: Nodes, logs: Logs, disturbances: Disturbances
    ) -> None:
        self.cluster = cluster
        self._nodes = nodes
        self._logs = logs
        self._disturbances = disturbances
        self._changed_us: dict[PartitionKey, int] = {}
        self._throttled: dict[tuple[str, str], list[tuple[int, int]]] = {}  # client, broker: when
        cluster.trace.subscribe(facts.Acked, self._on_acked)
        cluster.trace.subscribe(facts.SendFailed, self._on_failed)
        cluster.trace.subscribe(facts.PartitionChanged, self._on_changed)
        cluster.trace.subscribe(facts.Throttled, self._on_throttled)

    def _on_throttled(self, _seq: int, t: int, node: str, fact: facts.Throttled) -> None:
        times = self._throttled.setdefault((fact.client_id, node), [])
        times.append((t, t + fact.throttle_ms * 1000))

    def _was_throttled(self, client: str, broker: str, first: int, last: int) -> bool:
        times = self._throttled.get((client, broker), ())
        return any(begin <= last and end >= first for begin, end in times)

    def _on_changed(self, _seq: int, t: int, _node: str, fact: facts.PartitionChanged) -> None:
        self._changed_us[fact.topic_id, fact.partition] = t

    def _on_acked(self, seq: int, t: int, node: str, fact: facts.Acked) -> None:
        if fact.latency_us <= BOUND_US or fact.base_offset < 0:
            return
        leader = self._logs.newest.get((fact.topic_id, fact.partition))
        end = fact.base_offset + len(fact.record_ids)
        if leader is None or not leader.start < end <= leader.end:
            return
        at = bisect_left(leader.ends, end)
        if leader.ends[at] == end and leader.first_ids[at] == fact.record_ids[0]:
            pid = fact.producer_id if fact.acks == -1 else None
            self._judge(seq, t, node, (leader, at), pid, fact)

    def _on_failed(self, seq: int, t: int, node: str, fact: facts.SendFailed) -> None:
        leader = self._logs.newest.get((fact.topic_id, fact.partition))
        if leader is None or not fact.indeterminate or fact.record_ids[0] not in leader.first_ids:
            return
        at = leader.first_ids.index(fact.record_ids[0])
        appends = self._logs.appends[leader.node]
        first = bisect_left(appends, leader.appended_us[at], key=lambda append: append[0])
        pids = [
            pid for _, pid, of, end in appends[first:] if (of, end) == (leader, leader.ends[at])
        ]
        self._judge(seq, t, node, (leader, at), pids[0], fact)

    def _judge(
        self, seq: int, t: int, node: str, batch: tuple[Leader, int], producer_id: int | None,
        fact: facts.Acked | facts.SendFailed,
    ) -> None:  # fmt: skip
        """Judge the answer to a batch; without a producer id it did not wait for others."""
        leader, at = batch
        appended = leader.appended_us[at]
        committed = appended
        if producer_id is not None:
            passed = self._all_passed(leader.node, appended, producer_id, (leader, leader.ends[at]))
            if passed is None:
                return
            committed = max(appended, passed)
        bound, until = BOUND_US, appended
        if fact.attempts > 1 or type(fact) is facts.SendFailed:
            if self._changed_us.get(leader.key, 0) >= appended:
                return
            until = t
            patience = self._nodes.limit_us(node, "request.timeout.ms")
            if patience is None or committed + BOUND_US - appended >= patience - BOUND_US:
                bound += RETRY_US
        due = committed + bound
        created = t - fact.latency_us
        if t <= due or self._disturbances.struck((node, leader.node), created, due):
            return
        if self._was_throttled(node, leader.node, created, due):
            return
        if producer_id is None or t > bound + self._others_passed(
            leader.node, producer_id, appended, until, t
        ):
            self.cluster.violated(
                "ACKLATE", seq, t, leader.key,
                f"{node} is answered {(t - due) / 1e6:.3f} s too late that {leader.node} has"
                f" committed its records below offset {leader.ends[at]}, appended"
                f" {(t - appended) / 1e6:.3f} s ago ({fact.attempts} attempts)",
            )  # fmt: skip

    def _all_passed(
        self, node: str, at: int, producer_id: int, own: tuple[Leader, int]
    ) -> int | None:
        """Return when the high watermarks had passed all batches of one request, None if they did
        not: what a leader appended for a producer at one instant."""
        appends = self._logs.appends.get(node, [])
        first = bisect_left(appends, at, key=lambda append: append[0])
        waits = [own]
        for when, producer, leader, end in appends[first:]:
            if when != at:
                break
            if producer == producer_id:
                waits.append((leader, end))
        latest = max([_passed(*each) for each in waits])
        return None if latest == OPEN else latest

    def _others_passed(self, node: str, producer_id: int, since: int, until: int, now: int) -> int:
        """Return when the high watermarks had passed all that the producer had waiting for long at
        the leader from ``since`` to ``until``: its requests may have held it, sent again. OPEN if
        something waits still."""
        latest = 0
        for when, producer, leader, end in self._logs.appends.get(node, ()):
            if when > until:
                break
            if producer == producer_id:
                passed = _passed(leader, end)
                if passed > since and min(passed, now) - when > BOUND_US:
                    latest = max(latest, passed)
        return latest


def _passed(leader: Leader, end: int) -> int:
    """Return when the leader's high watermark passed an offset, OPEN if it did not."""
    marks = leader.high_watermarks
    index = bisect_left(marks, end, key=lambda mark: mark[0])
    return OPEN if index == len(marks) else marks[index][1]
