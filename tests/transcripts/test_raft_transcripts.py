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

import os
from pathlib import Path

import pytest

from tests.transcripts.raft_script import Script

HERE = Path(__file__).parent
REWRITE = os.environ.get("REWRITE") == "1"


@pytest.mark.parametrize("path", sorted(HERE.glob("raft_*.txt")), ids=lambda path: path.stem)
def test_transcript(path):
    script, lines = Script(), []
    for line in path.read_text().splitlines():
        if line.startswith("#") or line == "":
            lines.append(line)
        elif line.startswith("> "):
            lines += [line, *script.run(line[2:])]
    actual = "\n".join(lines) + "\n"
    if REWRITE:
        path.write_text(actual)
    assert actual == path.read_text()
