"""Named random streams: every draw of a run comes from one of them.

A stream is named by the run's seed and a path such as node / incarnation / purpose, or the two ends
of a link. Its numbers depend on the name only: a new stream, or one more draw from a stream,
changes no other stream. The name is hashed with sha256, so neither ``hash`` nor the order in which
streams are made matters.
"""

from __future__ import annotations

import hashlib
import random


class Streams:
    """Makes the random streams of one seed; those of a ``part`` have its name in theirs."""

    __slots__ = ("_path", "seed")

    def __init__(self, seed: int, *part: str) -> None:
        self.seed = seed
        self._path = [str(seed), *part]

    def stream(self, *name: str | int) -> random.Random:
        """Return a fresh generator at the start of the stream ``seed[/part]/name…``."""
        path = "/".join([*self._path, *map(str, name)])
        return random.Random(int.from_bytes(hashlib.sha256(path.encode()).digest(), "big"))
