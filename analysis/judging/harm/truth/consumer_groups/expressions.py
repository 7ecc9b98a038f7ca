"""Regular expressions that members of consumer groups told, until the group epoch rises for them.

The coordinator resolves an expression beside its thread, and at most every ten seconds, so the
epoch may rise for another reason in between (GroupMetadataManager.maybeUpdateRegularExpressions,
handleRegularExpressionsResult).
"""

from __future__ import annotations


class Expressions:
    """Follows the expressions of every consumer group."""

    def __init__(self) -> None:
        self._told: dict[str, int] = {}  # group -> when a member last told an expression
        self._unresolved: dict[str, None] = {}  # groups whose epoch has not risen for it yet

    def tell(self, group: str, t: int) -> None:
        """Note that a member has told an expression that is resolved later."""
        self._told[group] = t
        self._unresolved[group] = None

    def explain(self, group: str, since_us: int, coordinates: bool) -> bool:
        """Return whether an expression explains an epoch that nothing else explains.

        An expression that was told before ``since_us``, when the group took its last epoch,
        explains one epoch only. A deposed coordinator (``coordinates`` is False) resolves it for
        itself, and the present one resolves it again.
        """
        unresolved = group in self._unresolved
        if coordinates:
            self._unresolved.pop(group, None)
        return unresolved or self._told.get(group, -1) >= since_us
