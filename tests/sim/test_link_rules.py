"""Rules of links alone: which packets they concern, and their verdicts."""

import random

import pytest

from kafkasim.model.messages import HeartbeatRequest, VoteRequest
from kafkasim.sim.net.link_rules import (
    DROP,
    HOLD,
    PASS,
    Rule,
    across_border,
    both_ways,
    delay,
    drop,
    lose_some,
    one_way,
    select,
)

LINKS = ["ab", "ba", "ac", "cb", "aa"]


@pytest.mark.parametrize(
    ("concerns", "expected"),
    [
        (one_way(["a"], ["b"]), ["ab"]),
        (both_ways(["a"], ["b", "c"]), ["ab", "ba", "ac"]),
        (across_border(["a", "b"]), ["ac", "cb"]),
        (across_border(["a"]), ["ab", "ba", "ac"]),
    ],
)
def test_which_links_a_rule_concerns(concerns, expected):
    assert [link for link in LINKS if concerns(*link)] == expected


def test_a_rule_passes_what_it_does_not_concern_and_heals_once():
    healed = []
    with Rule(one_way(["a"], ["b"]), drop, healed.append) as rule:
        verdicts = [rule.judge(*link, "fetch", None, True) for link in ("ab", "ba")]
    rule.heal()
    assert (verdicts, healed, rule.active) == ([DROP, PASS], [rule], False)


def test_delays_and_losses():
    lost = lose_some(0.25, random.Random(1))
    verdicts = [lost("", None, True) for _ in range(1_000)]
    assert delay(7)("", None, True) == 7
    assert set(verdicts) == {DROP, PASS}
    assert 200 < verdicts.count(DROP) < 300


BEAT = HeartbeatRequest("group", 1, "member", None)
VOTE = VoteRequest.__new__(VoteRequest)


@pytest.mark.parametrize(
    ("then", "selection", "packet", "expected"),
    [
        (HOLD, ("Heartbeat", None, None), ("x", BEAT, True), HOLD),
        (HOLD, ("Heartbeat", None, None), ("x", VOTE, True), PASS),
        (HOLD, (None, "response", None), ("x", BEAT, True), PASS),
        (HOLD, (None, "response", None), ("x", BEAT, False), HOLD),
        (DROP, (None, None, "x"), ("x", None, True), DROP),
        (DROP, (None, None, "x"), ("y", None, True), PASS),
        (HOLD, (None, None, "x"), ("x", None, True), PASS),
        (DROP, ("Heartbeat", None, "x"), ("x", None, True), PASS),
    ],
)
def test_a_selection_by_api_direction_and_purpose(then, selection, packet, expected):
    """Handshakes and ends (no message) are lost with their connection, and never held."""
    assert select(then, *selection)(*packet) == expected
