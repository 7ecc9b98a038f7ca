"""Whether the metadata log was lost: a majority of the voters had no disk any more at one time.

The committed log is durable on a majority of the voters (KIP-595). Who replaces the disks of as
many before they have fetched it again takes that away: empty voters may elect each other, and begin
the epochs and the offsets of the metadata anew.
"""

from __future__ import annotations

from kafkasim.model import facts

LOST_METADATA = "lost-metadata"
"""What covers a finding about metadata that nobody could keep."""


class MetadataLoss:
    """Follows the voters' disks. ``lost`` stays True once it is."""

    def __init__(self) -> None:
        self.lost = False
        self._voters: dict[str, None] = {}  # hosts that took a role in the quorum
        self._count = 0  # of the newest set of voters that was told, 0 for none
        self._highest = -1  # metadata offset that somebody has applied
        self._empty: dict[str, int] = {}  # hosts with a new disk: what they have to fetch again

    def on_RaftRole(self, _seq: int, _t: int, node: str, _fact: facts.RaftRole) -> None:
        """Take a voter."""
        self._voters[node] = None

    def on_VotersChanged(self, _seq: int, _t: int, _node: str, fact: facts.VotersChanged) -> None:
        """Take how many voters there are (KIP-853)."""
        self._count = len(fact.voters)

    def on_MetadataCommitted(
        self, _seq: int, _t: int, node: str, fact: facts.MetadataCommitted
    ) -> None:
        """Note a voter that has again what was committed when it lost its disk."""
        self._highest = max(self._highest, fact.offset)
        if fact.offset >= self._empty.get(node, fact.offset + 1):
            del self._empty[node]

    def on_DiskReplaced(self, _seq: int, _t: int, node: str, fact: facts.DiskReplaced) -> None:
        """Note a voter without a log."""
        if fact.directory_ids and node in self._voters:
            self._empty[node] = self._highest
            voters = self._count or len(self._voters)
            self.lost = self.lost or 2 * len(self._empty) > voters
