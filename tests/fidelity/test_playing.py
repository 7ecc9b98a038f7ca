"""The parts of the harness that plays schedules: the network's proxies, and the normal form."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fidelity import real_kafka
from tests.fidelity.playing import load
from tests.fidelity.playing.formatting import Directories
from tests.fidelity.playing.history import History
from tests.fidelity.playing.metadata_log import Entry
from tests.fidelity.playing.proxy import Proxies

NODE, PEER, OTHER = 1, 2, 3001


@pytest.fixture
def network() -> Iterator[tuple[Proxies, socket.socket, int]]:
    """A proxy before a node, the node's socket, and the port of the proxy."""
    node = socket.create_server(("127.0.0.1", 0))
    node.settimeout(5)
    free = socket.create_server(("127.0.0.1", 0))
    port = free.getsockname()[1]
    free.close()
    proxies = Proxies({NODE: [(port, node.getsockname()[1])]})
    proxies.listen(NODE)
    yield proxies, node, port
    proxies.close()
    node.close()


def request(client_id: str) -> bytes:
    """Return a request as a connection begins with it: API key, version, correlation, client."""
    body = struct.pack(">hhih", 18, 3, 0, len(client_id)) + client_id.encode()
    return struct.pack(">i", len(body)) + body


def connected(
    node: socket.socket, port: int, client_id: str
) -> tuple[socket.socket, socket.socket]:
    """Return both ends of a connection through the proxy, after its first request."""
    near = socket.create_connection(("127.0.0.1", port), 5)
    near.sendall(request(client_id))
    far, _ = node.accept()
    far.settimeout(5)
    assert far.recv(1000) == request(client_id)
    return near, far


@pytest.mark.parametrize("client_id", ["2", "raft-client-2", "broker-2-fetcher-0"])
def test_a_cut_holds_what_a_peer_sends_until_it_is_healed(network, client_id: str) -> None:
    proxies, node, port = network
    near, far = connected(node, port, client_id)
    proxies.cut(PEER, NODE)
    near.sendall(b"held")
    far.sendall(b"answer")
    assert near.recv(100) == b"answer"  # the other direction is open
    far.settimeout(0.05)
    with pytest.raises(TimeoutError):
        far.recv(100)
    far.settimeout(5)
    proxies.heal(PEER, NODE)
    assert far.recv(100) == b"held"
    near.close()
    assert far.recv(100) == b""
    far.close()


def test_a_cut_concerns_one_pair_of_nodes(network) -> None:
    proxies, node, port = network
    near, far = connected(node, port, "raft-client-3001")
    proxies.cut(PEER, NODE)
    near.sendall(b"passes")
    assert far.recv(100) == b"passes"
    near.close()
    far.close()


def test_a_link_is_cut_whatever_it_carries(network) -> None:
    """The source of a connection to a link's port is known before its first byte."""
    proxies, node, _ = network
    proxies.refuse(NODE)
    free = socket.create_server(("127.0.0.1", 0))
    port = free.getsockname()[1]
    free.close()
    proxies.link(PEER, NODE, (port, node.getsockname()[1]))
    proxies.listen(NODE)
    near = socket.create_connection(("127.0.0.1", port), 5)
    near.sendall(b"no request of Kafka")
    far, _ = node.accept()
    far.settimeout(5)
    assert far.recv(100) == b"no request of Kafka"
    proxies.cut(NODE, PEER)
    far.sendall(b"held")
    near.settimeout(0.05)
    with pytest.raises(TimeoutError):
        near.recv(100)
    proxies.heal(NODE, PEER)
    near.settimeout(5)
    assert near.recv(100) == b"held"
    near.close()
    far.close()


def test_a_host_without_the_process_refuses(network) -> None:
    proxies, _, port = network
    proxies.refuse(NODE)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 5)


