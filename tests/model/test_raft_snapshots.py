"""Snapshots of a Raft log (KIP-630): taking, cleaning, fetching, restarting."""

import pytest

from kafkasim.model.config import BrokerConfig
from kafkasim.model.effects import Request
from kafkasim.model.errors import Errors
from kafkasim.model.messages import FetchSnapshotRequest
from kafkasim.model.raft.rules import RaftRules
from tests.model.raft_cluster import World

SECOND = 1_000_000
SMALL = BrokerConfig(metadata_log_segment_bytes=400, metadata_max_retention_bytes=0)


class ReadableRefusals(RaftRules):
    """A leader that writes the refusals that handleFetchSnapshotRequest makes."""

    def writes_snapshot_refusals(self):
        return True


def cluster(observers=1, **kwargs):
    world = World(observers=observers, config=SMALL, **kwargs)
    world.run_until(lambda: world.leader() and world.nodes[world.leader()].raft.high_watermark > 0)
    world.run(SECOND)
    return world


def fill(world, count, start=0):
    for number in range(start, start + count):
        world.append([number])
        world.run(30_000)
    world.run(600_000)


def shorten(world, i):
    """Two snapshots, of which the older is cleaned: the log then starts at the younger."""
    world.snapshot(i)
    fill(world, 5, 100)
    world.snapshot(i, clean=True)


def test_a_lone_snapshot_moves_nothing_and_the_next_one_moves_the_log_start():
    world = cluster()
    leader = world.leader()
    fill(world, 20)
    raft = world.nodes[leader].raft
    world.snapshot(leader, clean=True)
    assert (raft.snapshots.store.ids, raft.log.log_start_offset) == ([(21, 1)], 0)
    fill(world, 5)
    world.snapshot(leader, clean=True)
    assert (raft.snapshots.store.ids, raft.log.log_start_offset) == ([(26, 1)], 26)
    assert raft.log.segments[0].base_offset > 20
    snapshots = [p for p in world.disks[leader].paths("metadata/") if p.endswith(".checkpoint")]
    assert snapshots == ["metadata/00000000000000000026-0000000001.checkpoint"]


def test_a_snapshot_that_exists_is_not_written_again():
    world = cluster()
    leader = world.leader()
    world.snapshot(leader)
    world.snapshot(leader)
    assert world.nodes[leader].raft.snapshots.store.ids == [(1, 1)]


@pytest.mark.parametrize("observer", [False, True])
def test_a_replica_behind_the_log_start_loads_the_snapshot(observer):
    world = cluster()
    leader = world.leader()
    behind = 4 if observer else next(i for i in world.ids if i != leader and i != 4)
    fill(world, 3)
    world.isolate(behind)
    fill(world, 20, 3)
    shorten(world, leader)
    world.nodes[behind].raft.fetcher.snapshot_max_bytes = 1
    world.heal()
    world.run(10 * SECOND)
    fill(world, 1, 200)
    raft = world.nodes[behind].raft
    assert world.nodes[behind].loaded == [(29, 1)]
    assert raft.log.log_start_offset == 29
    assert world.nodes[behind].committed == world.nodes[leader].committed
    assert (world.halts, world.leader()) == ([], leader)


def test_an_empty_replica_loads_the_snapshot_although_the_log_is_whole():
    world = cluster()
    leader = world.leader()
    fill(world, 5)
    world.snapshot(leader)
    world.crash(4)
    world.disks[4].__init__()
    world.start(4)
    world.run(5 * SECOND)
    assert world.nodes[4].loaded == [(6, 1)]


def test_a_replica_restarts_from_its_snapshot_and_the_log_above_it():
    world = cluster()
    leader = world.leader()
    other = next(i for i in (1, 2, 3) if i != leader)
    fill(world, 20)
    shorten(world, other)
    fill(world, 2, 300)
    before = list(world.nodes[other].committed)
    world.crash(other, power=True)
    world.start(other)
    assert world.nodes[other].loaded == [(26, 1)]
    world.run(5 * SECOND)
    assert world.nodes[other].committed == before


def test_all_voters_restart_from_snapshots_and_go_on():
    world = cluster()
    fill(world, 20)
    for i in world.ids:
        shorten(world, i)
    committed = list(world.nodes[world.leader()].committed)
    for i in world.ids:
        world.crash(i, power=True)
    for i in world.ids:
        world.start(i)
    world.run(10 * SECOND)
    fill(world, 1, 400)
    for node in world.nodes.values():
        assert node.committed[: len(committed)] == committed
        assert node.committed[-1][2] == 400


