"""What the timeline of a run shows, as rows: states that last, and things that happen.

The picture and the table beside it are made from the same rows, so whoever cannot hover misses
nothing. A partition's row is one committed state: leader, leader epoch, ISR, and the high watermark
that its leaders had told by then.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kafkasim.analysis.figures.timeline import (
    COLUMNS,
    KINDS,
    CommittedState,
    Key,
    OneRun,
    Row,
    Timeline,
    build,
)

MOST_PARTITIONS = 8
"""So many partitions have lanes: those with findings, then those whose ISR changed most."""

INTERVALS = 400
"""The lag is shown by its highest value in each of so many intervals of the run."""

FAULT, ELECTION, SHRINK, EXPAND = "fault", "election", "ISR shrinks", "ISR expands"
CONTROLLER, BROKER, GROUP, TRUNCATION, FINDING = (
    "controller", "broker", "group", "truncation", "finding",
)  # fmt: skip
PARTITION = "partition"

MORE_KINDS = (
    "Appended", "HighWatermark", "BecameLeader", "Truncated", "GroupState", "ControllerActive",
    "BrokerRegistration",
)  # fmt: skip
MORE_COLUMNS = (
    "next_offset", "high_watermark", "offset", "log_end_offset", "group", "state", "generation",
    "member_ids", "epoch", "active", "broker", "change",
)  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """An anomaly of the run at the moment that decides it; ``where`` is topic-partition or ""."""

    t_us: int
    name: str
    where: str
    text: str


@dataclass(frozen=True)
class Shown:
    """One row: from ``t_us`` on, up to ``until_us`` if it lasts. What does not apply is ""."""

    t_us: int
    until_us: int | None
    kind: str
    where: str
    text: str
    leader: str = ""
    epoch: str = ""
    isr: str = ""
    high_watermark: str = ""


@dataclass(frozen=True)
class Lag:
    """How many records a leader held at or above its high watermark."""

    t_us: int
    where: str
    log_end: int
    high_watermark: int


@dataclass
class RunFacts:
    """What is shown of a run. ``states`` has each lane's partition, and is also in ``rows``."""

    line: Timeline
    keys: list[Key] = field(default_factory=list)
    states: dict[Key, list[tuple[Shown, CommittedState]]] = field(default_factory=dict)
    rows: list[Shown] = field(default_factory=list)
    lags: dict[Key, list[Lag]] = field(default_factory=dict)

    def seconds(self, t_us: int) -> float:
        """Return seconds since the cluster was ready."""
        return (t_us - self.line.ready_us) / 1e6


def gather(run: OneRun, findings: Sequence[Finding]) -> RunFacts:
    """Return what the timeline of a run shows, in the order of time."""
    rows = run.read([*KINDS, *MORE_KINDS], [*COLUMNS, *MORE_COLUMNS])
    line = build([row for row in rows if row["kind"] in KINDS])
    line.end_us = max([line.end_us, *(row["t_us"] for row in rows[-1:])])
    facts = RunFacts(line, chosen(line, findings))
    marks, facts.lags = _offsets(facts, rows)
    for key in facts.keys:
        _partition(facts, key, marks[key])
    _faults_and_hosts(facts)
    _others(facts, rows)
    facts.rows += [
        Shown(found.t_us, None, FINDING, found.where, f"{found.name}: {found.text}")
        for found in findings
    ]
    ready = line.ready_us
    facts.rows = [
        row for row in facts.rows if (row.t_us if row.until_us is None else row.until_us) >= ready
    ]
    facts.rows.sort(key=lambda row: (row.t_us, row.kind, row.where))
    return facts


def chosen(line: Timeline, findings: Sequence[Finding]) -> list[Key]:
    """Return the partitions that get lanes, in the order of names."""
    keys = line.user_partitions()
    found = [finding.where for finding in findings]
    most = sorted(keys, key=lambda key: (line.name(key) not in found, -len(line.changes(key))))
    return [key for key in keys if key in most[:MOST_PARTITIONS]]


