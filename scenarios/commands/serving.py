"""``kafkasim serve``, ``inject``, ``heal`` and ``status``: a cluster for clients from outside."""

from __future__ import annotations

import gc
import signal
import socket
import sys
import time
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import typer

from kafkasim.scenarios.commands.common import InputError, of_one_cluster, say, say_json
from kafkasim.scenarios.commands.exits import OK
from kafkasim.scenarios.language import library
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.language.units import duration_us
from kafkasim.scenarios.wire import control
from kafkasim.scenarios.wire.journal import Head, Journal
from kafkasim.scenarios.wire.serving import Server, bound
from kafkasim.scenarios.wire.session import LiveRun, Session, scenario_served
from kafkasim.sim.trace.store import code_version

PORT = 9092
BOOT_US = 2_000_000
"""What a cluster takes to boot, about: the hosts' clocks then show the time of day."""

LOOPBACK = ("127.0.0.1", "::1", "localhost")

Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="The first broker's port.")]


def serve(
    scenario: Annotated[
        str, typer.Argument(help="A scenario; without one, three brokers of Kafka 4.1.")
    ] = "",
    port: Annotated[
        int,
        typer.Option(
            "--port", min=0, max=65535, help="Of broker-1; the others follow. 0: any free ports."
        ),
    ] = PORT,
    listen: Annotated[
        str,
        typer.Option("--listen", help="The address of the listeners; not only loopback: beware."),
    ] = "127.0.0.1",
    seed: Annotated[int, typer.Option("--seed", help="Of the cluster's random numbers.")] = 1,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change the scenario.")
    ] = None,
    workloads: Annotated[
        bool, typer.Option("--workloads", help="Start the scenario's producers and consumers.")
    ] = False,
    faults: Annotated[
        bool, typer.Option("--faults", help="Start the scenario's faults and operations.")
    ] = False,
    for_: Annotated[str, typer.Option("--for", metavar="TIME", help="End after this time.")] = "",
    record: Annotated[
        Path | None, typer.Option("--record", metavar="FILE", help="Write a journal, to replay it.")
    ] = None,
) -> int:
    """Serve a simulated cluster to real Kafka clients, until Ctrl-C.

    Simulated time follows the wall clock. kafkasim inject starts a fault while the cluster serves;
    kafkasim replay FILE judges what was recorded.
    """
    wanted = scenario_served(_scenario(scenario, settings or []), workloads, faults)
    limit_s = _seconds(for_)
    sockets = _bind(listen, port, wanted.cluster.brokers)
    if listen not in LOOPBACK:
        _log(f"warning: listens at {listen}; whoever reaches it may use and break the cluster")
    began = time.perf_counter()
    served = _boot(wanted, seed, listen, sockets, record, (workloads, faults))
    until = None if limit_s is None else time.perf_counter() + limit_s
    return _serve(served, began, until, record)


def _boot(
    scenario: Scenario,
    seed: int,
    listen: str,
    sockets: dict[str, socket.socket],
    record: Path | None,
    starts: tuple[bool, bool],
) -> Server:
    """Start the cluster; ``starts`` says whether its workloads and its faults start, too."""
    epoch_us = time.time_ns() // 1000 - BOOT_US
    run = LiveRun(scenario, seed, None, [], epoch_us)
    run.boot()
    ports = {node: (_shown(listen), int(sock.getsockname()[1])) for node, sock in sockets.items()}
    journal = None
    if record is not None:
        head = Head(scenario, seed, [], epoch_us, ports, *starts, code_version())
        journal = _journal(record, head)
    workloads, faults = starts
    if workloads:
        run.cluster.clients.start_workloads()
    if faults:
        run.faults.arm(run.ready_us)
    gc.collect()
    gc.freeze()
    return Server(Session(run, ports), sockets, journal, _log)


def _serve(server: Server, began: float, until: float | None, record: Path | None) -> int:
    controlled = control.Control(server)
    first = next(iter(server.session.ports.values()))[1]
    file = control.announce(first, controlled)
    servers = ",".join(f"{host}:{port}" for host, port in server.session.ports.values())
    say(f"bootstrap.servers={servers}")
    _log(f"ready after {time.perf_counter() - began:.2f} s; control at"
         f" http://127.0.0.1:{controlled.port}, token in {file}")  # fmt: skip
    sys.stdout.flush()
    before = signal.signal(signal.SIGTERM, lambda *_: server.stop())
    try:
        server.serve(until)
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
        file.unlink(missing_ok=True)
        controlled.close()
        digest = server.close()
        run = server.session.run
        run.cluster.clients.release()
        run.trace.close()
    lasted = (run.world.now - run.ready_us) / 1e6
    _log(f"served {lasted:.1f} s of simulated time, {run.trace.rows} facts, digest {digest[:16]}")
    if record is not None:
        _log(f"kafkasim replay {record} --out DIR  replays it and judges what clients were told")
    return OK


