"""What a controller answers to requests that name another cluster, or none.

The cluster's id is the first thing that is checked: each request is wrong in one more way, which
another conversation shows alone, and the last question tells that none of them changed the epoch.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkasim.model import messages as m
from tests.fidelity.conversations.brokers import DIRECTORY as BROKER_DIRECTORY
from tests.fidelity.conversations.brokers import EVERYTHING, INCARNATION, NINE
from tests.fidelity.conversations.quorum import NOWHERE
from tests.fidelity.conversations.talk import NOBODY, Talk
from tests.fidelity.conversations.voting import DIRECTORY, FAR, STRANGER
from tests.fidelity.real_kafka import CONTROLLER

OTHER = "BQAAAAAAAAAAAAAAAAAAAQ"
"""The id of a cluster that does not exist."""

CLUSTERS: dict[str, str | None] = {"another cluster": OTHER, 'cluster ""': "", "no cluster": None}


def electing(talk: Talk) -> None:
    """Ask as node 101, which is in no voter set: for a higher epoch than any, if ever."""
    now = _epoch(talk)
    for of, cluster in CLUSTERS.items():
        epoch = now - 1 if cluster is None else now + 100
        vote = m.VoteRequest(epoch, STRANGER, now, FAR, False, DIRECTORY, "", cluster)
        talk.ask(f"a vote of {of}", vote, CONTROLLER)
        before = m.VoteRequest(epoch, STRANGER, now, FAR, True, DIRECTORY, NOBODY, cluster)
        talk.ask(f"before a vote of {of}", before, CONTROLLER)
        begin = m.BeginQuorumEpochRequest(STRANGER, epoch, "", "", cluster)
        talk.ask(f"an epoch of {of} begins", begin, CONTROLLER)
        end = m.EndQuorumEpochRequest(STRANGER, epoch, (CONTROLLER,), cluster)
        talk.ask(f"an epoch of {of} ends", end, CONTROLLER)
    talk.lines.append(f"{talk.name} / the epoch is the same: {_epoch(talk) == now}")


def fetching(talk: Talk) -> None:
    coming = _epoch(talk) + 1
    for of, cluster in CLUSTERS.items():
        fetch = m.RaftFetchRequest(
            STRANGER, coming, -1, 0, 0, replica_directory_id=DIRECTORY, cluster_id=cluster
        )
        talk.ask(f"records for {of}", fetch, CONTROLLER)
        chunk = m.FetchSnapshotRequest(
            STRANGER, coming, (FAR, coming), -1, 1 << 20, DIRECTORY, cluster
        )
        talk.ask(f"a snapshot for {of}", chunk, CONTROLLER)


def changing_voters(talk: Talk) -> None:
    epoch = _epoch(talk)
    for of, cluster in CLUSTERS.items():
        add = m.AddRaftVoterRequest(-1, NOBODY, NOWHERE, cluster)
        remove = m.RemoveRaftVoterRequest(-1, NOBODY, cluster)
        update = m.UpdateRaftVoterRequest(-1, NOBODY, NOWHERE, epoch - 1, cluster)
        for where, node in (("", CONTROLLER), (", through a broker", 1)):
            talk.ask(f"a voter is added to {of}{where}", add, node)
            talk.ask(f"a voter is removed from {of}{where}", remove, node)
        talk.ask(f"a voter of {of} has moved", update, CONTROLLER)


def registering(talk: Talk) -> None:
    directories = (BROKER_DIRECTORY, BROKER_DIRECTORY)
    for of in ("another cluster", 'cluster ""'):
        request = m.BrokerRegistrationRequest(
            NINE, INCARNATION, "broker-9", None, -1, EVERYTHING, directories, CLUSTERS[of] or ""
        )
        talk.ask(f"a broker of {of}", request, CONTROLLER)


def _epoch(talk: Talk) -> int:
    return int(talk.side.ask(CONTROLLER, m.DescribeQuorumRequest()).leader_epoch)


CONVERSATIONS: dict[str, Callable[[Talk], None]] = {
    "voting in another cluster": electing,
    "fetching in another cluster": fetching,
    "changing another cluster's voters": changing_voters,
    "registering in another cluster": registering,
}
