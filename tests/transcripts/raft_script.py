"""A quorum that writes down what arrives and what happens, and the commands that drive it."""

import re

from kafkasim.model.config import BrokerConfig
from kafkasim.model.effects import Barrier, Exit, Flush, Request, Respond, Response
from kafkasim.model.errors import Errors
from kafkasim.model.facts import MetadataSnapshot, RaftRole, VotersChanged
from kafkasim.model.messages import (
    AddRaftVoterRequest,
    ApiVersionsRequest,
    ApiVersionsResponse,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RaftFetchRequest,
    RaftFetchResponse,
    RaftVoterResponse,
    RemoveRaftVoterRequest,
    VoteRequest,
    VoteResponse,
)
from kafkasim.model.raft.quorum.states import LeaderChange
from kafkasim.model.raft.quorum.voters import VotersRecord
from tests.model.raft_cluster import Committed, World

OPERATOR = 77  # a connection that belongs to nobody
TIMERS = {
    "election": "its timeout ends",
    "check-quorum": "no majority has fetched in time",
    "linger": "the linger ends",
}
SMALL = BrokerConfig(metadata_log_segment_bytes=400, metadata_max_retention_bytes=0)
"""Segments of a few records, and no log kept below a snapshot."""


class Told(World):
    """A quorum that writes down what arrives and what happens."""

    def __init__(self, **settings):
        self.lines = []
        self.listening = True
        self.shown_last = {}  # (receiver, sender, kind) -> the last Fetch or answer that was shown
        self.polls = set()  # (node, replica): the node asked a replica that does not lead
        self.answers = []  # to the operator
        super().__init__(**settings)

    def tell(self, i, what):
        if self.listening:
            self.lines.append(f"  {self.now / 1000:8.1f}  {i}  {what}")

    def deliver(self, i, item):
        if isinstance(item, Request | Response) and (i, item.connection) in self.links:
            self.arrives(i, self.links[i, item.connection][0], item.message)
        super().deliver(i, item)

    def arrives(self, i, whom, message):
        if isinstance(message, RaftFetchRequest) and not self.nodes[i].raft.is_leader:
            self.polls.add((whom, i))
            return
        what = described(message)
        if isinstance(message, RaftFetchRequest | RaftFetchResponse):
            poll = (i, whom) in self.polls
            self.polls.discard((i, whom))
            refused = getattr(message, "error", None) is Errors.NOT_LEADER_OR_FOLLOWER
            if poll and refused and message.leader_id == -1:
                return
            key = (i, whom, type(message))
            if self.shown_last.get(key) == what:
                return
            self.shown_last[key] = what
        self.tell(i, f"<- {whom}: {what}")

    def perform(self, i, effect):
        if isinstance(effect, Barrier):
            self.tell(i, f"fsync {names(effect.files)}")
        elif isinstance(effect, Flush):
            self.tell(i, f"flush {names(effect.files)}")
        elif isinstance(effect, RaftRole):
            leader = f" leader={effect.leader}" if effect.leader >= 0 else ""
            self.tell(i, f"{effect.role} epoch={effect.epoch}{leader}")
        elif isinstance(effect, VotersChanged):
            self.tell(i, f"voters={list(effect.voters)} since offset {effect.offset}")
        elif isinstance(effect, MetadataSnapshot):
            self.tell(i, f"snapshot {named((effect.end_offset, effect.epoch))} {effect.event}")
        elif isinstance(effect, Committed):
            self.tell(i, f"committed below {effect.high_watermark}")
        elif isinstance(effect, Exit):
            self.tell(i, f"halts: {effect.reason}")
        elif isinstance(effect, Respond) and effect.connection == OPERATOR:
            self.tell(i, f"-> operator: {described(effect.message)}")
            return
        super().perform(i, effect)

    def fired(self, i, key):
        if key[1] in TIMERS:
            self.tell(i, TIMERS[key[1]])