def _offsets(
    facts: RunFacts, rows: Sequence[Row]
) -> tuple[dict[Key, list[tuple[int, int]]], dict[Key, list[Lag]]]:
    """Return each high watermark with its time, and the highest lag of each interval."""
    line = facts.line
    marks: dict[Key, list[tuple[int, int]]] = {key: [] for key in facts.keys}
    ends = dict.fromkeys(facts.keys, 0)
    highest: dict[Key, dict[int, Lag]] = {key: {} for key in facts.keys}
    width = max(1, (line.end_us - line.ready_us) // INTERVALS)
    for row in rows:
        key = (row["topic_id"], row["partition"])
        if key not in marks or row["kind"] not in ("Appended", "HighWatermark", "BecameLeader"):
            continue
        if row["kind"] == "Appended":
            ends[key] = row["next_offset"]
        else:
            marks[key].append((row["t_us"], row["high_watermark"]))
        mark = marks[key][-1][1] if marks[key] else 0
        now = Lag(row["t_us"], line.name(key), max(ends[key], mark), mark)
        interval = (now.t_us - line.ready_us) // width
        best = highest[key].get(interval)
        if best is None or now.log_end - mark >= best.log_end - best.high_watermark:
            highest[key][interval] = now
    return marks, {key: list(found.values()) for key, found in highest.items()}


def _partition(facts: RunFacts, key: Key, marks: Sequence[tuple[int, int]]) -> None:
    line, before = facts.line, None
    name = line.name(key)
    times = [t_us for t_us, _ in marks]
    for began, ended, state in line.spans(key):
        first, last = _at(marks, times, began), _at(marks, times, ended)
        told = {
            "leader": f"broker-{state.leader}" if state.leader >= 0 else "none",
            "epoch": str(state.leader_epoch), "isr": ",".join(map(str, sorted(state.isr))),
        }  # fmt: skip
        why = f"{state.reason}; " if state.reason else ""
        replicas = ",".join(map(str, state.replicas))
        mark = str(first) if first == last else f"{first} to {last}"
        lasting = Shown(began, ended, PARTITION, name, f"{why}replicas {replicas}",
                        high_watermark=mark, **told)  # fmt: skip
        facts.states.setdefault(key, []).append((lasting, state))
        facts.rows.append(lasting)
        if before is not None:
            for kind, text in _events(before, state):
                facts.rows.append(
                    Shown(began, None, kind, name, text, high_watermark=str(first), **told)
                )
        before = state


def _events(before: CommittedState, now: CommittedState) -> list[tuple[str, str]]:
    found = []
    why = f" ({now.reason})" if now.reason else ""
    if now.leader != before.leader:
        was = f"broker-{before.leader}" if before.leader >= 0 else "nobody"
        unclean = "UNCLEAN: " if now.unclean else ""
        who = f"broker-{now.leader} leads" if now.leader >= 0 else "nobody leads"
        found.append((ELECTION, f"{unclean}{who}, before {was}{why}"))
    left = [f"broker-{one}" for one in sorted(before.isr) if one not in now.isr]
    joined = [f"broker-{one}" for one in sorted(now.isr) if one not in before.isr]
    if left:
        found.append((SHRINK, f"without {', '.join(left)}{why}"))
    if joined:
        found.append((EXPAND, f"with {', '.join(joined)}{why}"))
    return found


def _at(marks: Sequence[tuple[int, int]], times: Sequence[int], t_us: int) -> int:
    index = bisect_right(times, t_us)
    return marks[index - 1][1] if index else 0


def _faults_and_hosts(facts: RunFacts) -> None:
    line = facts.line
    for began, ended, fault, target in line.faults:
        facts.rows.append(Shown(began, ended, FAULT, target, fault))
    hosts: tuple[tuple[str, Mapping[str, list[tuple[int, int]]]], ...] = (
        ("is paused", line.paused), ("is down", line.down),
    )  # fmt: skip
    for what, spans in hosts:
        for node in sorted(spans):
            facts.rows += [
                Shown(began, ended, BROKER, node, f"{node} {what}") for began, ended in spans[node]
            ]


def _others(facts: RunFacts, rows: Sequence[Row]) -> None:
    """Add controllers, registrations, truncations and the states of groups."""
    groups: dict[str, Row] = {}
    last_offset = -1
    for row in rows:
        kind, node, now = row["kind"], row["node"], row["t_us"]
        if kind == "ControllerActive":
            verb = "becomes the active controller" if row["active"] else "resigns as controller"
            facts.rows.append(
                Shown(now, None, CONTROLLER, node, f"{node} {verb}", epoch=str(row["epoch"]))
            )
        elif kind == "BrokerRegistration" and row["offset"] > last_offset:
            last_offset = row["offset"]
            if now > facts.line.ready_us:
                broker = f"broker-{row['broker']}"
                facts.rows.append(Shown(now, None, BROKER, broker, f"{broker}: {row['change']}"))
        elif kind == "Truncated" and (row["topic_id"], row["partition"]) in facts.states:
            cut = row["log_end_offset"] - row["offset"]
            text = f"{node} cuts {cut} records, from {row['log_end_offset']} to {row['offset']}"
            name = facts.line.name((row["topic_id"], row["partition"]))
            if cut > 0:
                facts.rows.append(Shown(now, None, TRUNCATION, name, text))
        elif kind == "GroupState":
            _group(facts, groups.get(row["group"]), now)
            groups[row["group"]] = row
    for name in groups:
        _group(facts, groups[name], facts.line.end_us)


def _group(facts: RunFacts, row: Row | None, until_us: int) -> None:
    if row is None:
        return
    members = ", ".join(row["member_ids"] or ()) or "none"
    why = f" ({row['reason']})" if row["reason"] else ""
    text = f"{row['state']}{why}; members: {members}"
    facts.rows.append(
        Shown(row["t_us"], until_us, GROUP, row["group"], text, epoch=str(row["generation"]))
    )
