"""Conversations of a tiny cluster as text: commands, each with all that follows from it.

Each ``cluster_*.txt`` and ``zk_*.txt`` is a list of ``> command`` lines with the expected trace
below: messages as they arrive and facts as they happen, of ``orders-0`` only. Rewrite them with
``REWRITE=1 pytest tests/transcripts/test_cluster_transcripts.py`` and review the diff. Commands:
``mode kraft|zookeeper``, ``config KEY VALUE``, ``create REPLICAS``, then ``produce BROKER ACKS
VALUE…``, ``consume BROKER OFFSET``, ``run MS``, ``crash N``, ``start N``, ``stop N`` (SIGTERM),
``hold N`` (its messages wait), ``release N``, ``cut HOST HOST``, ``heal``, ``reassign REPLICAS``,
``elect preferred|unclean``, ``alter KEY VALUE`` (a topic config), ``state``.

Lines: ms since the topic is there, who, what. Fetches that ask and bring nothing new are left out.
"""

from pathlib import Path

import pytest

from tests.transcripts.cluster_script import Script
from tests.transcripts.transcript import play

HERE = Path(__file__).parent
PATHS = [*sorted(HERE.glob("cluster_*.txt")), *sorted(HERE.glob("zk_*.txt"))]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_transcript(path):
    play(path, Script())
