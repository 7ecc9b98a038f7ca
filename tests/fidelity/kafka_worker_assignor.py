"""What Connect's assignor assigns in drawn groups of workers (java/WorkerAssignments.java).

A drawn group lives for some rounds. In each one workers come and go, restart, miss an assignment or
run what another one runs, connectors are added and removed, and time passes: less than the delay of
a rebalance, or more. What a worker runs follows from the assignments of the rounds before.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from tests.fidelity.real_kafka import fetched, run_java

HERE = Path(__file__).parent
ASSIGNMENTS = HERE / "worker_assignments"

VERSIONS = ("4.1.0",)
GROUPS = 400
ROUNDS = 10
WORKERS = tuple([f"w{number}" for number in range(6)])
MAX_DELAYS_MS = (0, 3_000, 300_000)
PAUSES_MS = (1, 900, 40_000, 400_000)


def drawn(seed: int) -> str:
    """Return a group: ``MAX_DELAY|ROUND|…``.

    A round is ``NOW MISSED CONNECTOR:TASKS,… WORKER:HOW,…``. MISSED is how many generations the
    leader has missed. A worker ``keeps`` what it runs, has ``missed`` its last assignment, is
    ``fresh``, or ``claimsN`` the N-th connector and its first task besides.
    """
    rng = random.Random(seed)
    present = set(rng.sample(WORKERS, rng.randint(1, 4)))
    configured = {f"c{number}": rng.randint(1, 4) for number in range(rng.randint(1, 3))}
    parts, now_ms = [str(rng.choice(MAX_DELAYS_MS))], 1
    for _ in range(ROUNDS):
        names = sorted(present)
        comes = [f"{name}:{_how(rng)}" for name in names]
        counts = [f"{name}:{configured[name]}" for name in sorted(configured)]
        missed = int(rng.random() < 0.05)
        parts.append(f"{now_ms} {missed} {','.join(counts)} {','.join(comes)}")
        now_ms += rng.choice(PAUSES_MS)
        if rng.random() < 0.3:
            present.add(rng.choice(WORKERS))
        if rng.random() < 0.3 and len(present) > 1:
            present.remove(rng.choice(names))
        if rng.random() < 0.2:
            configured[f"c{rng.randrange(4)}"] = rng.randint(1, 4)
        if rng.random() < 0.1 and len(configured) > 1:
            del configured[rng.choice(sorted(configured))]
    return "|".join(parts)


def _how(rng: random.Random) -> str:
    kinds = ["keeps", "missed", "fresh", f"claims{rng.randrange(3)}"]
    return rng.choices(kinds, weights=(88, 4, 5, 3))[0]


def ask(version: str) -> list[str]:
    """Return what the assignor of a version says to each group, round by round."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join([drawn(seed) for seed in range(GROUPS)]) + "\n")
        file.flush()
        libs = fetched("connect-mirror", version)
        return run_java(libs, HERE / "java" / "WorkerAssignments.java", file.name)
