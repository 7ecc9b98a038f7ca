"""The life of one log as text: commands, each with what the log asks of its disk.

Each ``log_*.txt`` is a list of ``> command`` lines with the trace that follows. Rewrite them with
``REWRITE=1 pytest tests/transcripts/test_log_transcripts.py`` and review the diff. Commands:
``config KEY VALUE`` of the topic, first; ``append EPOCH V…`` (as leader), ``append-sequence
PRODUCER SEQUENCE V…``, ``fetched EPOCH OFFSET V…`` (as follower), ``high-watermark N``,
``truncate N``, ``retention NOW_MS``, ``flush`` (the background flushes end), ``checkpoint`` (the
broker's checkpoint files are written), ``close``, ``crash``, ``power-loss`` (each starts the log
again), ``tear BASE`` (damages the last batch of a segment), ``state``.

Lines: ``fsync`` holds up what follows, ``flush`` happens in the background; ``log@4`` is the
segment that starts at offset 4, ``log@4:2`` one with two batches, ``producers@4`` a producer
snapshot.
"""

from pathlib import Path

import pytest

from tests.transcripts.log_script import Script
from tests.transcripts.transcript import play

HERE = Path(__file__).parent


@pytest.mark.parametrize("path", sorted(HERE.glob("log_*.txt")), ids=lambda path: path.stem)
def test_transcript(path):
    play(path, Script())
