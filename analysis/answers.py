"""What the runs of a question amount to: what stopped, for how long, what was lost, and why.

Of the seeds of a question the worst counts: the one whose acknowledged writes waited longest. The
setting that decided is read from what the partitions went through in that run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from kafkasim.analysis import queries
from kafkasim.analysis.load import views

if TYPE_CHECKING:
    from kafkasim.analysis.stored import Stored

ANSWERS_FILE = "answers.json"
"""The table of answers, below the place of the runs: columns and rows."""

STOPPED_S = 1.0
"""What waits for less has not stopped."""

SLACK_S = 0.5
"""What waits for this much less than a client's request.timeout.ms has waited for that."""

WRITES = """
    SELECT run, node, max(waited) / 1e6 AS waited_s, sum(failed) AS failed FROM (
        SELECT run, node, latency_us AS waited, 0 AS failed FROM Acked
        UNION ALL SELECT run, node, latency_us, size(record_ids) FROM SendFailed)
    GROUP BY run, node"""

LOST = f"""
    SELECT run, node, count(DISTINCT record_id) AS lost
    FROM ({queries.QUERIES["lost-write"]})
    JOIN (SELECT run, topic_id, partition, node, explode(record_ids) AS record_id FROM Acked)
        USING (run, topic_id, partition, record_id)
    GROUP BY run, node"""

READS = """
    -- The longest time from a record's acknowledgement until a group first got it.
    SELECT run, max(waited) / 1e6 AS reads_s FROM (
        SELECT run, group, record_id, min(read_us) - acked_us AS waited
        FROM (SELECT run, group, topic_id, partition, t_us AS read_us,
                     explode(record_ids) AS record_id FROM Polled)
        JOIN (SELECT run, topic_id, partition, t_us AS acked_us,
                     explode(record_ids) AS record_id FROM Acked)
            USING (run, topic_id, partition, record_id)
        GROUP BY run, group, topic_id, partition, record_id, acked_us)
    GROUP BY run"""

STATES = """
    SELECT run, max(IF(leader = -1, lasted, 0)) AS leaderless_s,
           max(IF(size(isr) < needed, lasted, 0)) AS under_min_s,
           max(needed) AS needed, min(size(replicas)) AS replicas,
           bool_or(unclean AND t_us >= ready_us) AS unclean,
           collect_set(IF(t_us >= ready_us, reason, NULL)) AS reasons
    FROM partition_spans WHERE NOT startswith(topic, '__') GROUP BY run"""


