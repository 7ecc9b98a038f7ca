"""MirrorMaker 2: historical bugs of its tasks (KAFKA.md, 8.8)."""

from __future__ import annotations

from kafkasim.model.connect.rules import MirrorRules
from kafkasim.scenarios.variants.variant import Variant


class Extrapolates(MirrorRules):
    """A group's offset in the target is as far behind the last offset sync as in the source."""

    def translated(self, up: int, down: int, offset: int) -> int:
        return down + (offset - up)


MIRROR_BUGS: tuple[Variant, ...] = (
    Variant(
        "B104-extrapolated-translation", "KAFKA-12468", (Extrapolates,),
        "translated-past", "B104-extrapolated-translation",
        "No record that a group has not read is in front of its translated offset.",
    ),
)  # fmt: skip