def test_a_combined_node_has_two_listeners_and_one_name() -> None:
    nodes = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = list(zip(real_kafka.free_ports(2), [node.getsockname()[1] for node in nodes]))
    proxies = Proxies({NODE: ports})
    proxies.listen(NODE)
    proxies.cut(PEER, NODE)
    for node, (port, _) in zip(nodes, ports):
        node.settimeout(0.05)
        near = socket.create_connection(("127.0.0.1", port), 5)
        near.sendall(request("2"))
        with pytest.raises(TimeoutError):
            node.accept()
        near.close()
        node.close()
    proxies.close()


def test_a_failed_directory_is_a_file_until_its_repair(tmp_path: Path) -> None:
    directories = Directories(load("both-log-dirs-fail"), tmp_path)
    first, second = directories.logs("broker-2")
    assert [each.name for each in directories.all("broker-2")] == ["d1", "d2", "meta"]
    assert directories.logs("controller-1") == directories.all("controller-1")
    for place in directories.all("broker-2"):
        place.mkdir(parents=True)
        (place / "log").write_text(place.name)
    directories.fail("broker-2", "/data/d1")
    with pytest.raises(NotADirectoryError):
        (first / "new").write_text("")
    assert (second / "log").read_text() == "d2"
    directories.repair("broker-2", "/data/d1")
    assert [path.name for path in first.iterdir()] == ["log"]


def entries(*records: tuple[str, dict[str, object]]) -> list[Entry]:
    """Return a log of these records."""
    return [Entry(offset, 1, kind, fields) for offset, (kind, fields) in enumerate(records)]


CREATED = [
    ("LeaderChange", {"leaderId": 3001}),
    ("TopicRecord", {"name": "orders", "topicId": "t"}),
    (
        "PartitionRecord",
        {
            "topicId": "t", "partitionId": 0, "replicas": [1, 2], "isr": [1, 2], "leader": 1,
            "leaderEpoch": 5, "partitionEpoch": 7, "leaderRecoveryState": 0,
        },
    ),
]  # fmt: skip


def change(**fields: object) -> tuple[str, dict[str, object]]:
    """Return a PartitionChangeRecord."""
    return "PartitionChangeRecord", {"topicId": "t", "partitionId": 0, "leader": -2} | fields


def test_epochs_count_from_the_start() -> None:
    log = entries(*CREATED, change(isr=[2], leader=2), change(isr=[2, 1]), change(leader=2))
    assert History(4).lines(log) == [
        "orders-0 at the start: replicas 1,2; isr 2; leader 2",
        "orders-0 +0/+1: isr 2,1",
        "orders-0 +1/+2: leader 2",
    ]


def test_a_history_names_no_winner_of_an_election() -> None:
    leaders = [("LeaderChange", {"leaderId": leader}) for leader in (3002, 3002, 3003)]
    assert History(1).lines(entries(CREATED[0], *leaders)) == [
        "quorum: another leader",
        "quorum: the same leader again",
        "quorum: another leader",
    ]


def test_a_change_of_an_earlier_registration_is_told() -> None:
    broker = {
        "brokerId": 1, "incarnationId": "i", "brokerEpoch": 0, "fenced": True,
        "inControlledShutdown": False,
    }  # fmt: skip
    fence = {"brokerId": 1, "fenced": 1, "inControlledShutdown": 0, "logDirs": []}
    log = entries(
        ("RegisterBrokerRecord", broker),
        ("BrokerRegistrationChangeRecord", fence | {"brokerEpoch": 0}),
        ("BrokerRegistrationChangeRecord", fence | {"brokerEpoch": 9}),
    )
    assert History(1).lines(log) == [
        "broker 1: fenced at the start",
        "broker 1: fenced",
        "broker 1: fenced, of another registration",
    ]


def test_a_record_that_nobody_wrote_about_is_an_error() -> None:
    with pytest.raises(AttributeError):
        History(0).lines(entries(("ClientQuotaRecord", {})))
