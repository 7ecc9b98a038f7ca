"""A fake trace and short ways to write facts by hand, for the tests of what judges them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from kafkasim.model import facts
from kafkasim.model.facts.checksums import checksum
from kafkasim.model.facts.world import EPOCH_US

T, P = "topic-id", 0
Row = tuple[str, Any]


class FakeTrace:
    """Hands facts to subscribers, as the trace does."""

    def __init__(self) -> None:
        self.rows = 0
        self._subscribers: dict[type, list[Callable[..., None]]] = {}

    def subscribe(self, kind: type, callback: Callable[..., None]) -> None:
        """Call ``callback(seq, t_us, node, fact)`` for every fact of a kind."""
        self._subscribers.setdefault(kind, []).append(callback)

    def unsubscribe(self, kind: type, callback: Callable[..., None]) -> None:
        """Stop calling ``callback``."""
        self._subscribers[kind].remove(callback)

    def record(self, rows: Sequence[Row], t_us: int = 0) -> None:
        """Record facts, at one instant; a number of seconds in the place of one lets time pass."""
        now_us = t_us
        for node, fact in rows:
            if isinstance(fact, int | float):
                now_us += int(fact * 1_000_000)
                continue
            for callback in self._subscribers.get(type(fact), ()):
                callback(self.rows, now_us, node, fact)
            self.rows += 1


def batch(
    base: int, ids: Sequence[int], epoch: int = 0, pid: int = -1, seq: int = -1, *,
    transactional: bool = False, control: bool = False,
) -> Any:  # fmt: skip
    """Return a batch as a log holds it."""
    return SimpleNamespace(
        base_offset=base, last_offset=base + len(ids) - 1, leader_epoch=epoch, producer_id=pid,
        producer_epoch=0 if pid >= 0 else -1, base_sequence=seq,
        last_sequence=seq + len(ids) - 1 if seq >= 0 else -1,
        records=[SimpleNamespace(value=record_id) for record_id in ids],
        transactional=transactional, control=control, max_timestamp_ms=EPOCH_US // 1000,
    )  # fmt: skip


def created(min_isr: int = 1) -> facts.TopicCreated:
    """The topic ``orders``, one partition on three replicas."""
    return facts.TopicCreated(1, T, "orders", 1, 3, min_isr)


def changed(
    offset: int, isr: tuple[int, ...], leader: int = 1, epoch: int = 0, *,
    partition_epoch: int | None = None, unclean: bool = False,
) -> facts.PartitionChanged:  # fmt: skip
    """A partition change committed at a metadata offset; its partition epoch is that offset."""
    own = offset if partition_epoch is None else partition_epoch
    return facts.PartitionChanged(
        offset, T, P, leader, epoch, own, isr, (1, 2, 3), "created", unclean
    )


def registration(
    offset: int,
    broker: int,
    change: str = "unfenced",
    fenced: bool = False,
    shutting_down: bool = False,
) -> facts.BrokerRegistration:
    """A broker's registration."""
    return facts.BrokerRegistration(offset, broker, 1, change, fenced, shutting_down, None)


def sends_to(replica: int, partition_epoch: int, epoch: int = 0) -> facts.PreferredReadReplica:
    """A leader that knows the ISR of a partition epoch sends consumers to a replica."""
    return facts.PreferredReadReplica(T, P, epoch, partition_epoch, replica)


def led(epoch: int, start: int = 0) -> facts.BecameLeader:
    """A replica takes leadership."""
    return facts.BecameLeader(T, P, epoch, epoch, start, 0, (1,))


def appended(
    base: int, ids: tuple[int, ...], epoch: int = 0, pid: int = -1, seq: int = -1
) -> facts.Appended:
    """A leader appends a batch."""
    pid_epoch = 0 if pid >= 0 else -1
    return facts.Appended(T, P, epoch, base, base + len(ids), pid, pid_epoch, seq, ids)


def replicated(base: int, ids: tuple[int, ...], epoch: int = 0) -> facts.Replicated:
    """A follower appends a batch as :func:`appended` has it."""
    end = base + len(ids)
    told = checksum(base, end, epoch, -1, -1, -1, ids[0], ids[-1])
    return facts.Replicated(T, P, epoch, epoch, base, end, (base, end, epoch, told))


def high_watermark(
    offset: int, acknowledged: tuple[int, ...] = (1, 2), epoch: int = 0, min_isr: int = 1
) -> facts.HighWatermark:
    """A leader's high watermark advances."""
    return facts.HighWatermark(T, P, epoch, offset, min_isr, acknowledged)


def polled(offsets: tuple[int, ...], ids: tuple[int, ...], member: str = "m1") -> facts.Polled:
    """poll() returns records."""
    return facts.Polled("billing", member, T, P, offsets[-1] + 1, -1, offsets, ids)


def positioned(offset: int, reason: str = "committed", member: str = "m1") -> facts.Positioned:
    """A consumer's position is set."""
    return facts.Positioned("billing", member, T, P, offset, reason)


def processed(low: int, high: int) -> facts.Processed:
    """An application has finished a range of offsets."""
    return facts.Processed("billing", "consumer-1", T, P, low, high)


def committed(
    offset: int, epoch: int = 0, member: str = "m1", end: int = -1
) -> facts.OffsetCommitted:
    """A coordinator acknowledges a commit, whose record ends at ``end`` of its log."""
    return facts.OffsetCommitted("billing", "orders", P, offset, 1, member, epoch, end)


def tombstone(end: int = -1) -> facts.OffsetsDeleted:
    """An operator deletes the offset; its tombstone ends at ``end`` of the coordinator's log."""
    return facts.OffsetsDeleted("billing", "orders", P, 0, end)


def fetched(offset: int, epoch: int = 0, end: int = -1) -> facts.OffsetFetched:
    """A coordinator answers an OffsetFetch with a commit whose record ends at ``end``."""
    return facts.OffsetFetched("billing", "orders", P, offset, epoch, end)


def acked(base: int, ids: tuple[int, ...], pid: int = 7, acks: int = -1) -> facts.Acked:
    """A producer's batch is acknowledged."""
    return facts.Acked(T, P, base, ids, acks, pid, 0, 0, 1000, 1)


def final(
    batches: Sequence[Any], *, leading: bool = True, epochs: tuple[int, ...] = (0, 0),
    log_start: int = 0, hw: int | None = None, lso: int | None = None, leader_epoch: int = 0,
) -> facts.FinalReplica:  # fmt: skip
    """One replica's log at the end of a run."""
    end = batches[-1].last_offset + 1 if batches else 0
    below = end if hw is None else hw
    return facts.FinalReplica(
        T, P, leading, leader_epoch, log_start, below, below if lso is None else lso, end, epochs,
        tuple(b.base_offset for b in batches), tuple(b.last_offset + 1 for b in batches),
        tuple(b.leader_epoch for b in batches), tuple(b.producer_id for b in batches),
        tuple(b.base_sequence for b in batches), tuple(len(b.records) for b in batches),
        tuple(r.value for b in batches for r in b.records),
    )  # fmt: skip
