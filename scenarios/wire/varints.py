"""Unsigned and zig-zag varints, as KIP-482 and record format v2 have them (Kafka: ByteUtils)."""

from __future__ import annotations


def read_unsigned(data: bytes, at: int) -> tuple[int, int]:
    """Return an unsigned varint of at most 32 bits at a position, and the position after it.

    Raises:
        IndexError: the bytes end inside it.
        ValueError: it is longer than five bytes.
    """
    number = data[at]
    at += 1
    if number < 0x80:
        return number, at
    number &= 0x7F
    for shift in (7, 14, 21, 28):
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise ValueError("a varint is longer than 5 bytes")


def write_unsigned(out: bytearray, number: int) -> None:
    """Append an unsigned varint."""
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def read_signed(data: bytes, at: int) -> tuple[int, int]:
    """Return a zig-zag varint of at most 64 bits at a position, and the position after it.

    Raises:
        IndexError: the bytes end inside it.
        ValueError: it is longer than ten bytes.
    """
    byte = data[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    number = byte & 0x7F
    for shift in range(7, 70, 7):
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
    raise ValueError("a varint is longer than 10 bytes")


def write_signed(out: bytearray, number: int) -> None:
    """Append a zig-zag varint of at most 64 bits."""
    write_unsigned(out, (number << 1) ^ (number >> 63))
