"""Keys out of order, and what only looks like it: both judges are held to these cases."""

from __future__ import annotations

from kafkasim.model import facts
from tests.analysis.analysis_rows import Case, final


def sent(*ids: int, key: str = "a", since: int = 100) -> list[tuple[str, facts.KeySent]]:
    """An incarnation of a producer sends records of a key."""
    return [("producer-1", facts.KeySent(each, key, since)) for each in ids]


KEY_CASES: dict[str, tuple[Case, dict[str, int]]] = {
    "a key's records overtaken": (
        [*sent(100, 101), final(1, 101, 100, leading=True)], {"reordered-key": 1}),
    "a key's records overtaken, with another key's between": (
        [*sent(100, 102), *sent(101, key="b"), final(1, 102, 101, 100, leading=True)],
        {"reordered-key": 1}),
    "not overtaken: of two keys": (
        [*sent(100), *sent(101, key="b"), final(1, 101, 100, leading=True)], {}),
    "not overtaken: of a producer that was started again": (
        [*sent(100), *sent(101, since=101), final(1, 101, 100, leading=True)], {}),
    "not overtaken: a copy of the first is behind": (
        [*sent(100, 101), final(1, 100, 101, 100, leading=True)],
        {"duplicate": 1, "idempotent-duplicate": 1}),
    "not overtaken: keys that nobody told of": ([final(1, 101, 100, leading=True)], {}),
    "not overtaken: in the log of a follower only": (
        [*sent(100, 101), final(1, 100, 101, leading=True), final(2, 101, 100, high_watermark=0)],
        {}),
}  # fmt: skip
