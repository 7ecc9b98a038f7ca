"""What the promises about brokers and groups have found: the first rows of each kind."""

from __future__ import annotations

from kafkasim.analysis.judging.finding import Finding
from kafkasim.analysis.judging.history.history import History
from kafkasim.analysis.judging.history.metadata_loss import LOST_METADATA
from kafkasim.analysis.judging.source import LAST_REPLICA, PartitionKey

FROM_EPOCH = ("HWMONO", "ISRDATA", "MATCH")
"""What breaks when a leader that lost records goes on in its old leader epoch (ZooKeeper mode)."""

OF_METADATA = ("META", "ISRELIG", "ONELEADER")
"""What nobody can promise once a majority of the voters has lost the metadata log."""

MOST = 20
"""How many findings of one name and cover are kept: the first ones tell the story."""


class Findings:
    """Collects findings; expected ones are counted apart, so that they crowd out no others."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._found: dict[tuple[str, str], list[Finding]] = {}  # by name and what covers them

    def add(
        self,
        name: str,
        seq: int,
        t_us: int,
        key: PartitionKey,
        text: str,
        expected_by: str = "",
        offset: int = -1,
    ) -> None:
        """Keep what row ``seq`` showed of a partition, if it is one of the first of its kind."""
        if not expected_by and name in FROM_EPOCH and self._history.partition(*key).reopened:
            expected_by = LAST_REPLICA
        if not expected_by and name in OF_METADATA and self._history.metadata.lost:
            expected_by = LOST_METADATA
        known = self._found.setdefault((name, expected_by), [])
        if len(known) < MOST:
            known.append(
                Finding(
                    name, *key, text, expected_by=expected_by, offset=offset, seq=seq, t_us=t_us
                )
            )

    @property
    def all(self) -> list[Finding]:
        """All findings that were kept, in the order of the rows that showed them."""
        found = [finding for known in self._found.values() for finding in known]
        return sorted(found, key=lambda finding: finding.seq)
