"""Seeds as text: ``0-999``, ``1,5,7-9``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

MOST = 100_000_000
"""More seeds in one text are a slip of the hand."""


def parse(text: str) -> list[int]:
    """Return the seeds that a text names, in its order, each once.

    Raises:
        ValueError: the text is no list of seeds and ranges.
    """
    found: dict[int, None] = {}
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"seeds {text!r:.80}: give numbers and ranges, as in 0-999 or 1,5,7-9")
        span = range(int(first), int(last or first) + 1)
        if not span or len(span) > MOST:
            raise ValueError(f"seeds {text!r:.80}: {part.strip()!r:.40} is no range of seeds")
        found |= dict.fromkeys(span)
    return list(found)


def text(seeds: Iterable[int]) -> str:
    """Return sorted seeds as text, ranges joined."""
    return ",".join(
        str(first) if first == last else f"{first}-{last}" for first, last in _spans(seeds)
    )


def _spans(seeds: Iterable[int]) -> Iterator[tuple[int, int]]:
    first = last = None
    for seed in sorted(seeds):
        if first is None or last is None:
            first = last = seed
        elif seed == last + 1:
            last = seed
        else:
            yield first, last
            first = last = seed
    if first is not None and last is not None:
        yield first, last
