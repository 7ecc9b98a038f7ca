"""Host clocks: reading, and the conversion of deadlines back to simulated time."""

import random

from kafkasim.sim.clock import HostClock


def test_plain_clock_is_an_offset():
    clock = HostClock(offset_us=1000)
    assert (clock.read(5), clock.simulated(1010, 5), clock.plain_offset_us) == (1005, 10, 1000)


def test_a_deadline_that_has_passed_is_strictly_later():
    clock = HostClock(offset_us=1000)
    assert [clock.simulated(d, 7) for d in (0, 1007, 1008)] == [8, 8, 8]


def test_drift_converts_to_the_first_instant_at_which_the_deadline_is_reached():
    rng = random.Random(4)
    for _ in range(2000):
        clock = HostClock(rng.randrange(10**9), rng.choice([-50_000, -37, 1, 333, 100_000]))
        now = rng.randrange(10**9)
        clock.set_drift(rng.choice([-1000, -1, 7, 99_999]), now)
        deadline = clock.read(now) + rng.randrange(1, 10**7)
        at = clock.simulated(deadline, now)
        assert clock.read(at) >= deadline, (at, deadline)
        assert at == now + 1 or clock.read(at - 1) < deadline, (at, deadline)


def test_changing_the_drift_does_not_jump():
    clock = HostClock(0, 1000)
    before = clock.read(1_000_000)
    clock.set_drift(0, 1_000_000)
    assert (before, clock.read(1_000_000), clock.read(1_000_001)) == (
        1_001_000,
        1_001_000,
        1_001_001,
    )
