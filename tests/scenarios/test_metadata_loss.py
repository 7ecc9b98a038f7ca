"""When the metadata log is lost: a majority of the voters has empty disks at one time."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.analysis.judging.history.metadata_loss import MetadataLoss
from kafkasim.model import facts

VOTERS = [(f"controller-{each}", facts.RaftRole("follower", 1, 3001)) for each in (1, 2, 3)]
EMPTY = facts.DiskReplaced(("old",))


def applied(offset: int) -> facts.MetadataCommitted:
    return facts.MetadataCommitted(offset, 1, 0)


FETCHED_AGAIN = ("controller-1", applied(9))


@pytest.mark.parametrize(
    ("rows", "lost"),
    [
        ([("controller-1", EMPTY)], False),
        ([("controller-1", EMPTY), ("controller-2", EMPTY)], True),
        ([("controller-1", EMPTY), FETCHED_AGAIN, ("controller-2", EMPTY)], False),
        ([("controller-1", EMPTY), ("controller-1", applied(8)), ("controller-2", EMPTY)], True),
        ([("controller-1", EMPTY), ("broker-2", EMPTY)], False),
        (
            [
                ("controller-1", facts.VotersChanged(5, (3001, 3002, 3003, 3004, 3005), ("",) * 5)),
                ("controller-1", EMPTY),
                ("controller-2", EMPTY),
            ],
            False,
        ),
    ],
)
def test_a_majority_without_what_was_committed_has_lost_it(
    rows: list[tuple[str, Any]], lost: bool
) -> None:
    history = MetadataLoss()
    for seq, (node, fact) in enumerate([*VOTERS, ("controller-2", applied(9)), *rows]):
        getattr(history, f"on_{type(fact).__name__}")(seq, seq, node, fact)
    assert history.lost == lost