def inject(
    kind: Annotated[str, typer.Argument(help="gc-pause, crash, partition, isolate, slow-disk, …")],
    node: Annotated[
        str, typer.Argument(help="A host, or a role such as leader:orders-0 or active-controller.")
    ],
    for_: Annotated[str, typer.Option("--for", metavar="TIME", help="How long it lasts.")] = "",
    peers: Annotated[
        list[str] | None,
        typer.Option(
            "--peer",
            help="The far side of a link: a host, or servers (all others); default: all hosts.",
        ),
    ] = None,
    keys: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="KEY=VALUE", help="Any other key of [[faults]]."),
    ] = None,
    port: Port = PORT,
) -> int:
    """Start a fault in the cluster that kafkasim serve runs.

    The words are those of [[faults]] in a scenario.
    """
    table: dict[str, Any] = {"kind": kind, "node": node}
    if for_:
        table["for"] = for_
    if peers:
        table["peers"] = peers
    for each in keys or []:
        name, equals, text = each.partition("=")
        if not equals:
            raise InputError(f"--key {each}: must be KEY=VALUE")
        table = library.apply(table, {name: library.value(text)}, "--key")
    say(f"armed: {control.ask(port, 'POST', '/fault', table)['armed']}")
    return OK


def answer(
    api: Annotated[str, typer.Argument(help="Kafka's name of a request: Produce, Fetch, …")],
    error: Annotated[
        str, typer.Option("--error", metavar="NAME", help="The error; no broker sees the request.")
    ] = "",
    delay: Annotated[
        str, typer.Option("--delay", metavar="TIME", help="The response leaves so much later.")
    ] = "",
    lose: Annotated[bool, typer.Option("--lose", help="The response is lost.")] = False,
    reset: Annotated[
        bool, typer.Option("--reset", help="The connection is reset instead of a response.")
    ] = False,
    count: Annotated[int, typer.Option("--count", help="For how many requests.")] = 1,
    client: Annotated[str, typer.Option("--client", help="Only of this client id.")] = "",
    node: Annotated[str, typer.Option("--node", help="Only at this broker.")] = "",
    topic: Annotated[str, typer.Option("--topic", help="Only with this topic.")] = "",
    port: Port = PORT,
) -> int:
    """Answer the next requests of an API with an error, late, or not at all, while serve runs."""
    given = {"error": error, "delay": delay, "lose": lose, "reset": reset, "client": client,
             "node": node, "topic": topic}  # fmt: skip
    table = {"api": api, "count": count, **{key: each for key, each in given.items() if each}}
    say(f"answers: {control.ask(port, 'POST', '/answer', table)['answers']}")
    return OK


def heal(port: Port = PORT) -> int:
    """End all faults and answers in the cluster that kafkasim serve runs; start what is down."""
    control.ask(port, "POST", "/heal", {})
    say("healed")
    return OK


def status(
    port: Port = PORT,
    json: Annotated[bool, typer.Option("--json", help="Print only one JSON object.")] = False,
) -> int:
    """Print the state of the cluster that kafkasim serve runs."""
    told = control.ask(port, "GET", "/status")
    if json:
        say_json(told)
        return OK
    say(f"simulated time {told['simulated_s']} s, stretched by {told['stretched_s']} s,"
        f" {told['connections']} connections")  # fmt: skip
    for node, broker in told["brokers"].items():
        state = "paused" if broker["paused"] else "up" if broker["alive"] else "down"
        say(f"  {node}  {broker['listener']}  {state}")
    for name, partition in told["partitions"].items():
        say(f"  {name}  leader {partition['leader']}  isr {','.join(map(str, partition['isr']))}")
    for client in told["clients"]:
        say(f"  {client}")
    for fault in told["faults"]:
        say(f"  fault: {fault}")
    for waiting in told["answers"]:
        say(f"  answer: {waiting}")
    return OK


def _scenario(name: str, settings: list[str]) -> Scenario:
    with resources.as_file(resources.files("kafkasim.scenarios.wire") / "cluster.toml") as path:
        return of_one_cluster(library.scenario(name or str(path), settings)[0], "serve")


def _seconds(text: str) -> float | None:
    try:
        return duration_us(text) / 1e6 if text else None
    except ValueError as error:
        raise InputError(f"--for {text}: {error}") from None


def _bind(listen: str, port: int, brokers: int) -> dict[str, socket.socket]:
    if port and port + brokers - 1 > 65535:
        raise InputError(f"--port {port}: {brokers} brokers need ports up to {port + brokers - 1}")
    sockets: dict[str, socket.socket] = {}
    for number in range(1, brokers + 1):
        own = port + number - 1 if port else 0
        try:
            sockets[f"broker-{number}"] = bound(listen, own)
        except OSError as error:
            for sock in sockets.values():
                sock.close()
            raise InputError(
                f"broker-{number} cannot listen at {listen}:{own}: {error.strerror};"
                " choose others with --port and --listen"
            ) from None
    return sockets


def _shown(listen: str) -> str:
    """Return the host that clients are told: 0.0.0.0 is none that they can connect to."""
    return socket.gethostname() if listen in ("0.0.0.0", "::") else listen


def _journal(path: Path, head: Head) -> Journal:
    try:
        return Journal(path, head)
    except OSError as error:
        raise InputError(f"--record {path}: cannot be written: {error.strerror}") from None


def _log(line: str) -> None:
    sys.stderr.write(f"kafkasim: {line}\n")
    sys.stderr.flush()
