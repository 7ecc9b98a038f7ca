"""The compression of record batches: gzip by zlib, snappy, lz4 and zstd by Arrow.

Arrow is imported with the first batch that needs it, so that a server is ready sooner.
"""

from __future__ import annotations

import struct
import zlib

from kafkasim.scenarios.wire.varints import read_unsigned

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
"""The codecs, as the lowest bits of a batch's attributes have them (CompressionType)."""

UNCOMPRESSED_MAX = 256 * 1024 * 1024
"""How many bytes a batch may become; more counts as corrupt."""

_XERIAL = b"\x82SNAPPY\x00"
_GZIP_WINDOW = 31  # 15, and 16 for gzip's header


def decompress(codec: int, data: bytes) -> bytes:
    """Return the records of a batch.

    Raises:
        ValueError: no such codec, damaged data, or more than UNCOMPRESSED_MAX bytes.
    """
    try:
        if codec == NONE:
            return data
        if codec == GZIP:
            stream = zlib.decompressobj(_GZIP_WINDOW)
            found = stream.decompress(data, UNCOMPRESSED_MAX + 1)
            if not stream.eof and len(found) <= UNCOMPRESSED_MAX:
                raise ValueError("a batch ends inside its gzip stream")
        elif codec == SNAPPY:
            found = _xerial(data) if data.startswith(_XERIAL) else _snappy(data)
        elif codec in (LZ4, ZSTD):
            import pyarrow as pa

            name = "lz4" if codec == LZ4 else "zstd"
            with pa.input_stream(pa.BufferReader(data), compression=name) as file:
                found = file.read(UNCOMPRESSED_MAX + 1)
        else:
            raise ValueError(f"no compression codec has number {codec}")
    except (zlib.error, OSError, IndexError, struct.error) as error:
        raise ValueError(f"a batch cannot be decompressed: {error}") from None
    if len(found) > UNCOMPRESSED_MAX:
        raise ValueError(f"a batch has more than {UNCOMPRESSED_MAX} bytes")
    return found


def _xerial(data: bytes) -> bytes:
    """Return the blocks of a stream as Java's SnappyOutputStream frames them."""
    found, at = bytearray(), 16  # 8 bytes of magic, two versions
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        found += _snappy(data[at + 4 : at + 4 + size])
        at += 4 + max(size, 0)
        if len(found) > UNCOMPRESSED_MAX:
            break
    return bytes(found)


def _snappy(block: bytes) -> bytes:
    import pyarrow as pa

    size, _ = read_unsigned(block, 0)
    if size > UNCOMPRESSED_MAX:
        raise ValueError(f"a batch has more than {UNCOMPRESSED_MAX} bytes")
    found: bytes = pa.decompress(block, decompressed_size=size, codec="snappy", asbytes=True)
    return found
