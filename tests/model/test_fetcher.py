"""The replica fetcher: what it does with replies (KAFKA.md, 1.4 and 0.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkasim.model.effects import Response
from kafkasim.model.errors import Errors
from kafkasim.model.facts import ReplicaFailed, Replicated, StaleReplyUsed, Truncated
from kafkasim.model.messages import FetchPartitionResponse, FetchResponse
from kafkasim.model.records import Record, RecordBatch, assigned, batch_of
from kafkasim.model.replication.fetching.replica_fetcher import ReplicaFetcher
from kafkasim.model.storage.log.segment import corrupted
from kafkasim.model.storage.rules import StorageRules
from kafkasim.scenarios.variants.releases import Replication28
from tests.model.replica_harness import TOPIC_ID, TP, Trio, registration

NONE = Errors.NONE
Reply = Callable[..., None]


def written(offset: int, epoch: int, value: int = 0) -> RecordBatch:
    return assigned(batch_of((Record("k", value, 50, 0),)), offset, epoch)


@pytest.fixture
def trio() -> Trio:
    trio = Trio()
    trio.tell(2)  # 2 follows 1 under epoch 1 and has sent its first fetch
    return trio


def reply(trio: Trio, *, error: Errors = NONE, hw: int = 0, **fields: Any) -> None:
    """Answer the fetch that node 2 has in flight."""
    key = next(key for key in trio.requests if key[0] == 2)
    sent = trio.requests[key].popleft()
    batches = fields.get("batches", ())
    answer = FetchPartitionResponse(TP, error, hw, hw, 0, batches, fields.get("diverging"))
    response = FetchResponse(NONE, (answer,))
    trio.nodes[2].handle(Response(key[1], sent.correlation, response), trio.now)
    trio.drain(2)


def fetcher(trio: Trio) -> ReplicaFetcher:
    return trio.nodes[2].replicas.fetchers.threads[(1, 0)]


def last_asked(trio: Trio) -> tuple[int, int, int]:
    asked = next(iter(fetcher(trio).session.partitions.values()))
    return asked.fetch_offset, asked.current_leader_epoch, asked.last_fetched_epoch


def test_append_takes_the_high_watermark_clamped(trio: Trio) -> None:
    reply(trio, hw=9, batches=(written(0, 1), written(1, 1)))
    log = trio.nodes[2].partition.log
    assert (log.log_end_offset, log.high_watermark, last_asked(trio)) == (2, 2, (2, 1, 1))
    reply(trio, hw=1)
    assert log.high_watermark == 1  # a follower's may go down


def test_reply_of_an_older_epoch_is_dropped(trio: Trio) -> None:  # KAFKA-18991
    trio.registration = registration(1, 2, 1)
    trio.tell(2)
    reply(trio, batches=(written(0, 1),))
    assert trio.log(2) == []
    assert last_asked(trio) == (0, 2, -1)


def test_a_used_reply_of_an_older_epoch_is_told() -> None:  # 2.8
    trio = Trio(rules=Replication28())
    trio.tell(2)
    reply(trio, batches=(written(0, 1),))
    trio.registration = registration(1, 2, 1)
    trio.tell(2)
    reply(trio, batches=(written(1, 1),))
    assert [offset for offset, _, _ in trio.log(2)] == [0, 1]
    told = [fact for _, fact in trio.facts if type(fact) is StaleReplyUsed]
    assert told == [StaleReplyUsed(TOPIC_ID, 0, 2, 1, 1)]


def test_a_refusal_of_an_older_epoch_delays_the_partition() -> None:  # 2.8, onPartitionFenced
    trio = Trio(rules=Replication28())
    trio.tell(2)
    reply(trio, batches=(written(0, 1),))
    trio.registration = registration(1, 2, 1)
    trio.tell(2)
    reply(trio, error=Errors.FENCED_LEADER_EPOCH)
    assert list(fetcher(trio).states.delayed) == [TP]
    assert not [fact for _, fact in trio.facts if type(fact) is ReplicaFailed]


def test_batches_above_the_fetch_epoch_are_left_out(trio: Trio) -> None:  # KAFKA-18723
    reply(trio, batches=(written(0, 1), written(1, 2), written(2, 1)))
    assert [offset for offset, _, _ in trio.log(2)] == [0]


def test_divergence_truncates_and_leaves_the_high_watermark(trio: Trio) -> None:  # KAFKA-14704
    reply(trio, hw=1, batches=(written(0, 1), written(1, 1), written(2, 1)))
    reply(trio, hw=3, diverging=(1, 2))
    log = trio.nodes[2].partition.log
    assert (log.log_end_offset, log.high_watermark) == (2, 1)
    assert [(f.log_end_offset, f.offset) for _, f in trio.facts if type(f) is Truncated] == [(3, 2)]
    assert last_asked(trio) == (2, 1, 1)


def test_truncation_goes_back_epoch_by_epoch(trio: Trio) -> None:  # KIP-279
    trio.registration = registration(1, 4, 1)
    trio.tell(2)
    reply(trio)
    reply(trio, batches=(written(0, 1), written(1, 3), written(2, 4)))
    reply(trio, diverging=(2, 9))  # epoch 2 is unknown here: cut where 3 began, ask again
    assert (last_asked(trio), len(trio.log(2))) == ((1, 4, 1), 1)


def test_errors_delay_or_fail(trio: Trio) -> None:
    reply(trio, error=Errors.NOT_LEADER_OR_FOLLOWER)
    assert list(fetcher(trio).states.delayed) == [TP]
    trio.advance(1_000_000)
    assert list(fetcher(trio).states.fetching) == [TP]
    reply(trio, error=Errors.FENCED_LEADER_EPOCH)
    assert fetcher(trio).states.is_empty()
    failed = [f for _, f in trio.facts if type(f) is ReplicaFailed]
    assert failed == [ReplicaFailed(TOPIC_ID, 0, "FENCED_LEADER_EPOCH")]
    trio.registration = registration(1, 2, 1)
    trio.tell(2)  # new metadata brings it back
    assert last_asked(trio) == (0, 2, -1)


def test_fenced_with_an_epoch_that_moved_on_is_retried(trio: Trio) -> None:
    trio.registration = registration(1, 2, 1)
    trio.tell(2)
    reply(trio, error=Errors.FENCED_LEADER_EPOCH)
    assert last_asked(trio) == (0, 2, -1)


def test_a_batch_below_the_log_end_fails_the_partition(trio: Trio) -> None:
    reply(trio, batches=(written(0, 1), written(1, 1)))
    reply(trio, batches=(written(0, 1),))
    assert fetcher(trio).states.is_empty()


def test_out_of_range_truncates_to_a_shorter_leader(trio: Trio) -> None:
    reply(trio, batches=(written(0, 1), written(1, 1)))
    reply(trio, error=Errors.OFFSET_OUT_OF_RANGE)
    trio.tell(1)  # the leader's log is empty: an unclean election
    trio.settle(1)
    trio.settle(1)
    assert trio.log(2) == []


def test_replies_for_a_partition_that_left_are_dropped(trio: Trio) -> None:  # KAFKA-13207
    trio.registration = registration(2, 2, 1)
    trio.nodes[2].replicas.fetchers.threads[(1, 0)].states.fetching["other"] = None  # type: ignore[index,assignment]
    key = next(key for key in trio.requests if key[0] == 2)
    sent = trio.requests[key].popleft()
    kept = fetcher(trio)
    trio.tell(2)
    del kept.states.fetching["other"]  # type: ignore[arg-type]
    trio.produce(2, 5, acks=1)
    answer = FetchPartitionResponse(TP, NONE, 0, 0, 0, (), (1, 0))
    response = FetchResponse(NONE, (answer,))
    trio.nodes[2].handle(Response(key[1], sent.correlation, response), trio.now)
    assert [value for _, _, value in trio.log(2)] == [5]


def replicated(trio: Trio) -> list[tuple[int, int]]:
    return [(f.base_offset, f.next_offset) for _, f in trio.facts if type(f) is Replicated]


def test_replicated_tells_what_the_log_took(trio: Trio) -> None:
    """The log decides where it stops; the fact and the next fetch follow its answer."""
    reply(trio, batches=(written(0, 2),))
    assert (replicated(trio), last_asked(trio)) == ([], (0, 1, -1))
    reply(trio, batches=(written(0, 1), written(1, 2), written(2, 1)))
    assert (replicated(trio), last_asked(trio)) == ([(0, 1)], (1, 1, 1))


def test_one_storage_rule_decides_which_epochs_a_follower_appends() -> None:  # B04, B13, B83
    class AnyEpoch(StorageRules):
        def follower_accepts(self, batch_epoch: int, leader_epoch: int) -> bool:
            return True

    trio = Trio(storage=AnyEpoch())
    trio.tell(2)
    reply(trio, batches=(written(0, 1), written(1, 2)))
    assert replicated(trio) == [(0, 2)]
    assert [(offset, epoch) for offset, epoch, _ in trio.log(2)] == [(0, 1), (1, 2)]


def test_bit_rot_at_the_leader_is_fetched_again_later(trio: Trio) -> None:
    reply(trio, batches=(corrupted(written(0, 1)),))
    assert (replicated(trio), list(fetcher(trio).states.delayed)) == ([], [TP])


def test_an_empty_log_inside_the_leaders_first_batch_starts_anew_there(trio: Trio) -> None:
    """Partition.appendRecordsToFollowerOrFutureReplica, UnexpectedAppendOffsetException."""
    trio.nodes[2].partition.truncate_fully(1)
    fetcher(trio).states.move(fetcher(trio).states.fetching[TP], 1, -1)
    reply(trio)  # the fetch in flight asked elsewhere; the next one asks at 1
    records = (Record("k", 1, 50, 0), Record("k", 2, 50, 0))
    reply(trio, batches=(assigned(batch_of(records), 0, 1),))
    assert replicated(trio) == [(0, 2)]
    assert trio.nodes[2].partition.log.log_start_offset == 0
