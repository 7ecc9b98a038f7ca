"""A rate over sampled windows: Kafka's Rate over a WindowedSum (SampledStat).

Times are in milliseconds. A window is a sample; one more is kept than is measured, because a sample
that began before the measured time and overlaps it still counts.
"""

from __future__ import annotations

SAMPLES = 11
"""quota.window.num"""

WINDOW_MS = 1000
"""quota.window.size.seconds"""


class _Sample:
    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        """Empty the sample."""
        self.value = 0.0
        self.start_ms = self.last_ms = now_ms


class Rate:
    """What was recorded a second."""

    __slots__ = ("_current", "_samples", "_windows")

    def __init__(self, samples: int = SAMPLES) -> None:
        self._windows = samples
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """Count a value; a negative one takes back what was recorded."""
        sample = self._sample(now_ms)
        if now_ms - sample.start_ms >= WINDOW_MS:
            sample = self._advance(now_ms)
        sample.value += value
        sample.last_ms = now_ms

    def measure(self, now_ms: int) -> float:
        """Return the rate a second."""
        self._purge(now_ms)
        total = sum([sample.value for sample in self._samples])
        return total / (self.window_ms(now_ms) / 1000)

    def window_ms(self, now_ms: int) -> int:
        """Return the time that the rate is measured over.

        At least all windows but the last one are taken as complete, so that a first burst is
        measured against ten seconds.
        """
        self._purge(now_ms)
        self._sample(now_ms)
        elapsed = now_ms - min([sample.start_ms for sample in self._samples])
        lacking = self._windows - 1 - elapsed // WINDOW_MS
        return max(elapsed + max(lacking, 0) * WINDOW_MS, 1)

    def _sample(self, now_ms: int) -> _Sample:
        if not self._samples:
            self._samples.append(_Sample(now_ms))
        return self._samples[self._current]

    def _advance(self, now_ms: int) -> _Sample:
        self._current = (self._current + 1) % (self._windows + 1)
        if self._current == len(self._samples):
            self._samples.append(_Sample(now_ms))
        else:
            self._samples[self._current].reset(now_ms)
        return self._samples[self._current]

    def _purge(self, now_ms: int) -> None:
        for sample in self._samples:
            if now_ms - sample.last_ms >= self._windows * WINDOW_MS:
                sample.reset(now_ms)
