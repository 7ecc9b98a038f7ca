"""What becomes of the last epochs of a producer id, as Kafka's own TransactionMetadata says.

``java/LastEpochs.java`` plays the steps of TransactionCoordinator.endTransaction, each under a few
epochs: a client ends a transaction, or it times out. It knows one step of the coordinator itself:
4.0 raises the epoch in memory for a fence (KAFKA-19367).
"""

from __future__ import annotations

from pathlib import Path

from tests.fidelity.real_kafka import jars, run_java

HERE = Path(__file__).parent
LAST_EPOCHS = HERE / "last_epochs"

VERSIONS = ("4.0.0", "4.1.0", "4.2.0")
FENCES_IN_MEMORY = ("4.0.0",)


def ask(version: str) -> list[str]:
    """Return a line for each step, or for its exception."""
    fences = ["fences-in-memory"] if version in FENCES_IN_MEMORY else []
    return run_java(jars(version), HERE / "java" / "LastEpochs.java", *fences)


def committed(version: str) -> list[str]:
    """Return what a version said."""
    return (LAST_EPOCHS / f"{version}.txt").read_text(encoding="utf-8").splitlines()
