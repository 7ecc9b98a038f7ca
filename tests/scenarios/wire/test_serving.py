"""A server on loopback: sockets, pacing, the control port."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from kafkasim.scenarios.cli import invoke
from kafkasim.scenarios.wire import control
from kafkasim.scenarios.wire.failures import SessionError
from kafkasim.scenarios.wire.journal import replay_journal
from kafkasim.scenarios.wire.serving import bound

pytestmark = pytest.mark.slow


class Served:
    """A server in a child process."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.journal = folder / "session.kafkasim"
        self.log = folder / "log"
        command = [sys.executable, "-m", "kafkasim.scenarios.cli", "serve", "--port", "0"]
        command += ["--for", "60s", "--record", str(self.journal), *options]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("bootstrap.servers="), self.log.read_text()
        self.bootstrap = line.strip().partition("=")[2]
        self.ports = [int(each.rpartition(":")[2]) for each in self.bootstrap.split(",")]

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        return control.ask(self.ports[0], method, path, body)

    def stop(self) -> str:
        self.process.terminate()
        self.process.wait(20)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.log.read_text()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    server = Served(tmp_path)
    yield server
    server.process.kill()
    server.process.wait(20)
    assert server.process.stdout is not None
    server.process.stdout.close()


def _connects(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except ConnectionRefusedError:
        return False
    return True


def test_kafka_python_writes_and_reads_and_the_session_replays(
    served: Served, tmp_path: Path
) -> None:
    admin = KafkaAdminClient(bootstrap_servers=served.bootstrap)
    admin.create_topics([NewTopic("orders", 3, 3)])
    admin.close()
    producer = KafkaProducer(
        bootstrap_servers=served.bootstrap, compression_type="gzip", enable_idempotence=True
    )
    sent = [(b"k%d" % n, b"v%d" % n) for n in range(50)]
    futures = [producer.send("orders", key=k, value=v, headers=[("h", b"x")]) for k, v in sent]
    assert all(each.get(20).offset >= 0 for each in futures)
    producer.close()
    consumer = KafkaConsumer(
        "orders", bootstrap_servers=served.bootstrap, group_id="billing",
        auto_offset_reset="earliest", consumer_timeout_ms=3000,
    )  # fmt: skip
    got = [(message.key, message.value) for message in consumer]
    consumer.close()
    assert sorted(got) == sorted(sent)
    assert "digest" in served.stop()
    again = replay_journal(served.journal, tmp_path / "run")
    assert again.same_digest is True
    assert again.result.verdict == "pass"


def test_a_dead_broker_refuses_and_a_paused_one_is_silent(served: Served) -> None:
    told = served.ask("POST", "/fault", {"kind": "crash", "node": "broker-3", "for": "4s"})
    assert told == {"armed": "crash broker-3"}
    served.ask("POST", "/fault", {"kind": "gc-pause", "node": "broker-2", "for": "4s"})
    time.sleep(1.0)
    assert not _connects(served.ports[2])
    with socket.create_connection(("127.0.0.1", served.ports[1]), 5) as paused:
        paused.settimeout(1.0)
        paused.sendall(b"\0\0\0\x0a\0\x12\0\0\0\0\0\x07\xff\xff")  # ApiVersions
        with pytest.raises(TimeoutError):
            paused.recv(100)
        state = served.ask("GET", "/status")["brokers"]
        assert (state["broker-2"]["paused"], state["broker-3"]["alive"]) == (True, False)
        assert invoke(["heal", "--port", str(served.ports[0])]) == 0
        paused.settimeout(10.0)
        assert paused.recv(100)[4:8] == b"\0\0\0\x07"
    time.sleep(1.0)
    assert _connects(served.ports[2])


def test_garbage_closes_its_connection_with_one_line(served: Served) -> None:
    for data in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\xff" * 100):
        with socket.create_connection(("127.0.0.1", served.ports[0]), 5) as sock:
            sock.sendall(data)
            with pytest.raises(ConnectionResetError):
                assert sock.recv(100) != b""
    log = served.stop()
    assert log.count("refused: a frame of") == 2
    assert "Traceback" not in log


def test_the_control_port_wants_its_token_and_no_browser(served: Served) -> None:
    known = json.loads(control.place(served.ports[0]).read_text())

    def status_of(headers: dict[str, str], path: str = "/status", body: bytes | None = None) -> int:
        request = urllib.request.Request(known["url"] + path, body, headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    token = {"Authorization": f"Bearer {known['token']}"}
    assert status_of(token) == 200
    assert status_of({}) == 403
    assert status_of({"Authorization": "Bearer x"}) == 403
    assert status_of({**token, "Origin": "http://example.com"}) == 403
    assert status_of(token, "/files") == 404
    assert status_of(token, "/fault", b"[]") == 400
    assert status_of(token, "/fault", b"{") == 400
    assert control.place(served.ports[0]).stat().st_mode & 0o077 == 0


def test_commands_say_what_is_wrong_in_one_line(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    port = str(served.ports[0])
    assert invoke(["status", "--port", port]) == 0
    assert "broker-1" in capsys.readouterr().out
    pause = ["inject", "gc-pause", "broker-1", "--for", "15s", "--key", "at=1s"]
    assert invoke([*pause, "--port", port]) == 0
    assert capsys.readouterr().out == "armed: gc-pause broker-1\n"
    assert invoke(["inject", "gc-pause", "broker-9", "--for", "1s", "--port", port]) == 2
    assert "'broker-9' is none of" in capsys.readouterr().err
    assert invoke(["inject", "gc-pause", "broker-1", "--port", "1"]) == 2
    assert "no server at port 1" in capsys.readouterr().err
    assert invoke(["serve", "--port", port]) == 2
    assert "cannot listen" in capsys.readouterr().err
    assert invoke(["serve", "--for", "soon"]) == 2
    assert invoke(["serve", "no-such-scenario"]) == 2
    served.stop()
    assert invoke(["status", "--port", port]) == 2
    assert not os.path.exists(control.place(int(port)))


def test_single_requests_are_answered_otherwise_and_the_session_replays(
    served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = str(served.ports[0])
    producer = KafkaProducer(
        bootstrap_servers=served.bootstrap, enable_idempotence=True, client_id="payments"
    )
    assert producer.send("orders", b"1").get(20).offset == 0
    error = ["--error", "NOT_LEADER_OR_FOLLOWER", "--count", "2", "--client", "payments"]
    assert invoke(["answer", "Produce", *error, "--port", port]) == 0
    assert invoke(["answer", "Metadata", "--delay", "300ms", "--port", port]) == 0
    assert invoke(["answer", "Produce", "--port", port]) == 2
    assert "answers: Produce: NOT_LEADER_OR_FOLLOWER, 2 left" in capsys.readouterr().out
    assert producer.send("orders", b"2").get(20).offset >= 0
    producer.close()
    asked = served.ask("GET", "/asked")["outside/payments"]
    assert asked["Produce"] >= 4
    leader = {"path": ["partitions", "orders-0", "leader"], "at-least": 1, "within": "10s"}
    state = served.ask("POST", "/wait", leader)
    assert state["answers"] == []
    with pytest.raises(SessionError, match=r"not within 0\.1 s"):
        served.ask("POST", "/wait", {"path": ["connections"], "is": 99, "within": "100ms"})
    with pytest.raises(SessionError, match="give path"):
        served.ask("POST", "/wait", {"path": "connections", "is": 0})
    served.stop()
    again = replay_journal(served.journal, tmp_path / "run")
    assert (again.same_digest, again.result.verdict) == (True, "pass")


def test_a_port_that_is_taken_is_an_error_and_port_0_is_free() -> None:
    with bound("127.0.0.1", 0) as first:
        first.listen()
        with pytest.raises(OSError, match="in use"):
            bound("127.0.0.1", first.getsockname()[1])
