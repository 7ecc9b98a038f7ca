"""The durable ``quorum-state`` file: the epoch, its leader, and whom this voter voted for.

Models FileQuorumStateStore and ElectionState. Not modelled: voted directory ids (KIP-853), the
cluster id.
"""

from __future__ import annotations

from kafkasim.model.storage.checkpoints import CheckpointFile
from kafkasim.model.storage.files import Files
from kafkasim.model.values import value

NONE = -1
ENTRY_SIZE = 100


@value
class ElectionState:
    """What survives a restart; −1 stands for none."""

    epoch: int
    leader: int
    voted: int


class QuorumStateStore:
    """The file of one replica; :attr:`state` is what was last written to it."""

    def __init__(self, files: Files, path: str) -> None:
        self._file = CheckpointFile(files, path)
        self.state: ElectionState = self._file.read() or ElectionState(0, NONE, NONE)

    def write(self, state: ElectionState) -> str:
        """Write the state into the page cache; return the path that a Barrier must name.

        Raises DiskError.
        """
        path = self._file.write(state, ENTRY_SIZE)
        self.state = state
        return path
