"""Random ids as Kafka prints them (org.apache.kafka.common.Uuid)."""

from __future__ import annotations

import base64
import random


def random_uuid(rng: random.Random) -> str:
    """Return 128 bits in URL-safe base 64, never starting with a dash (Uuid.randomUuid)."""
    while True:
        text = base64.urlsafe_b64encode(rng.getrandbits(128).to_bytes(16, "big")).decode()
        if not text.startswith("-"):
            return text.rstrip("=")
