"""The network between real nodes: a TCP proxy before each of them, which can be cut.

A node listens on a port that only its proxy knows and advertises the proxy's. A connection's source
is read from the client id in its first request, which every client inside of Kafka makes of its
node id (:data:`SOURCES`), so a cut concerns one pair of nodes. What speaks no Kafka, ZooKeeper's
client, has a port of the proxy for itself (:meth:`Proxies.link`). A cut holds bytes back and
delivers them when it is healed, as TCP's retransmissions do.

What a real cut does and this one does not: the three-way handshake succeeds, so whoever connects
through a cut waits for its request's timeout and not for ``socket.connection.setup.timeout.ms``.
"""

from __future__ import annotations

import asyncio
import re
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

SOURCES = re.compile(r"(?:raft-client-|broker-)?(\d+)(?:-fetcher-\d+)?")
"""Client ids of a node: of its Raft client, of its channels to the controller, of a fetcher."""

OUTSIDE = -1
"""The source of connections that no node opened."""

MIRROR = -2
"""The source of connections of a mirror's clients: their client ids name the flow, ``a->b``."""

Pair = tuple[int, int]


class Proxies:
    """The proxies of a cluster, on a thread of their own. All methods may be called from any."""

    def __init__(self, ports: Mapping[int, Sequence[Pair]]) -> None:
        """``ports`` are (of the proxy, of the node) for each listener, by node id."""
        self._ports = dict(ports)
        self._links: dict[Pair, Pair] = {}  # (from, to) -> (of the proxy, of the node)
        self._servers: dict[int, list[asyncio.Server]] = {}
        self._cuts: dict[Pair, int] = {}  # (from, to) -> how many faults hold its packets
        self._open: dict[Pair, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def link(self, source: int, destination: int, ports: Pair) -> None:
        """Open a port of the proxy for what one node sends to another; call it before listen()."""
        self._links[source, destination] = ports

    def listen(self, node: int) -> None:
        """Accept connections to a node."""
        self._run(self._listen, node)

    def refuse(self, node: int) -> None:
        """Refuse connections to a node, as a host does on which nothing listens."""
        self._run(self._refuse, node)

    def cut(self, source: int, destination: int) -> None:
        """Hold what ``source`` sends to ``destination``, on whoever's connections."""
        self._run(self._cut, (source, destination), 1)

    def heal(self, source: int, destination: int) -> None:
        """End one cut."""
        self._run(self._cut, (source, destination), -1)

    def close(self) -> None:
        """Close all connections and end the thread."""
        self._run(self._close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # --------------------------------------------------------------------- on the loop's thread

    def _run(self, action: Callable[..., Any], *arguments: Any) -> None:
        async def call() -> None:
            result = action(*arguments)
            if asyncio.iscoroutine(result):
                await result

        asyncio.run_coroutine_threadsafe(call(), self._loop).result()

    async def _listen(self, node: int) -> None:
        def accept(
            far: int, source: int | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            task = self._loop.create_task(self._serve(node, far, source, reader, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        if node not in self._servers:
            ports: list[tuple[Pair, int | None]] = [(pair, None) for pair in self._ports[node]]
            ports += [(pair, source) for (source, to), pair in self._links.items() if to == node]
            servers = self._servers[node] = []
            for (near, far), source in ports:
                server = await asyncio.start_server(partial(accept, far, source), "127.0.0.1", near)
                servers.append(server)

    def _refuse(self, node: int) -> None:
        for server in self._servers.pop(node, ()):
            server.close()

    def _cut(self, pair: Pair, change: int) -> None:
        self._cuts[pair] = self._cuts.get(pair, 0) + change
        if self._cuts[pair]:
            self._gate(pair).clear()
        else:
            self._gate(pair).set()

    async def _close(self) -> None:
        for node in list(self._servers):
            self._refuse(node)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _gate(self, pair: Pair) -> asyncio.Event:
        if pair not in self._open:
            self._open[pair] = asyncio.Event()
            self._open[pair].set()
        return self._open[pair]

    async def _serve(
        self,
        node: int,
        port: int,
        source: int | None,
        near: asyncio.StreamReader,
        near_writer: asyncio.StreamWriter,
    ) -> None:
        """Carry one connection to a node's port until either end closes it.

        ``source`` is the node that opened it; None if its first request tells.
        """
        far_writer = None
        first = b""
        try:
            if source is None:
                first = await near.readexactly(4 + 8)
                size, _, _, _ = struct.unpack(">ihhi", first)
                first += await near.readexactly(size - 8)
                source = _source(first)
            await self._gate((source, node)).wait()
            far, far_writer = await asyncio.open_connection("127.0.0.1", port)
            far_writer.write(first)
            await asyncio.gather(
                self._pump(near, far_writer, self._gate((source, node))),
                self._pump(far, near_writer, self._gate((node, source))),
            )
        except (OSError, asyncio.IncompleteReadError):
            pass  # one end is gone, and the other one is told so below
        finally:
            near_writer.close()
            if far_writer is not None:
                far_writer.close()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event
    ) -> None:
        while data := await reader.read(1 << 16):
            await gate.wait()
            writer.write(data)
            await writer.drain()
        await gate.wait()
        writer.close()


def _source(first: bytes) -> int:
    """Return the node that sent a request, which a connection begins with."""
    (length,) = struct.unpack_from(">h", first, 12)
    client_id = first[14 : 14 + max(length, 0)].decode()
    if "->" in client_id:
        return MIRROR
    found = SOURCES.fullmatch(client_id)
    return OUTSIDE if found is None else int(found[1])