@pytest.mark.parametrize("moment", ["part", "named"])
def test_a_power_loss_while_a_snapshot_is_loaded(moment):
    """Before the name is durable the old log stays; after it the log starts anew at boot."""
    world = cluster()
    leader = world.leader()
    behind = next(i for i in (1, 2, 3) if i != leader)
    world.isolate(behind)
    fill(world, 20)
    shorten(world, leader)
    world.heal()
    store = world.nodes[behind].raft.snapshots.store
    if moment == "part":
        world.run_until(lambda: store.written((26, 1)) > 0)
    else:
        world.run_until(lambda: store.ids)
        world.disks[behind].flush((store.path((26, 1)),))
    world.crash(behind, power=True)
    world.start(behind)
    raft = world.nodes[behind].raft
    ids = [] if moment == "part" else [(26, 1)]
    assert raft.snapshots.store.ids == ids
    assert raft.log.log_start_offset == (26 if ids else 0)
    assert not [path for path in world.disks[behind].paths("metadata/") if path.endswith(".part")]
    world.run(5 * SECOND)
    assert world.nodes[behind].committed == world.nodes[leader].committed


@pytest.mark.parametrize("rules", [RaftRules(), ReadableRefusals()])
def test_a_snapshot_that_was_cleaned_while_being_fetched_is_asked_for_anew(rules):
    world = cluster(rules=rules)
    leader = world.leader()
    world.isolate(4)
    fill(world, 300)
    shorten(world, leader)
    world.nodes[4].raft.fetcher.snapshot_max_bytes = 1
    world.heal()
    store = world.nodes[4].raft.snapshots.store
    world.run_until(lambda: store.written((306, 1)) > 0)
    world.isolate(4)
    fill(world, 20)
    world.snapshot(leader, clean=True)
    assert world.nodes[leader].raft.snapshots.store.ids == [(326, 1)]
    world.heal()
    world.run(5 * SECOND)
    assert world.nodes[4].loaded == [(326, 1)]
    assert world.halts == []


def test_a_voter_that_loads_a_snapshot_knows_that_its_leader_works():
    """Each chunk counts as a Fetch, so it refuses pre-votes (FollowerState.canGrantVote)."""
    world = cluster()
    leader = world.leader()
    behind = next(i for i in (1, 2, 3) if i != leader)
    world.isolate(behind)
    fill(world, 300)
    shorten(world, leader)
    world.crash(behind)
    world.heal()
    world.start(behind)
    raft = world.nodes[behind].raft
    raft.fetcher.snapshot_max_bytes = 1
    world.run_until(lambda: raft.snapshots.store.written((306, 1)) > 0)
    assert raft.role.fetching_snapshot == (306, 1)
    assert raft.role.has_fetched


def test_the_epoch_of_a_log_that_is_all_snapshot_is_the_snapshots():
    """A candidate with nothing but a snapshot is as up to date as its end."""
    world = cluster()
    leader = world.leader()
    other = next(i for i in (1, 2, 3) if i != leader)
    world.isolate(other)
    fill(world, 20)
    shorten(world, leader)
    world.heal()
    world.run_until(lambda: world.nodes[other].loaded)
    raft = world.nodes[other].raft
    assert (raft.replicated_log.last_epoch, raft.log_end_offset, raft.high_watermark) == (1, 26, 26)


@pytest.mark.parametrize(
    ("rules", "refused"),
    [
        (RaftRules(), dict.fromkeys(range(6), Errors.UNKNOWN_SERVER_ERROR)),
        (
            ReadableRefusals(),
            {
                0: Errors.NOT_LEADER_OR_FOLLOWER,
                1: Errors.FENCED_LEADER_EPOCH,
                2: Errors.UNKNOWN_LEADER_EPOCH,
                3: Errors.SNAPSHOT_NOT_FOUND,
                4: Errors.POSITION_OUT_OF_RANGE,
                5: Errors.POSITION_OUT_OF_RANGE,
            },
        ),
    ],
)
def test_kafka_cannot_write_a_refusal_of_fetch_snapshot(rules, refused):
    """It lacks unalignedRecords, which must not be null (RaftUtil)."""
    world = cluster(rules=rules)
    leader = world.leader()
    follower = next(i for i in (1, 2, 3) if i != leader)
    fill(world, 2)
    world.snapshot(leader)

    def ask(i, epoch, snapshot=(3, 1), position=0):
        node = world.nodes[i]
        message = FetchSnapshotRequest(4, epoch, snapshot, position)
        node.raft.on_request(Request(99, 1, message, world.now), world.now)
        return node.out.pop().message

    asked = [
        ask(follower, 1),
        ask(leader, 0),
        ask(leader, 2),
        ask(leader, 1, (2, 1)),
        ask(leader, 1, position=10_000),
        ask(leader, 1, position=-1),
    ]
    assert {number: answer.error for number, answer in enumerate(asked)} == refused
    known = rules.writes_snapshot_refusals()
    assert [answer.leader_epoch for answer in asked] == [1 if known else -1] * 6
    answer = ask(leader, 1)
    assert (answer.error, answer.size, sum(size for _, size in answer.items)) == (
        Errors.NONE, 400, 400,
    )  # fmt: skip
