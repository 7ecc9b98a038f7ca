"""What explanations say of the facts of share groups."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.analysis.story.sentences import Teller, rule
from kafkasim.model import facts

CREATED = {"kind": "TopicCreated", "topic_id": "T", "topic": "orders"}
PLACE = ("workers", "T", 0)
OF_MEMBER = ("workers", "m1", "T", 0)

SENTENCES: list[tuple[Any, str]] = [
    (facts.SharePartitionLoaded(*PLACE, 3, 1, 40),
     ("broker-1 has read the state of orders-0 for share group workers in leader epoch 3: state"
      " epoch 1, it begins at offset 40")),
    (facts.SharePartitionClosed(*PLACE, 3, "FENCED_STATE_EPOCH"),
     ("broker-1 forgets orders-0 for share group workers: the persister answered"
      " FENCED_STATE_EPOCH")),
    (facts.SharePartitionClosed(*PLACE, 3, "leadership"),
     "broker-1 forgets orders-0 for share group workers: it no longer leads the partition"),
    (facts.ShareAcquired(*OF_MEMBER, 3, 40, 44, 2, 15_000_000),
     ("broker-1 gives offsets 40 to 44 of orders-0 for share group workers to member m1, delivery"
      " 2, locked for 15000 ms")),
    (facts.ShareMoved(*OF_MEMBER, 3, 41, 41, "AVAILABLE", 2, "lock-expired"),
     ("broker-1 has offset 41 of orders-0 for share group workers as AVAILABLE, delivered 2 times,"
      " held by member m1: its acquisition lock has expired")),
    (facts.ShareStartMoved(*PLACE, 3, 45, "records"),
     ("broker-1 moves the start of orders-0 for share group workers to offset 45: all records"
      " below it are accepted, rejected or archived")),
    (facts.ShareStartFailed(*PLACE, 3, 45),
     ("broker-1 has written the state of orders-0 for share group workers, but has no state for its"
      " start offset 45: the start stays, and no request is answered")),
    (facts.SharePolled(*OF_MEMBER, (40, 41, 42, 43, 44), (1, 2, 3, 4, 5), (1, 1, 1, 1, 1)),
     ("broker-1 gets the records at 40, 41, 42, 43 and 1 more of orders-0 for share group workers"
      " from poll()")),
    (facts.ShareAcknowledged(*OF_MEMBER, (40, 41), (1, 2), "NONE"),
     ("broker-1 hears that in orders-0 for share group workers accept of 40, release of 41 is"
      " done")),
    (facts.ShareAcknowledged(*OF_MEMBER, (40,), (3,), "INVALID_RECORD_STATE"),
     ("broker-1 hears that in orders-0 for share group workers reject of 40 failed with"
      " INVALID_RECORD_STATE")),
    (facts.ShareGroupState("workers", "Empty", 4, (), ""),
     "broker-1 has share group workers Empty at epoch 4 with nobody"),
    (facts.ShareGroupAssigned("workers", 4, "m1", ("orders-0",)),
     "broker-1 assigns orders-0 to member m1 of share group workers at member epoch 4"),
    (facts.ShareStatesLoaded(2, 5, False),
     ("broker-1 is no longer share coordinator for __share_group_state-2 (leader epoch 5)")),
    (facts.ShareStateInitialized(*PLACE, 4, -1, 9),
     ("broker-1 begins the state of orders-0 for share group workers anew without a start offset,"
      " state epoch 4")),
    (facts.ShareStateInitialized(*PLACE, 4, 7, 9),
     ("broker-1 begins the state of orders-0 for share group workers anew at offset 7, state epoch"
      " 4")),
]  # fmt: skip


@pytest.mark.parametrize(("fact", "text"), SENTENCES)
def test_a_fact_of_a_share_group_is_a_sentence(fact: Any, text: str) -> None:
    columns = {
        name: list(value) if isinstance(value, tuple) else value
        for name in fact.__dataclass_fields__
        for value in [getattr(fact, name)]
    }
    kind = type(fact).__name__
    row = {**columns, "node": "broker-1", "kind": kind}
    (said,) = Teller({}, [CREATED]).of(row)
    assert (str(said), rule(row, zookeeper=False)) == (text, "3.6")
