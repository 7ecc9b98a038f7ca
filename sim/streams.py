"""Named random streams: every draw of a run comes from one of them.

A stream is named by the run's seed and a path such as node / incarnation / purpose, or by a link of
the network. The name alone decides its numbers, so a new stream, or one draw more in a stream,
moves no draw of another. The name goes through sha256: neither ``hash`` nor creation order counts.
"""

from __future__ import annotations

import hashlib
import random


class Streams:
    """The random streams of one seed."""

    __slots__ = ("seed",)

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def stream(self, *name: str | int) -> random.Random:
        """Return a fresh generator at the start of the stream ``seed/name…``."""
        path = "/".join([str(self.seed), *map(str, name)])
        return random.Random(int.from_bytes(hashlib.sha256(path.encode()).digest(), "big"))
