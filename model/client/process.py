"""The process of a client host: the named clients of one application.

The type of a client's configuration says whether it is a producer, a consumer, an old consumer or
an admin client.
The application calls a method as ``<client>.<method>``; ``open`` makes a client that the process
was not started with, and ``release`` closes one for good. A name may have ``#`` and more behind it:
a client of the same cluster as the one without. A producer that has failed for good is closed and
replaced (``<producer>.renew``), as an application would construct a new one.

A stopped application (SIGTERM) closes its clients before the process ends: producers flush,
consumers commit if auto-commit is on and leave their group. A consumer closes once the application
has handled what the last poll() returned, as after KafkaConsumer.wakeup() in a shutdown hook. An
application may catch SIGTERM (``catch_stop``): then it closes its clients itself, and ends. A
killed process closes nothing.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kafkasim.model.client.admin.admin import KafkaAdmin
from kafkasim.model.client.consumer.consumer import KafkaConsumer
from kafkasim.model.client.consumer.share.consumer import KafkaShareConsumer
from kafkasim.model.client.disk import ClientDisk
from kafkasim.model.client.legacy.connector import ZookeeperConsumerConnector
from kafkasim.model.client.producer.producer import KafkaProducer
from kafkasim.model.client.rules import ClientRules
from kafkasim.model.compression import STATED_RATIOS, Compressor
from kafkasim.model.config import (
    ClientConfig,
    Config,
    ConsumerConfig,
    LegacyConsumerConfig,
    ProducerConfig,
    ShareConsumerConfig,
)
from kafkasim.model.effects import Call, Exit, Process, Reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkasim.model.storage.files import Files
    from kafkasim.model.timers import Key


Consumer = KafkaConsumer | KafkaShareConsumer | ZookeeperConsumerConnector
Client = KafkaProducer | Consumer | KafkaAdmin


CLOSE_TIMEOUT_US = 30_000_000
"""How long a producer that is released may go on to send (AbstractWorkerSourceTask)."""

NO_OTHERS: Mapping[str, tuple[str, ...]] = MappingProxyType({})


class ClientProcess(Process):
    """Clients by name, e.g. ``{"producer": ProducerConfig(), "consumer": ConsumerConfig()}``."""

    default_lane = "main"

    def __init__(
        self,
        name: str,
        bootstrap: tuple[str, ...],
        clients: Mapping[str, Config],
        rules: ClientRules,
        files: Files,
        rng: random.Random,
        now: int,
        compressor: Compressor = STATED_RATIOS,
        others: Mapping[str, tuple[str, ...]] = NO_OTHERS,
    ) -> None:
        """``compressor`` says what producers' records compress to.

        ``others`` are the bootstrap servers of the clients that have other ones.
        """
        super().__init__(name, files, rng, now)
        self._bootstrap = bootstrap
        self._others = others
        self._configs = dict(clients)
        self._rules = rules
        self._compressor = compressor
        self._renewed: dict[str, int] = {}  # client -> how often it was replaced
        self.clients: dict[str, Client] = {}
        self._methods: dict[str, Callable[[int, tuple[Any, ...], int], None]] = {
            "open": self._open, "release": self._release, "catch_stop": self._catch_stop,
        }  # fmt: skip
        self._catches: int | None = None  # the call that a request to stop is replied to
        self._methods |= ClientDisk(self).methods
        self._stopping = False
        for client in clients:
            self._make(client, client)

    def _make(self, client: str, name: str, tells: bool = True) -> None:
        """Make a client; ``name`` tells it from those that it replaces."""
        config, rules = self._configs[client], self._rules
        bootstrap = self._others.get(client.partition("#")[0], self._bootstrap)
        made: Client
        if isinstance(config, ProducerConfig):
            made = KafkaProducer(self, name, config, bootstrap, rules, self._compressor)
            self._methods[f"{client}.renew"] = partial(self._renew, client)
        elif isinstance(config, ShareConsumerConfig):
            made = KafkaShareConsumer(self, name, config, bootstrap, rules)
        elif isinstance(config, ConsumerConfig):
            made = KafkaConsumer(self, name, config, bootstrap, rules, tells)
        elif isinstance(config, LegacyConsumerConfig):
            made = ZookeeperConsumerConnector(self, name, config, rules)
        else:
            assert isinstance(config, ClientConfig), config
            made = KafkaAdmin(self, name, config, bootstrap, rules)
        self.clients[client] = made
        for method, function in made.methods.items():
            self._methods[f"{client}.{method}"] = function

    def _renew(self, client: str, call: int, _args: tuple[Any, ...], _now: int) -> None:
        """Put a new producer in the place of one that is closed, as after a fatal error."""
        self._renewed[client] = number = self._renewed.get(client, 1) + 1
        self._make(client, f"{client}-{number}")
        self.out.append(Reply(call, None, None))

    def _open(self, call: int, args: tuple[Any, ...], _now: int) -> None:
        """Make the client (name, config), unless there is one of that name.

        A third argument False makes a consumer that tells the trace nothing of what it reads.
        """
        client, config, *rest = args
        error = None
        if client in self.clients:
            error = ValueError(f"{self.name} has a client {client} already")
        elif not self._stopping:
            self._configs[client] = config
            self._make(client, client, *rest)
        self.out.append(Reply(call, None, error))

    def _release(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Close (client,) and forget it; reply when it is closed.

        A producer that has not sent all within CLOSE_TIMEOUT_US gives the rest up
        (KafkaProducer.close, forceClose).
        """
        made = self.clients.pop(args[0])
        for method in made.methods:
            del self._methods[f"{args[0]}.{method}"]
        if isinstance(made, KafkaProducer):
            key = ("release", args[0])
            self.timers.arm(key, now + CLOSE_TIMEOUT_US, "main", made.force_close)
            made.shut(now, partial(self._released, call, key))
        else:
            made.shut(now, partial(self._reply, call))

    def _released(self, call: int, key: Key) -> None:
        self.timers.cancel(key)
        self._reply(call)

    def _reply(self, call: int) -> None:
        self.out.append(Reply(call, None, None))

    def _catch_stop(self, call: int, args: tuple[Any, ...], _now: int) -> None:
        """Reply -call when the process is asked to stop, in place of a stop; (False,): stop."""
        self._catches = call if args[0] else None
        self.out.append(Reply(call, None, None))

    def on_call(self, item: Call, now: int) -> None:
        """Run a call's method; its client replies now or later."""
        method = self._methods.get(item.method)
        if method is None:
            error = AttributeError(f"the clients of {self.name} have no method {item.method}")
            self.out.append(Reply(item.call, None, error))
        else:
            method(item.call, item.args, now)

    def shutdown(self, now: int) -> None:
        """Close every client, then end the process, unless the application catches SIGTERM."""
        if self._catches is not None:
            caught, self._catches = self._catches, None
            self.out.append(Reply(-caught, None, None))
            return
        if self._stopping:
            return
        self._stopping = True
        closing = dict.fromkeys(self.clients)

        def closed(client: str) -> None:
            del closing[client]
            if not closing:
                self.out.append(Exit("shutdown", True))

        for client, stopped in self.clients.items():
            if not isinstance(stopped, Consumer):
                self._hang_up(client)
                stopped.shut(now, partial(closed, client))
            else:
                stopped.stop(now, partial(self._hang_up, client), partial(closed, client))
        if not self.clients:
            self.out.append(Exit("shutdown", True))

    def _hang_up(self, client: str) -> None:
        """Give the application no reply any more: it has ended its use of a client."""
        for method in self.clients[client].methods:
            self._methods[f"{client}.{method}"] = _ignore

    def ground_truth(self) -> list[Any]:
        """Return the positions of the consumers."""
        return [
            fact
            for client in self.clients.values()
            if isinstance(client, Consumer)
            for fact in client.ground_truth()
        ]


def _ignore(_call: int, _args: tuple[Any, ...], _now: int) -> None:
    """Do nothing with a call of an application that is stopping."""
