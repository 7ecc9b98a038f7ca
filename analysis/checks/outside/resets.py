"""The resets that explain what became of an offset, for both checks."""

from __future__ import annotations

from kafkasim.analysis.checks.base import spot

MOVES = """
    LEFT JOIN (SELECT run, topic_id, partition, group, moves FROM resets)
        USING (run, topic_id, partition, group)"""
"""Joins each group's resets in a partition."""


def reset(missing: str, after: str, shown: str) -> str:
    """Return the SQL of the last row in which a group's reset explains what became of an offset.

    Of a ``missing`` record it passed over the offset; otherwise it led back to it. It lies between
    the rows ``after`` and ``shown``.
    """
    return (
        f"array_max(transform(filter(moves, m -> {after} < m.row AND m.row < {shown} AND"
        f" (m.to > offset) = ({missing})), m -> m.row))"
    )


def on_reset(part: str = "''") -> tuple[tuple[str, str], ...]:
    """Return what a group's position rests on before the row ``reset``, by condition."""
    return (
        ("reset IS NOT NULL", spot("topic_id", "partition", before="reset", part=part)),
        (
            "reset IS NOT NULL AND home IS NOT NULL",
            spot("home", "home_partition", before="reset", part=part),
        ),
    )
