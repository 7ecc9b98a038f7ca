"""Conversations of a quorum as text: commands, each with all that follows from it.

Each ``raft_*.txt`` is a list of ``> command`` lines with the trace that follows. Rewrite them with
``REWRITE=1 pytest tests/transcripts/test_raft_transcripts.py`` and review the diff. Commands, first
``voters N``, ``observers N``, ``seed N``, ``small-segments``, then ``elect`` (boot silently until a
leader is followed), ``run MS``, ``append V…``, ``crash N``, ``power-loss N``, ``start N``,
``isolate N``, ``heal``, ``resign N``, ``add-voter N``, ``remove-voter N``, ``snapshot N``, ``clean
N`` (delete old snapshots and the log below), ``snapshot-max-bytes N`` (of one FetchSnapshot),
``state``.

Lines: ms since the boot, node, what arrived or happened. ``fsync`` holds up what follows, ``flush``
does not; ``log@0`` is the segment that starts at offset 0. Left out: polls for a leader that find
none, and Fetches that ask and bring nothing new.
"""

from pathlib import Path

import pytest

from tests.transcripts.raft_script import Script
from tests.transcripts.transcript import play

HERE = Path(__file__).parent


@pytest.mark.parametrize("path", sorted(HERE.glob("raft_*.txt")), ids=lambda path: path.stem)
def test_transcript(path):
    play(path, Script())
