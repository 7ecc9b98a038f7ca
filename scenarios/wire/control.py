"""The control port of a server, and how commands find it: JSON over HTTP on loopback, with a token.

    POST /fault   {"kind": "gc-pause", "node": "broker-1", "for": "15s"}    a table of [[faults]]
    POST /answer  {"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "count": 3}    answers.py
    POST /heal    {}
    POST /wait    {"path": ["partitions", "orders-0", "leader"], "is": 2, "within": "30s"}
    GET  /status
    GET  /asked   how many requests of each API each client has sent

Each request has the header ``Authorization: Bearer TOKEN``. A wrong table gives status 400 and
``{"error": "one line"}``. ``/wait`` returns the status once what a path leads to in it has a value
(``is``), or is at least a number (``at-least``; of a list its length counts). Requests with an
Origin, as browsers send, are refused. The server writes its address and token to a file that only
its user can read; ``kafkasim inject`` reads it there.
"""

from __future__ import annotations

import hmac
import json
import os
import queue
import random
import socket
import stat
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from kafkasim.scenarios.language.units import duration_us
from kafkasim.scenarios.wire.failures import SessionError
from kafkasim.scenarios.wire.serving import Server
from kafkasim.scenarios.wire.session import described

BODY_MAX = 1 << 20
ANSWER_WITHIN_S = 30.0
WAIT_MAX_S = 600.0
POLL_S = 0.05
PATHS = "there are POST /fault, /answer, /heal and /wait, GET /status and /asked"

_Command = Callable[[], Mapping[str, Any]]


