"""Keyed timers, and a slow twin: a dictionary that is searched for the earliest deadline."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkasim.model.timers import Timers


def fire_due(timers: Timers, now: int) -> list[object]:
    fired: list[object] = []
    while (due := timers.pop_due(now)) is not None:
        armed = timers.armed(due[0])
        timers.fire(due[0], due[1], now)
        if armed:
            fired.append(due[0])
    return fired


def test_timers_fire_in_order_of_deadline_then_of_arming() -> None:
    timers, log = Timers(), []
    for key, deadline in (("late", 30), ("second", 10), ("third", 10), ("first", 5)):
        timers.arm(key, deadline, "main", lambda now, key=key: log.append((key, now)))  # type: ignore[misc]
    fire_due(timers, 20)
    assert (log, timers.next_deadline()) == ([("first", 20), ("second", 20), ("third", 20)], 30)


def test_a_moved_timer_fires_once_at_its_new_deadline() -> None:
    timers, log = Timers(), []
    timers.arm("session", 10, "main", log.append)
    timers.arm("session", 50, "main", log.append)
    timers.arm("session", 30, "main", log.append)
    assert fire_due(timers, 29) == []
    assert fire_due(timers, 30) == ["session"]
    assert (log, timers.next_deadline()) == ([30], None)


def test_a_popped_timer_may_still_be_cancelled_or_moved() -> None:
    timers, log = Timers(), []
    timers.arm("a", 10, "main", log.append)
    timers.arm("b", 10, "main", log.append)
    popped = [timers.pop_due(10), timers.pop_due(10)]
    timers.cancel("a")
    timers.arm("b", 20, "main", log.append)
    for key, sequence, _ in [entry for entry in popped if entry]:
        timers.fire(key, sequence, 10)
    assert (log, timers.next_deadline()) == ([], 20)


def test_cancelling_what_is_not_armed_is_no_error() -> None:
    timers = Timers()
    timers.cancel("nothing")
    assert (timers.armed("nothing"), timers.deadline("nothing")) == (False, None)


keys = st.sampled_from("abc")
steps = st.one_of(
    st.tuples(st.just("arm"), keys, st.integers(0, 30)),
    st.tuples(st.just("cancel"), keys, st.just(0)),
    st.tuples(st.just("advance"), st.just(""), st.integers(1, 10)),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(steps, max_size=40))
def test_timers_agree_with_a_dictionary(script: list[tuple[str, str, int]]) -> None:
    timers, now = Timers(), 0
    twin: dict[str, tuple[int, int]] = {}
    for number, (step, key, amount) in enumerate(script):
        if step == "arm":
            timers.arm(key, now + amount, "main", lambda _: None)
            twin[key] = (now + amount, number)
        elif step == "cancel":
            timers.cancel(key)
            twin.pop(key, None)
        else:
            now += amount
            due = sorted((at, key) for key, at in twin.items() if at[0] <= now)
            # A timer that was moved earlier and back keeps its order by its first heap entry,
            # so only the set of what is due is promised at equal deadlines.
            assert sorted(map(str, fire_due(timers, now))) == sorted(key for _, key in due)
            for _, fired in due:
                del twin[fired]
        expected = min((at for at, _ in twin.values()), default=None)
        assert timers.next_deadline() == expected
        assert {key: timers.deadline(key) for key in "abc"} == {
            key: twin[key][0] if key in twin else None for key in "abc"
        }