@dataclass(frozen=True)
class Answer:
    """The worst run of a question; times in seconds, losses and failures in records.

    ``waited`` and ``lost`` are by acks: all, 1, 0.
    """

    question: str
    seed: int
    waited: Mapping[str, float]
    lost: Mapping[str, int]
    failed: int
    reads_s: float
    decided: str
    command: str

    def cells(self) -> list[str]:
        """Return the cells of a row below :data:`COLUMNS`."""
        lost = [f"{count} (acks={acks})" for acks, count in self.lost.items() if count]
        return [
            self.question, *(_seconds(self.waited.get(acks)) for acks in ("all", "1")),
            _seconds(self.reads_s), str(self.failed or "—"), ", ".join(lost) or "—",
            self.decided, self.command,
        ]  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """Return the answer as JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class Asked:
    """A question that was run: its words, the digests of what ran, and the command of a seed.

    ``label`` is that of its runs; ``command`` has ``{seed}`` in it.
    """

    label: str
    text: str
    config_digest: str
    code_version: str
    command: str


@dataclass(frozen=True)
class Timeouts:
    """The settings that end most outages, as ``key = value``: a session and a follower's lag.

    ``request_s`` is the shortest request.timeout.ms of a client, in seconds.
    """

    session: str
    lag: str
    request_s: float


COLUMNS = ("what happens", "acks=all stopped", "acks=1 stopped", "reads late", "failed sends",
           "lost", "decided by", "shown by")  # fmt: skip


def _seconds(value: float | None) -> str:
    return "—" if value is None or value < STOPPED_S else f"{value:.1f} s"


def answers(
    stored: Stored,
    asked: Sequence[Asked],
    seeds: range,
    hosts: Mapping[str, str],
    timeouts: Timeouts,
) -> list[Answer]:
    """Return an answer for each question that has a run of these seeds that did not crash.

    Runs of other code, or of another scenario of that name, do not count. ``hosts`` are the acks of
    each producer's host.
    """
    with views(stored, queries.VIEWS, [WRITES, LOST, READS, STATES]):
        rows = [stored.spark.sql(text).collect() for text in (WRITES, LOST, READS, STATES)]
    writes, lost, reads, states = ([row.asDict() for row in each] for each in rows)
    found: dict[str, list[Answer]] = {}
    known = {(each.label, each.config_digest, each.code_version): each for each in asked}
    for run in stored.runs:
        told = run.manifest
        one = known.get((told["label"], told["config_digest"], told["code_version"]))
        seed = int(told["seed"])
        if one is None or run.crashed or seed not in seeds:
            continue
        mine = [[row for row in each if row["run"] == run.name] for each in (writes, lost)]
        waited = _by_acks(mine[0], "waited_s", hosts, max)
        gone = {acks: int(count) for acks, count in _by_acks(mine[1], "lost", hosts, sum).items()}
        failed = sum(int(row["failed"]) for row in mine[0])
        read_s = next((float(row["reads_s"]) for row in reads if row["run"] == run.name), 0.0)
        state = next((row for row in states if row["run"] == run.name), {})
        why = decided(state, max([read_s, *waited.values()]), timeouts)
        shown = one.command.format(seed=seed)
        answer = Answer(one.text, seed, waited, gone, failed, read_s, why, shown)
        found.setdefault(one.label, []).append(answer)
    return [max(found[one.label], key=_badness) for one in asked if one.label in found]


def _badness(answer: Answer) -> tuple[int, float, float, int]:
    waits = (answer.waited.get("all", 0.0), answer.reads_s)
    return sum(answer.lost.values()), *waits, -answer.seed


def _by_acks(
    rows: Sequence[Mapping[str, Any]], column: str, hosts: Mapping[str, str], how: Any
) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for row in rows:
        values.setdefault(hosts.get(row["node"], "all"), []).append(float(row[column]))
    return {acks: how(each) for acks, each in sorted(values.items(), reverse=True)}


def decided(state: Mapping[str, Any], stopped_s: float, timeouts: Timeouts) -> str:
    """Return the setting that decided how long it took, with its value, or that none did.

    ``state`` is a row of :data:`STATES`; ``stopped_s`` is the longest time that anything stopped.
    """
    reasons: Collection[str] = state.get("reasons") or ()
    if state.get("unclean"):
        return "unclean.leader.election.enable = true"
    if stopped_s < STOPPED_S:
        return "controlled.shutdown" if "controlled-shutdown" in reasons else "nothing stopped"
    if state.get("leaderless_s", 0) >= STOPPED_S:
        if state["replicas"] == 1:
            return "replication factor 1: no other replica can lead"
        return "unclean.leader.election.enable = false: the in-sync replicas are away"
    if state.get("under_min_s", 0) >= STOPPED_S:
        return f"min.insync.replicas = {state['needed']}"
    if "fenced" in reasons and stopped_s >= timeouts.request_s - SLACK_S:
        limit = f"request.timeout.ms = {1000 * timeouts.request_s:.0f}"
        return f"{timeouts.session}, then {limit} of clients that ask a silent broker"
    if "fenced" in reasons:
        return timeouts.session
    if "dir-offline" in reasons:
        return "the failed log directory: its replicas leave at once"
    if "lag" in reasons:
        return timeouts.lag
    if "controlled-shutdown" in reasons:
        return "controlled shutdown: the leaders move before a broker stops"
    return f"ended before {timeouts.session} and {timeouts.lag}"