class Control:
    """The control port of a server; its requests are done by the server's own loop."""

    def __init__(self, server: Server, port: int = 0) -> None:
        self.token = f"{random.SystemRandom().getrandbits(128):032x}"
        self._server = server
        self._commands: queue.SimpleQueue[tuple[_Command, Future[Mapping[str, Any]]]]
        self._commands = queue.SimpleQueue()
        self._bell, self._rung = socket.socketpair()
        self._rung.setblocking(False)
        server.wake_by(self._rung, self._work)
        handler = type("Handler", (_Handler,), {"control": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self._http.daemon_threads = True
        self.port = int(self._http.server_address[1])
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def answer(self, method: str, path: str, body: Any) -> Mapping[str, Any]:
        """Have a request done between two events of the simulation; return what it says.

        Raises:
            SessionError: it is wrong; KeyError: there is no such request.
        """
        server = self._server

        def heal() -> Mapping[str, Any]:
            server.heal()
            return {"healed": True}

        commands: dict[tuple[str, str], _Command] = {
            ("POST", "/fault"): lambda: {"armed": server.inject(body)},
            ("POST", "/answer"): lambda: {"answers": server.answer(body)},
            ("POST", "/heal"): heal,
            ("GET", "/status"): lambda: status(server),
            ("GET", "/asked"): server.session.asked,
        }
        if (method, path) == ("POST", "/wait"):
            return self._wait(body)
        done: Future[Mapping[str, Any]] = Future()
        self._commands.put((commands[method, path], done))
        self._bell.send(b"!")
        return done.result(ANSWER_WITHIN_S)

    def _wait(self, body: Any) -> Mapping[str, Any]:
        """Return the status once it shows what is waited for.

        Raises:
            SessionError: it does not within the time, or the request is wrong.
        """
        meets, within_s = _condition(body)
        deadline = time.monotonic() + within_s
        while True:
            found = self.answer("GET", "/status", {})
            if meets(found):
                return found
            if time.monotonic() > deadline:
                raise SessionError(f"not within {within_s:g} s: {json.dumps(body)}")
            time.sleep(POLL_S)

    def close(self) -> None:
        """Close the port."""
        self._http.shutdown()
        self._http.server_close()
        self._bell.close()
        self._rung.close()

    def _work(self) -> None:
        self._rung.recv(4096)
        while not self._commands.empty():
            command, done = self._commands.get()
            try:
                done.set_result(command())
            except Exception as error:
                done.set_exception(error)


def _condition(body: Mapping[str, Any]) -> tuple[Callable[[Any], bool], float]:
    """Return what ``/wait`` waits for, and for how many seconds at most.

    Raises:
        SessionError: the request is wrong.
    """
    path, wanted = (
        body.get("path"),
        {each: body[each] for each in ("is", "at-least") if each in body},
    )
    if not isinstance(path, list) or len(wanted) != 1 or {*body} - {"path", "within", *wanted}:
        raise SessionError("wait: give path (a list), and is or at-least; within is optional")
    try:
        within_s = duration_us(body.get("within", "30s")) / 1e6
    except ValueError as error:
        raise SessionError(f"within: {error}") from None
    ((how, value),) = wanted.items()

    def meets(found: Any) -> bool:
        for step in path:
            try:
                found = found[step]
            except (KeyError, IndexError, TypeError):
                return False
        if how == "is":
            return bool(found == value)
        size = len(found) if isinstance(found, list | dict | str) else found
        return isinstance(size, int | float) and size >= value

    return meets, min(within_s, WAIT_MAX_S)


def status(server: Server) -> dict[str, Any]:
    """Return what a server does: time, brokers, partitions, clients, faults."""
    run = server.session.run
    progress, injector = run.progress, run.faults.injector
    return {
        "simulated_s": round((run.world.now - run.ready_us) / 1e6, 3),
        "stretched_s": round(server.stretched_us / 1e6, 3),
        "brokers": {
            host.name: {
                "alive": host.alive, "paused": host.paused,
                "listener": "{}:{}".format(*server.session.ports[host.name]),
            }
            for host in run.cluster.brokers
        },
        "partitions": {
            progress.name(key): {"leader": change.leader, "isr": list(change.isr)}
            for key, change in progress.partitions.items()
            if key[0] not in progress.deleted
        },
        "clients": list(server.session.hosts),
        "connections": len(server.connections),
        "faults": [described(fault) for fault in injector.active],
        "answers": [str(answer) for answer in server.session.answers.waiting],
        "skipped": [f"{fault.kind}: {why}" for fault, why in injector.skipped],
    }  # fmt: skip


class _Handler(BaseHTTPRequestHandler):
    """Reads one request, checks it, and has it done."""

    control: Control
    timeout = 30.0

    def do_GET(self) -> None:
        self._do("GET")

    def do_POST(self) -> None:
        self._do("POST")

    def _do(self, method: str) -> None:
        wanted = f"Bearer {self.control.token}"
        given = self.headers.get("Authorization", "")
        if not hmac.compare_digest(given.encode(), wanted.encode()) or "Origin" in self.headers:
            self._say(403, {"error": "send the server's token: Authorization: Bearer TOKEN"})
            return
        try:
            size = int(self.headers.get("Content-Length") or 0)
            if not 0 <= size <= BODY_MAX:
                raise ValueError(f"a body of {size} bytes; allowed are {BODY_MAX}")
            body = json.loads(self.rfile.read(size) or b"{}")
            if not isinstance(body, dict):
                raise ValueError("the body must be a JSON object")
            self._say(200, self.control.answer(method, self.path, body))
        except KeyError:
            self._say(404, {"error": PATHS})
        except (ValueError, RecursionError) as error:
            self._say(400, {"error": str(error)})
        except FutureTimeout:
            self._say(503, {"error": "the server is busy"})

    def _say(self, code: int, body: Mapping[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Print nothing: the server's log is about the cluster."""


# ------------------------------------------------------------------------------- for commands


def place(port: int) -> Path:
    """Return the file with address and token of the server whose first broker has a port.

    Raises:
        SessionError: the directory of these files is somebody else's.
    """
    directory = Path(gettempdir()) / f"kafkasim-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    found = directory.lstat()
    private = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    if not private or found.st_mode & 0o077:
        raise SessionError(f"{directory}: must be a directory that only you can read")
    return directory / f"serve-{port}.json"


def announce(port: int, control: Control) -> Path:
    """Write the file of a server; return it."""
    path = place(port)
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump({"url": f"http://127.0.0.1:{control.port}", "token": control.token}, file)
    return path


def ask(port: int, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
    """Send a request to the server whose first broker has a port; return its answer.

    Raises:
        SessionError: there is no such server, or it refuses the request.
    """
    file = place(port)
    try:
        known = json.loads(file.read_text(encoding="utf-8"))
        request = urllib.request.Request(
            known["url"] + path,
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"Bearer {known['token']}"},
            method=method,
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=ANSWER_WITHIN_S) as answer:
            return json.load(answer)
    except FileNotFoundError:
        raise SessionError(
            f"no server at port {port}: start one with kafkasim serve, or name its first"
            " broker's port with --port"
        ) from None
    except urllib.error.HTTPError as error:
        raise SessionError(json.load(error)["error"]) from None
    except OSError as error:
        raise SessionError(f"the server at port {port} does not answer: {error}") from None
