"""Conversations of a quorum as text: commands, each with all that follows from it.

Each ``raft_*.txt`` is a list of ``> command`` lines with the expected trace below. Rewrite them with
``REWRITE=1 pytest tests/transcripts/test_raft_transcripts.py`` and review the diff. Commands:
``voters N``, ``observers N``, ``run MS``, ``append V…``, ``crash N``, ``power-loss N``, ``start N``,
``isolate N``, ``heal``, ``resign N``, ``state``. Lines: ms, node, what happened. Polls for a leader
that find none, and empty long polls, are left out.
"""

import os
import re
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "model"))

from raft_cluster import World  # noqa: E402

REWRITE = os.environ.get("REWRITE") == "1"
DULL = ("timer raft/fetch", "timer raft/parked", "timer channel", "NOT_LEADER_OR_FOLLOWER")


class Script:
    """Executes commands on a world of its own."""

    def __init__(self):
        self.voters = 3
        self.observers = 0
        self.world = None
        self.roles = {}

    def run(self, line):
        command, *args = line.split()
        if command in ("voters", "observers"):
            setattr(self, command, int(args[0]))
            return []
        if self.world is None:
            self.world = World(self.voters, self.observers, seed=1)
            self.world.tracing = True
        self.world.trace.clear()
        lines = getattr(self, "do_" + command.replace("-", "_"))(*args) or []
        return [shortened(text) for text in self.world.trace if self.interesting(text)] + lines

    def interesting(self, text):
        """Leave out what is sent to find a leader, and where nothing is asked of anyone."""
        node, what, *rest = text.split()[1:]
        if what == "role":
            self.roles[node] = rest[0]
        if rest[0].startswith("RaftFetchRequest") and self.roles.get(node) != "leader":
            return False
        return not any(dull in text for dull in DULL)

    def do_run(self, ms):
        self.world.run(int(ms) * 1000)

    def do_append(self, *values):
        return [f"offset {self.world.append(values)}"]

    def do_crash(self, node):
        self.world.crash(int(node))

    def do_power_loss(self, node):
        self.world.crash(int(node), power=True)

    def do_start(self, node):
        self.world.start(int(node))

    def do_isolate(self, node):
        self.world.isolate(int(node))

    def do_heal(self):
        self.world.heal()

    def do_resign(self, node):
        raft = self.world.nodes[int(node)].raft
        raft.resign(raft.epoch, self.world.now)
        self.world.drain(int(node))

    def do_state(self):
        return [
            f"{i}  {raft.role} log={raft.log_end_offset} hw={raft.high_watermark}"
            for i, node in self.world.nodes.items()
            if node is not None
            for raft in [node.raft]
        ]


def shortened(text):
    """A message without the fields nobody reads here."""
    text = re.sub(r"<Errors\.(\w+): \d+>", r"\1", text)
    text = re.sub(r"(error=NONE|max_bytes=\d+|snapshot_id=None)(, )?", "", text)
    text = re.sub(r"(\w*directory_id=''|leader_endpoint='[^']*')(, )?", "", text)
    text = re.sub(r"(diverging_epoch=None|max_wait_ms=500|log_start_offset=-?\d+)(, )?", "", text)
    text = re.sub(r"batches=\((.*)\)", lambda m: f"batches={m[1].count('RecordBatch(')}", text)
    return text.replace(", )", ")")


@pytest.mark.parametrize("path", sorted(HERE.glob("raft_*.txt")), ids=lambda path: path.stem)
def test_transcript(path):
    expected = path.read_text()
    script, lines = Script(), []
    for line in expected.splitlines():
        if line.startswith("#") or line == "":
            lines.append(line)
        elif line.startswith("> "):
            lines += [line, *script.run(line[2:])]
    actual = "\n".join(lines) + "\n"
    if REWRITE:
        path.write_text(actual)
    assert actual == path.read_text()