def described(message):
    """A message with the fields that this reader cares for."""
    name = type(message).__name__.removesuffix("Request").removeprefix("Raft")
    error = getattr(message, "error", Errors.NONE)
    if isinstance(message, VoteRequest):
        name = "PreVote" if message.pre_vote else "Vote"
        log = f"log ends at {message.last_offset} in epoch {message.last_offset_epoch}"
        return f"{name} epoch={message.candidate_epoch}, {log}"
    if isinstance(message, BeginQuorumEpochRequest):
        return f"BeginQuorumEpoch epoch={message.leader_epoch} leader={message.leader_id}"
    if isinstance(message, EndQuorumEpochRequest):
        successors = list(message.preferred_successors)
        return f"EndQuorumEpoch epoch={message.leader_epoch} successors={successors}"
    if isinstance(message, RaftFetchRequest):
        return (
            f"Fetch epoch={message.current_leader_epoch} offset={message.fetch_offset} "
            f"last epoch={message.last_fetched_epoch}"
        )
    if isinstance(message, FetchSnapshotRequest):
        return f"FetchSnapshot {named(message.snapshot_id)} position={message.position}"
    if isinstance(message, AddRaftVoterRequest | RemoveRaftVoterRequest):
        return f"{name}({message.voter_id})"
    if isinstance(message, RaftVoterResponse):
        return error.name
    if isinstance(message, ApiVersionsRequest | ApiVersionsResponse):
        return name
    leader = f" leader={message.leader_id}" if message.leader_id >= 0 else ""
    quorum = f"epoch={message.leader_epoch}{leader}"
    if error is not Errors.NONE:
        return f"{name} {error.name} {quorum}"
    if isinstance(message, VoteResponse):
        return f"{name} {quorum} {'granted' if message.vote_granted else 'refused'}"
    if isinstance(message, RaftFetchResponse):
        return f"{name} {quorum} high watermark={message.high_watermark}{content(message)}"
    if isinstance(message, FetchSnapshotResponse):
        end = message.position + sum(size for _, size in message.items)
        return f"{name} {named(message.snapshot_id)} bytes {message.position}-{end}/{message.size}"
    return f"{name} {quorum}"


def content(response):
    if response.diverging_epoch is not None:
        epoch, end_offset = response.diverging_epoch
        return f", diverging: epoch {epoch} ends at {end_offset}"
    if response.snapshot_id is not None:
        return f", load snapshot {named(response.snapshot_id)}"
    if not response.batches:
        return ""
    records = [shown(record.value) for batch in response.batches for record in batch.records]
    return f", {response.batches[0].base_offset}: {' '.join(records)}"


def shown(value):
    if isinstance(value, LeaderChange):
        return f"LeaderChange({value.leader_id})"
    if isinstance(value, VotersRecord):
        return f"Voters({', '.join(str(voter.id) for voter in value.voters)})"
    return str(value)


def named(snapshot):
    return f"{snapshot[0]}-{snapshot[1]}"


def names(paths):
    """The files without their directories; the three files of a segment are ``log``."""
    short = [path.removeprefix("metadata/").removeprefix("__cluster_metadata-0.") for path in paths]
    short = [re.sub(r"^0*(\d+)-0*(\d+)\.checkpoint", r"snapshot \1-\2", path) for path in short]
    short = [re.sub(r"^0*(\d+)\.snapshot", r"producers@\1", path) for path in short]
    logs = [f"log@{int(path.split('.')[0])}" for path in short if path.endswith(".log")]
    others = [path for path in short if not path.endswith((".log", ".index", ".timeindex"))]
    return " ".join(logs + others)


class Script:
    """Executes commands on a quorum of its own."""

    def __init__(self):
        self.settings = {"voters": 3, "observers": 0, "seed": 1}
        self.world = None

    def run(self, line):
        command, *args = line.split()
        if command in self.settings:
            self.settings[command] = int(args[0])
            return []
        if command == "small-segments":
            self.settings["config"] = SMALL
            return []
        if self.world is None:
            self.world = Told(**self.settings)
        self.world.lines.clear()
        result = getattr(self, "do_" + command.replace("-", "_"))(*args)
        return self.world.lines + (result or [])

    def do_elect(self):
        """Boot, silently, until a leader has committed and everybody follows it."""
        self.world.listening = False
        self.world.run(3_000_000)
        self.world.listening = True
        return self.do_state()

    def do_run(self, ms):
        self.world.run(int(ms) * 1000)

    def do_append(self, *values):
        return [f"  = offset {self.world.append(values)}"]

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

    def do_add_voter(self, node):
        self.ask(AddRaftVoterRequest(int(node), f"disk-{node}", f"node-{node}"))

    def do_remove_voter(self, node):
        self.ask(RemoveRaftVoterRequest(int(node), f"disk-{node}"))

    def ask(self, message):
        """Send an operator's request to the leader."""
        world = self.world
        leader = world.leader()
        world.tell(leader, f"<- operator: {described(message)}")
        request = Request(OPERATOR, 1, message, world.now)
        world.nodes[leader].raft.on_request(request, world.now)
        world.drain(leader)

    def do_snapshot(self, node):
        self.world.snapshot(int(node))

    def do_snapshot_max_bytes(self, number):
        for node in self.world.nodes.values():
            node.raft.fetcher.snapshot_max_bytes = int(number)

    def do_clean(self, node):
        raft = self.world.nodes[int(node)].raft
        raft.snapshots.clean(self.world.now)
        self.world.drain(int(node))

    def do_state(self):
        return [
            f"  = {i} {raft.role.name.value} epoch={raft.epoch} leader={raft.leader_id} "
            f"log=[{raft.log.log_start_offset}, {raft.log_end_offset}) "
            f"high watermark={raft.high_watermark} voters={sorted(raft.voters)}"
            for i, node in self.world.nodes.items()
            if node is not None
            for raft in [node.raft]
        ]
