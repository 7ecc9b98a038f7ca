"""The durable ``quorum-state`` file: the epoch, its leader, and the candidate this voter voted for.

Models FileQuorumStateStore and ElectionState. Left out: the directory id of the candidate
(KIP-853), the cluster id.
"""

from __future__ import annotations

from kafkasim.model.storage.checkpoints import CheckpointFile
from kafkasim.model.storage.files import Files
from kafkasim.model.values import value

NONE = -1
"""No node: there is no leader, or no vote was given."""

ENTRY_SIZE = 100  # bytes


@value
class ElectionState:
    """What a voter must not forget in a restart. ``leader`` and ``voted`` may be −1 (none)."""

    epoch: int
    leader: int
    voted: int


class QuorumStateStore:
    """The file of one replica; ``state`` is what was last written to it."""

    def __init__(self, files: Files, path: str) -> None:
        self._file = CheckpointFile(files, path)
        self.state: ElectionState = self._file.read() or ElectionState(0, NONE, NONE)

    def write(self, state: ElectionState) -> str:
        """Write the state into the page cache; return the path that a Barrier must name.

        Raises:
            DiskError: the disk refused the write.
        """
        path = self._file.write(state, ENTRY_SIZE)
        self.state = state
        return path
