"""A host's monotonic clock: simulated time with an offset of its own, and a drift.

``drift_ppm`` is how many microseconds the clock gains (or loses) in a second of simulated time. All
arithmetic is on integers. Reading rounds down. A deadline becomes the first simulated instant at
which the clock has reached it, strictly later than the present: a wake-up never comes early, and
never at the instant at which it is armed.
"""

from __future__ import annotations

MILLION = 1_000_000


class HostClock:
    """Monotonic time of one host, in µs.

    ``plain_offset_us`` is host time minus simulated time; None while the clock drifts.
    """

    __slots__ = ("_base_local", "_base_simulated", "drift_ppm", "plain_offset_us")

    def __init__(self, offset_us: int = 0, drift_ppm: int = 0) -> None:
        self._base_simulated = 0
        self._base_local = offset_us
        self.drift_ppm = 0
        self.plain_offset_us: int | None = offset_us
        self.set_drift(drift_ppm, 0)

    def read(self, simulated_us: int) -> int:
        """Return the host time at a simulated instant."""
        if self.plain_offset_us is not None:
            return simulated_us + self.plain_offset_us
        elapsed = simulated_us - self._base_simulated
        return self._base_local + elapsed * (MILLION + self.drift_ppm) // MILLION

    def simulated(self, deadline_us: int, now_us: int) -> int:
        """Return the first simulated instant after ``now_us`` at which the deadline is reached."""
        if self.plain_offset_us is not None:
            reached = deadline_us - self.plain_offset_us
        else:
            rate = MILLION + self.drift_ppm
            reached = self._base_simulated - (self._base_local - deadline_us) * MILLION // rate
            # -(-x // y) rounds up: the least t with read(t) >= deadline.
        return reached if reached > now_us else now_us + 1

    def set_drift(self, drift_ppm: int, now_us: int) -> None:
        """Change the rate from ``now_us`` on; the time shown does not jump."""
        assert -MILLION < drift_ppm < MILLION, drift_ppm
        local = self.read(now_us)
        self._base_simulated = now_us
        self._base_local = local
        self.drift_ppm = drift_ppm
        self.plain_offset_us = local - now_us if drift_ppm == 0 else None
