"""The state at a moment, from hand-written rows, in the lines of Kafka's tools."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from kafkasim.analysis.figures.describe import (
    Selection,
    brokers,
    groups,
    log_dirs,
    reassignments,
    streams,
    topics,
)
from kafkasim.analysis.figures.quorum import replication, status
from kafkasim.analysis.figures.state import ClusterState
from kafkasim.analysis.figures.tasks import COLUMNS as TASK_COLUMNS
from kafkasim.analysis.plots import lanes, task_lanes
from kafkasim.analysis.story.story import tell
from kafkasim.model import facts
from kafkasim.model.facts import SCHEMA_VERSION
from kafkasim.scenarios.running.moments import MomentError, moment_us
from kafkasim.scenarios.running.stored import state_at
from kafkasim.sim.trace.recording import Trace
from kafkasim.sim.trace.store import write_manifest

SECOND = 1_000_000


def _partition(offset: int, leader: int, isr: tuple[int, ...], reason: str) -> Any:
    return facts.PartitionChanged(
        offset, "T", 0, leader, offset, offset, isr, (1, 2, 3), reason, False
    )


HEAD = {"name": "by-hand", "claim": "It is shown.", "duration": "10s"}
"""What every scenario has."""

TWO_CONTROLLERS = {"controllers": 1, "standby-controllers": 1}


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """Ready at 1 s; broker 2 leaves at 3 s, nobody leads from 4 s."""
    rows = [
        (0, "broker-1", facts.HostStarted(0)),
        (0, "controller-1", facts.RaftRole("leader", 2, 3001)),
        (0, "controller-1", facts.MetadataCommitted(9, 2, 0)),
        (1, "controller-1", facts.BrokerRegistration(3, 1, 3, "unfenced", False, False, "a")),
        (2, "controller-1", facts.TopicCreated(4, "T", "orders", 1, 3, 2)),
        (3, "controller-1", _partition(5, 1, (1, 2, 3), "created")),
        (SECOND, "world", facts.Phase("ready", "")),
        (SECOND, "broker-1", facts.BecameLeader("T", 0, 5, 5, 0, 0, (1, 2, 3))),
        (SECOND, "broker-1", facts.GroupState("g", "Stable", 1, ("c-1-x",), "range", "joined")),
        (SECOND, "broker-1", facts.GroupAssigned("g", 1, "c-1-x", ("orders-0",))),
        (SECOND, "consumer-1", facts.ConsumerAssigned("g", "c-1-x", 1, ("orders-0",))),
        (2 * SECOND, "broker-1", facts.HighWatermark("T", 0, 5, 40, 2, (1, 2))),
        (2 * SECOND, "broker-1", facts.OffsetCommitted("g", "orders", 0, 30, 1, "c-1-x", 0)),
        (3 * SECOND, "controller-1", _partition(6, 1, (1,), "lag")),
        (4 * SECOND, "controller-1", _partition(7, -1, (1,), "fenced")),
        (4 * SECOND, "controller-2", _partition(5, 1, (1, 2, 3), "created")),  # a repetition
        (4 * SECOND, "broker-2", facts.Truncated("T", 0, 6, 44, 40)),
        (5 * SECOND, "world", facts.Phase("end", "converged")),
    ]
    with Trace(tmp_path) as trace:
        for t_us, node, fact in rows:
            trace.record(t_us, node, fact)
    spec = {"topics": [{"name": "orders", "replication-factor": 3,
                        "config": {"min.insync.replicas": 2}}],
            "cluster": {"controllers": 3}}  # fmt: skip
    manifest = {"scenario": "s", "seed": 0, "variants": [], "code_version": "c",
                "config_digest": "d", "schema_version": SCHEMA_VERSION, "rows": trace.rows,
                "digest": trace.digest, "reason": "converged", "ready_us": SECOND,
                "spec": {**HEAD, **spec}}  # fmt: skip
    write_manifest(tmp_path, manifest)
    return tmp_path


def test_topics_as_kafka_topics_prints_them(stored: Path) -> None:
    printed = topics(state_at(stored, "1s"), Selection())
    assert [line.split("\t") for line in printed] == [
        ["Topic: orders", "TopicId: T", "PartitionCount: 1", "ReplicationFactor: 3",
         "Configs: min.insync.replicas=2"],
        ["", "Topic: orders", "Partition: 0", "Leader: 1", "Replicas: 1,2,3", "Isr: 1,2,3",
         "Elr: ", "LastKnownElr: "],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("at", "selection", "lines"),
    [
        ("1s", Selection(under_replicated=True), 0),
        ("2s", Selection(under_replicated=True), 1),
        ("2s", Selection(under_min_isr=True), 1),
        ("2s", Selection(unavailable=True), 0),
        ("end", Selection(unavailable=True), 1),
        ("end", Selection(topic="other"), 0),
    ],
)
def test_conditions_select_partitions(
    stored: Path, at: str, selection: Selection, lines: int
) -> None:
    assert len(topics(state_at(stored, at), selection)) == lines


def test_a_repeated_metadata_offset_changes_nothing(stored: Path) -> None:
    (line,) = topics(state_at(stored, "end"), Selection(unavailable=True))
    assert "\tLeader: none\t" in line


def test_groups_as_kafka_consumer_groups_prints_them(stored: Path) -> None:
    printed = groups(state_at(stored, "end"))
    assert [line.split() for line in printed] == [
        [],
        ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID",
         "HOST", "CLIENT-ID"],
        ["g", "orders", "0", "30", "40", "10", "c-1-x", "/consumer-1", "c-1"],
    ]  # fmt: skip


def _old_group(*later: tuple[str, Any]) -> list[str]:
    """Return what is printed of a group in ZooKeeper, which has read half of partition 0."""
    state = ClusterState({}, 0)
    told = [
        ("controller-1", facts.TopicCreated(4, "T", "orders", 2, 3, 2)),
        ("controller-1", _partition(5, 1, (1, 2, 3), "created")),
        ("controller-1", replace(_partition(6, 1, (1, 2, 3), "created"), partition=1)),
        ("broker-1", facts.HighWatermark("T", 0, 5, 40, 2, (1, 2))),
        ("consumer-1", facts.ZooKeeperConnection(7, "CONNECTED", "zookeeper-1")),
        ("consumer-1", facts.PartitionOwner("g", "c-1", "orders", 0, "claimed", "")),
        ("consumer-1", facts.OffsetCommitted("g", "orders", 0, 20, -1, "c-1", -1)),
        *later,
    ]
    for node, fact in told:
        fields = {name: getattr(fact, name) for name in fact.__slots__}
        state.replay({"node": node, "kind": type(fact).__name__, **fields})
    return groups(state)


def test_old_groups_as_the_consumer_group_command_of_0_10_prints_them() -> None:
    nothing, missing, *table = _old_group()
    assert nothing == ""
    assert missing == (
        "Could not fetch offset from zookeeper for group g partition [orders,1] due to missing"
        " offset data in zookeeper."
    )
    assert [line.split() for line in table] == [
        ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "OWNER"],
        ["g", "orders", "0", "20", "40", "20", "c-1-0"],
        ["g", "orders", "1", "unknown", "—", "unknown", "none"],
    ]  # fmt: skip
    *_, first, _ = _old_group(("controller-1", _partition(7, -1, (1,), "fenced")))
    assert first.split() == ["g", "orders", "0", "20", "unknown", "unknown", "c-1-0"]


@pytest.mark.parametrize(
    ("later", "owner"),
    [
        (("consumer-1", facts.PartitionOwner("g", "c-1", "orders", 0, "released", "")), "none"),
        (("zookeeper-1", facts.ZooKeeperSession(7, "expired", "consumer-1", "", 9)), "none"),
        (("zookeeper-1", facts.ZooKeeperSession(7, "expiring", "consumer-1", "", -1)), "c-1-0"),
        (("zookeeper-1", facts.ZooKeeperSession(8, "expired", "consumer-2", "", 9)), "c-1-0"),
        # Its znode stays until the session ends.
        (("consumer-1", facts.HostStopped("crash")), "c-1-0"),
    ],
)
def test_an_owner_in_zookeeper_goes_with_its_session(later: tuple[str, Any], owner: str) -> None:
    assert _old_group(later)[-2].split()[-1] == owner


def test_quorum_as_kafka_metadata_quorum_prints_it(stored: Path) -> None:
    voters = [
        f'{{"id": 300{number}, "directoryId": null,'
        f' "endpoints": ["CONTROLLER://controller-{number}:9093"]}}'
        for number in (1, 2, 3)
    ]
    assert status(state_at(stored, "0")) == [
        "ClusterId:              eRWX39RxJKfO1-hnlFEB5w",
        "LeaderId:               3001",
        "LeaderEpoch:            2",
        "HighWatermark:          10",
        "MaxFollowerLag:         0",
        "MaxFollowerLagTimeMs:   0",
        f"CurrentVoters:          [{', '.join(voters)}]",
        'CurrentObservers:       [{"id": 1, "directoryId": null}]',
    ]


def test_the_command_of_4_1_leaves_a_missing_directory_id_out(tmp_path: Path) -> None:
    """Kafka 4.1.0 printed so of a static quorum, with ports and directory ids of its own:

    CurrentVoters:          [{"id": 100, "endpoints": ["CONTROLLER://127.0.0.1:38393"]}]
    """
    cluster = {"controllers": 1, "kafka-version": "4.1"}
    raft = facts.RaftRole("leader", 1, 3001)
    stored = _store(tmp_path, [(0, "controller-1", raft)], {"cluster": cluster})
    assert (
        status(state_at(stored, "0"))[-2]
        == 'CurrentVoters:          [{"id": 3001, "endpoints": ["CONTROLLER://controller-1:9093"]}]'
    )


def _store(
    directory: Path, rows: list[tuple[int, str, Any]], spec: dict[str, Any] | None = None
) -> Path:
    with Trace(directory) as trace:
        for t_us, node, fact in rows:
            trace.record(t_us, node, fact)
    manifest = {"scenario": "s", "seed": 0, "variants": [], "code_version": "c",
                "config_digest": "d", "schema_version": SCHEMA_VERSION, "rows": trace.rows,
                "digest": trace.digest, "reason": "converged", "ready_us": 0,
                "spec": {**HEAD, **(spec or {"cluster": TWO_CONTROLLERS})}}  # fmt: skip
    write_manifest(directory, manifest)
    return directory


@pytest.fixture
def moving(tmp_path: Path) -> Path:
    """orders-0 moves from 1, 2 to 3, 2 with an ELR; controller-2 is 2 s behind."""
    moved = facts.PartitionChanged(
        6, "T", 0, 2, 1, 1, (2,), (3, 2, 1), "reassignment", False, (1,), (), (3,), (1,)
    )
    return _store(tmp_path, [
        (0, "controller-1", facts.RaftRole("leader", 2, 3001)),
        (0, "controller-1", facts.VotersChanged(0, (3001, 3002), ("a", "b"))),
        (0, "controller-2", facts.MetadataCommitted(5, 2, 0)),
        (0, "controller-1", facts.BrokerRegistration(1, 1, 3, "unfenced", False, False, None)),
        (0, "controller-1", facts.BrokerRegistration(2, 2, 3, "unfenced", False, False, None)),
        (1, "controller-1", facts.TopicCreated(4, "T", "orders", 1, 2, 1)),
        (1, "controller-1", facts.ConfigChanged(5, "topic:orders", "min.insync.replicas", "2")),
        (2, "broker-2", facts.BecameLeader("T", 0, 1, 1, 0, 0, (2,))),
        (3, "broker-2", facts.Appended("T", 0, 1, 0, 12, -1, -1, -1, ())),
        (4, "broker-1", facts.Replicated("T", 0, 1, 1, 0, 7)),
        (5, "broker-2", facts.HighWatermark("T", 0, 1, 9, 1, (2,))),
        (SECOND, "controller-1", facts.MetadataCommitted(6, 2, 0)),
        (SECOND, "controller-1", moved),
        (3 * SECOND, "controller-1", facts.MetadataCommitted(9, 2, 0)),
        (4 * SECOND, "controller-1", facts.TopicDeleted(10, "T", "orders")),
    ])  # fmt: skip


def test_reassignments_as_kafka_reassign_partitions_lists_them(moving: Path) -> None:
    assert reassignments(state_at(moving, "0")) == ["No partition reassignments found."]
    assert reassignments(state_at(moving, "3s")) == [
        "Current partition reassignments:",
        "orders-0: replicas: 3,2,1. adding: 3. removing: 1.",
    ]


def test_a_partition_that_moves_shows_its_elr_and_counts_without_what_is_added(
    moving: Path,
) -> None:
    state = state_at(moving, "3s")
    (_, line) = topics(state, Selection())
    assert line.split("\t")[5:] == [
        "Isr: 2", "Adding Replicas: 3", "Removing Replicas: 1", "Elr: 1", "LastKnownElr: ",
    ]  # fmt: skip
    assert len(topics(state, Selection(under_replicated=True))) == 1
    assert len(topics(state, Selection(under_min_isr=True))) == 1  # the topic's own setting
    assert "Configs: min.insync.replicas=2" in topics(state, Selection())[0]


def test_a_deleted_topic_is_gone(moving: Path) -> None:
    assert topics(state_at(moving, "end"), Selection()) == []


def test_log_dirs_as_kafka_log_dirs_prints_them(moving: Path) -> None:
    *head, text = log_dirs(state_at(moving, "3s", logs=True))
    assert head[1] == "Received log directory information from brokers 1,2"
    lags = [
        entry["offsetLag"]
        for broker in json.loads(text)["brokers"]
        for entry in broker["logDirs"][0]["partitions"]
    ]
    assert lags == [2, 0]  # the leader's high watermark is 9, broker 1 holds 7


def test_log_dirs_tells_where_replicas_lie_and_which_directory_failed(tmp_path: Path) -> None:
    run = _store(tmp_path, [
        (0, "controller-1", facts.BrokerRegistration(1, 1, 3, "unfenced", False, False, None)),
        (1, "controller-1", facts.TopicCreated(4, "T", "orders", 2, 1, 1)),
        *[(2, "controller-1", facts.PartitionChanged(
            5 + number, "T", number, 1, 0, 0, (1,), (1,), "created", False))
          for number in (0, 1)],
        (3, "broker-1", facts.LogPlaced("T", 0, "/d1")),
        (3, "broker-1", facts.LogPlaced("T", 1, "/d2")),
        (SECOND, "broker-1", facts.LogDirOffline("/d2", "id", "Input/output error")),
    ], {"cluster": {"config": {"log.dirs": "/d1,/d2"}}, "topics": []})  # fmt: skip

    def directories(at: str) -> list[tuple[str, str | None, list[str]]]:
        (broker,) = json.loads(log_dirs(state_at(run, at, logs=True))[-1])["brokers"]
        return [
            (each["logDir"], each["error"], [entry["partition"] for entry in each["partitions"]])
            for each in broker["logDirs"]
        ]

    assert directories("100ms") == [("/d1", None, ["orders-0"]), ("/d2", None, ["orders-1"])]
    error = "org.apache.kafka.common.errors.KafkaStorageException"
    assert directories("end") == [("/d1", None, ["orders-0"]), ("/d2", error, [])]


def test_a_lagging_voter_is_as_late_as_the_first_offset_it_lacks(moving: Path) -> None:
    lines = status(state_at(moving, "3s"))
    assert "MaxFollowerLag:         4" in lines
    assert "MaxFollowerLagTimeMs:   2000" in lines


def test_replication_of_the_quorum_tells_each_ones_lag(moving: Path) -> None:
    assert [
        line.split()[:1] + line.split()[2:] for line in replication(state_at(moving, "3s"))
    ] == [
        ["NodeId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status"],
        ["3001", "10", "0", "—", "3000", "Leader"],
        ["3002", "6", "4", "—", "1000", "Follower"],
        *[[broker, "—", "—", "—", "—", "Observer"] for broker in ("1", "2")],
    ]


def test_brokers_tell_the_process_from_the_registration(stored: Path) -> None:
    assert brokers(state_at(stored, "0"))[1].split() == [
        "1", "broker-1", "a", "unfenced", "3", "running", "1", "1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "moment"),
    [("2", 3 * SECOND), ("1.5s", 2_500_000), ("-0.5", 500_000), ("ready", SECOND),
     ("end", 9 * SECOND)],
)  # fmt: skip
def test_moments_count_from_ready(text: str, moment: int) -> None:
    assert moment_us(text, {"ready_us": SECOND}, 9 * SECOND) == moment


@pytest.mark.parametrize("text", ["", "soon", "2 weeks", "9s", "-2"])
def test_moments_outside_the_run_are_refused(text: str) -> None:
    with pytest.raises(MomentError):
        moment_us(text, {"ready_us": SECOND}, 9 * SECOND)


def test_the_story_is_told_in_kafkas_words(stored: Path) -> None:
    assert [line.split("s  ", 1)[1] for line in tell(stored, 40)] == [
        "the cluster is ready, the clients start",
        "group g: generation 1, members consumer-1",
        (
            "broker-2 and broker-3 leave the ISR of orders-0 (lagging behind the leader);"
            " the ISR is now 1"
        ),
        "no leader for orders-0: broker-1 was fenced and no other replica may lead",
        (
            "broker-2 truncates orders-0 from offset 44 to 40, to follow leader epoch 6: 4 records"
            " cut, none of them had been committed"
        ),
        "the run ends: everything has converged",
    ]


def test_tasks_of_streams_with_what_is_left_to_restore() -> None:
    state = ClusterState({}, 0)
    told: list[tuple[str, Any]] = [
        ("controller-1", facts.TopicCreated(1, "L", "log", 1, 1, 1)),
        ("broker-1", facts.BecameLeader("L", 0, 1, 1, 90, 90, (1,))),
        ("broker-1", facts.GroupState("app", "Stable", 4, ("m",), "stream", "joined")),
    ]
    tasks = ["1 0_0 active", "2 0_0 standby", "2 0_1 active", "3 0_1 active"]
    for number, task, role in [each.split() for each in tasks]:
        node = f"streams-{number}"
        end = 80 if role == "active" else -1
        told += [
            (node, facts.StreamThreadState("app", 1, "RUNNING", "")),
            (node, facts.TaskState("app", 1, task, role, "RESTORING", "created")),
            (node, facts.RestoreBegan("app", 1, task, role, "log", 0, 10, end)),
        ]
    told += [
        ("streams-2", facts.StreamsStarted("app", "p2", "at_least_once", 1, 0)),
        ("streams-1", facts.TasksAssigned("app", "p2", "m", ("0_1",), ("0_0",), ("0_0",), -1)),
        ("streams-1", facts.TaskState("app", 1, "0_0", "active", "RUNNING", "restored")),
        ("streams-2", facts.TaskState("app", 1, "0_0", "standby", "RUNNING", "created")),
        ("streams-2", facts.Restored("app", 1, "0_0", "standby", "log", 0, 10, 70, 60, 600)),
        ("streams-2", facts.Restored("app", 1, "0_1", "active", "log", 0, 10, 30, 20, 200)),
        ("streams-3", facts.HostStopped("crash")),
        ("streams-4", facts.StreamThreadState("app", 1, "PARTITIONS_ASSIGNED", "")),
    ]
    for node, fact in told:
        state.replay({"kind": type(fact).__name__, "t_us": 0, "node": node, **asdict(fact)})
    head, columns, *rows = streams(state)[1:]
    assert head == "Application app: group Stable, generation 4"
    assert columns.split() == [*TASK_COLUMNS]
    assert [row.split() for row in rows] == [
        ["0_0", "active", "RUNNING", "streams-1-StreamThread-1", "RUNNING", "90", "90", "0"],
        ["0_0", "warm-up", "RUNNING", "streams-2-StreamThread-1", "RUNNING", "70", "90", "20"],
        ["0_1", "active", "RESTORING", "streams-2-StreamThread-1", "RUNNING", "30", "80", "50"],
        ["-", "-", "-", "streams-4-StreamThread-1", "PARTITIONS_ASSIGNED", "-", "-", "-"],
    ]
    assert streams(state, "other") == ["There are no applications of Kafka Streams."]


def test_lanes_of_tasks_tell_who_processes_and_for_how_long_nobody_does() -> None:
    def row(t_us: int, node: str, fact: Any) -> dict[str, Any]:
        return {"kind": type(fact).__name__, "t_us": t_us * SECOND, "node": node, **asdict(fact)}

    def task(role: str, state: str) -> facts.TaskState:
        return facts.TaskState("app", 1, "0_0", role, state, "")

    def assigned(warmups: tuple[str, ...]) -> facts.TasksAssigned:
        return facts.TasksAssigned("app", "p2", "member", (), ("0_0",), warmups, -1)

    rows = [
        row(0, "world", facts.Phase("ready", "")),
        row(0, "streams-2", facts.StreamsStarted("app", "p2", "at_least_once", 1, 0)),
        row(1, "streams-1", task("active", "RESTORING")),
        row(2, "streams-1", task("active", "RUNNING")),
        row(3, "streams-1", assigned(("0_0",))),
        row(3, "streams-2", task("standby", "RUNNING")),
        row(4, "streams-1", assigned(())),
        row(5, "streams-1", facts.HostStopped("crash")),
        row(8, "streams-2", task("standby", "CLOSED")),
        row(8, "streams-2", task("active", "RUNNING")),
        row(10, "world", facts.Phase("end", "")),
    ]
    upper, lower = task_lanes.picture(rows, "").axes
    bars = [
        (tick.get_text(), path.get_extents().x0, path.get_extents().x1)
        for tick, y in zip(upper.get_yticklabels(), upper.get_yticks())
        for drawn in upper.collections
        for path in drawn.get_paths()
        if abs(path.get_extents().y0 + lanes.HEIGHT / 2 - y) < 0.01
    ]
    assert sorted(bars) == [
        ("streams-1", 1, 2), ("streams-1", 2, 5), ("streams-1", 5, 10),
        ("streams-2", 3, 4), ("streams-2", 4, 8), ("streams-2", 8, 10),
    ]  # fmt: skip
    assert [text.get_text() for text in upper.texts] == ["task 0_0"]
    assert lower.collections[0].get_paths()[0].get_extents().x0 == 0
