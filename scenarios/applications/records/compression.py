"""PayloadCompressor: what the bytes of applications' records compress to.

gzip is the standard library's zlib, the other codecs are pyarrow's; their default levels are
Kafka's (gzip 6, zstd 3). Records of a workload without texts have no bytes: they get the stated
ratio of their codec. The sizes are those of the installed libraries.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from kafkasim.model.compression import STATED
from kafkasim.model.records import Record
from kafkasim.scenarios.applications.session import Payloads

GZIP_LEVEL = 6
GZIP_FRAME = 12
"""Bytes that gzip's header and trailer have more than zlib's."""


class PayloadCompressor:
    """Compresses keys, values and headers as they lie in a batch."""

    def __init__(self, payloads: Payloads) -> None:
        self._payloads = payloads

    def ratio(self, codec: str, records: Sequence[Record]) -> float:
        """Return compressed bytes divided by bytes; the stated ratio if there are no bytes."""
        parts: list[bytes] = []
        for record in records:
            payload = self._payloads.written(record.value)
            if payload is None:
                return STATED[codec]
            key = record.key.encode() if isinstance(record.key, str) else record.key
            parts += [key or b"", payload.value or b""]
            parts += [
                part for name, value in payload.headers for part in (name.encode(), value or b"")
            ]
        data = b"".join(parts)
        return self._size(codec, data) / len(data) if data else 1.0

    def _size(self, codec: str, data: bytes) -> int:
        if codec == "gzip":
            return len(zlib.compress(data, GZIP_LEVEL)) + GZIP_FRAME
        import pyarrow as pa  # 0.2 s, and few runs compress anything

        return len(pa.compress(data, codec=codec, asbytes=True))
