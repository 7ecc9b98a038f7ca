"""Since when a coordinator has known that it need not initialize a share partition.

A coordinator assigns only what it has initialized, or finds initialized in its log
(ShareGroup.initialized of ShareGroupStatePartitionMetadata). So once it has told a member of a
share partition, no loss before its own load makes anybody initialize it again.
"""

from __future__ import annotations

from kafkasim.analysis.judging.history.footing import Footing
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.model import facts


class AssignedShares:
    """Follows what coordinators of share groups told members."""

    def __init__(self, trace: FactSource, footing: Footing) -> None:
        self._footing = footing
        self._loads: dict[tuple[str, int], int] = {}  # node and partition -> row of the last load
        # By group and topic-partition: the rows that told of it, with those of the loads.
        self._told: dict[tuple[str, str], list[tuple[int, int]]] = {}
        trace.subscribe(facts.CoordinatorLoaded, self._on_loaded)
        trace.subscribe(facts.ShareGroupAssigned, self._on_assigned)

    def known_since(self, group: str, partition: str, before: int) -> int:
        """Return when the last coordinator was loaded that told of a partition, −1 for none.

        What counts is what was told before a row.
        """
        told = self._told.get((group, partition), ())
        return max([loaded for row, loaded in told if row < before], default=-1)

    def _on_loaded(self, seq: int, _t: int, node: str, fact: facts.CoordinatorLoaded) -> None:
        if fact.loaded:
            self._loads[node, fact.partition] = seq

    def _on_assigned(self, seq: int, _t: int, node: str, fact: facts.ShareGroupAssigned) -> None:
        home = self._footing.of_group(fact.group).key
        loaded = self._loads.get((node, home[1]), -1)
        for partition in fact.assignment:
            self._told.setdefault((fact.group, partition), []).append((seq, loaded))
