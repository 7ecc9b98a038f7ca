"""Conversations of a tiny cluster as text: commands, each with all that follows from it.

Three brokers, one controller, ``orders-0`` with replicas 1, 2, 3. Each ``cluster_*.txt`` is a list
of ``> command`` lines with the expected trace below: messages as they arrive and facts as they
happen, of ``orders-0`` only. Rewrite them with
``REWRITE=1 pytest tests/transcripts/test_cluster_transcripts.py`` and review the diff. Commands:
``config KEY VALUE``, ``produce BROKER ACKS VALUE…``, ``consume BROKER OFFSET``, ``run MS``,
``crash N``, ``start N``, ``hold N`` (its messages wait), ``release N``, ``state``.

Lines: ms since the topic is there, who, what. Fetches that ask and bring nothing new are left out.
"""

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "model"))

from broker_cluster import SECOND, TP, Cluster  # noqa: E402

from kafkasim.model.errors import Errors  # noqa: E402
from kafkasim.model.facts import FACTS  # noqa: E402

REWRITE = os.environ.get("REWRITE") == "1"
FACT_KINDS = tuple(FACTS.values())
FIELDS = {
    "Appended": "leader_epoch base_offset next_offset record_ids",
    "Replicated": "leader_epoch batch_epoch base_offset next_offset",
    "HighWatermark": "leader_epoch high_watermark acknowledged",
    "PartitionChanged": "reason leader leader_epoch partition_epoch isr",
    "BecameLeader": "leader_epoch start_offset high_watermark isr",
    "BecameFollower": "leader_epoch leader log_end_offset",
    "Truncated": "offset",
    "LogLoaded": "log_end_offset high_watermark clean",
}
"""What is shown of each kind of fact."""


class Told(Cluster):
    """A cluster that writes down what arrives and what happens."""

    def __init__(self, **settings):
        self.lines = []
        self.begin = 0
        self.told = {}  # (client, server) -> the last Fetch or answer that was worth a line
        super().__init__(**settings)

    def tell(self, who, what):
        self.lines.append(f"  {(self.now - self.begin) / 1000:8.1f}  {who:<9}  {what}")

    def arrive(self, wire, forward, effect):
        if (
            wire.client not in self.held
            and wire.server not in self.held
            and self.open(wire, forward)
        ):
            for what in described(effect.message):
                at, whom = (wire.server, wire.client) if forward else (wire.client, wire.server)
                if not what.startswith("Fetch") or self.told.get((at, whom)) != what:
                    self.told[(at, whom)] = what
                    self.tell(at, f"<- {whom}: {what}")
        super().arrive(wire, forward, effect)

    def open(self, wire, forward):
        """Whether the end that a message goes to is still there."""
        if forward:
            return (wire.server, wire.server_number) in self.incoming
        return (wire.client, wire.client_number) in self.outgoing

    def perform(self, name, effect):
        kind = type(effect)
        if kind in FACT_KINDS and kind.__name__ in FIELDS:
            if (effect.topic_id, effect.partition) == (self.topic_id, 0):
                shown = [f"{f}={getattr(effect, f)}" for f in FIELDS[kind.__name__].split()]
                self.tell(name, f"{kind.__name__} {' '.join(shown)}")
        super().perform(name, effect)

    @property
    def topic_id(self):
        for process in self.processes.values():
            replicas = getattr(process, "replicas", None)
            if replicas is not None and TP in replicas.partitions:
                return replicas.partitions[TP].topic_id
        return None


def described(message):
    """Return what a message says about orders-0, nothing if it says nothing."""
    name = type(message).__name__
    for part in getattr(message, "partitions", ()) or ():
        if name == "FetchRequest" and part.tp == TP:
            yield f"Fetch offset={part.fetch_offset} epoch={part.current_leader_epoch}"
        elif name == "FetchResponse" and part.tp == TP:
            values = [r.value for b in part.batches for r in b.records]
            found = f"FetchResponse {error(part)}high_watermark={part.high_watermark}"
            found += f" records={values}" if values else ""
            yield found + (f" diverging={part.diverging_epoch}" if part.diverging_epoch else "")
        elif name == "AlterPartitionRequest":
            members = tuple(broker for broker, _ in part.new_isr)
            yield f"AlterPartition isr={members} partition_epoch={part.partition_epoch}"
        elif name == "AlterPartitionResponse":
            yield f"AlterPartitionResponse {error(part)}isr={part.isr}"


def error(part):
    return "" if part.error is Errors.NONE else f"{part.error.name} "


class Script:
    """Executes commands on a cluster of its own."""

    def __init__(self):
        self.settings = {}
        self.cluster = None

    def run(self, line):
        command, *args = line.split()
        if command == "config":
            self.settings[args[0].replace(".", "_")] = int(args[1])
            return []
        if self.cluster is None:
            self.cluster = Told(**self.settings)
            self.cluster.create()
            self.cluster.run(-(-self.cluster.now // SECOND) * SECOND)
            self.cluster.begin = self.cluster.now
        self.cluster.lines.clear()
        answer = getattr(self, f"do_{command}")(*args) or []
        return [*self.cluster.lines, *(f"  = {text}" for text in answer)]

    def do_produce(self, broker, acks, *values):
        answer = self.cluster.produce(int(broker), *map(int, values), acks=int(acks))
        return [f"{answer[0].name}, base offset {answer[1]}" if answer else "no answer in 1 s"]

    def do_consume(self, broker, offset):
        found = self.cluster.consume(int(broker), int(offset))
        return [str([each.name if isinstance(each, Errors) else each for each in found])]

    def do_run(self, ms):
        self.cluster.run(self.cluster.now + int(ms) * 1000)

    def do_crash(self, number):
        self.cluster.crash(f"broker-{number}")

    def do_start(self, number):
        self.cluster.restart(f"broker-{number}")

    def do_hold(self, number):
        self.cluster.held.append(f"broker-{number}")

    def do_release(self, number):
        self.cluster.held.remove(f"broker-{number}")

    def do_state(self):
        for name, process in self.cluster.processes.items():
            if name.startswith("broker-") and TP in process.replicas.partitions:
                partition = process.replicas.partitions[TP]
                log = partition.log
                values = [
                    r.value for b in log.batches_from(log.log_start_offset) for r in b.records
                ]
                epochs = log.epochs.entries
                yield f"{name}: log={values} high_watermark={log.high_watermark} epochs={epochs}"


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(HERE.glob("cluster_*.txt")), ids=lambda path: path.stem)
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
