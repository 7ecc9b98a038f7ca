"""Read a user's file and run a function of it as the application of a host.

Each incarnation of a host runs the file anew, as a new process would. Its imports give it the
stand-ins of :mod:`.stand_ins`, this package under the name ``aiokafka``, modules of its own
directory, and else Python's.
"""

from __future__ import annotations

import asyncio
import builtins
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from kafkasim.scenarios.applications import stand_ins
from kafkasim.scenarios.applications.admin import AIOKafkaAdminClient
from kafkasim.scenarios.applications.consumer import AIOKafkaConsumer
from kafkasim.scenarios.applications.consuming import assignors
from kafkasim.scenarios.applications.consuming.reading import record_processed
from kafkasim.scenarios.applications.database import aiosqlite
from kafkasim.scenarios.applications.partitioner import DefaultPartitioner, murmur2
from kafkasim.scenarios.applications.producer import AIOKafkaProducer
from kafkasim.scenarios.applications.records import serializers
from kafkasim.scenarios.applications.session import CURRENT, Session, session
from kafkasim.scenarios.applications.types import admin, errors, structs
from kafkasim.scenarios.applications.types.structs import (
    AbstractTokenProvider,
    ConsumerRebalanceListener,
    ConsumerRecord,
)
from kafkasim.scenarios.language.files.applications import split
from kafkasim.sim.apps.refusals import NotSimulated

CLIENTS = ("aiokafka", "confluent_kafka", "kafka", "kafkasim")
"""Packages of Kafka's clients; an application gets the simulated ones, or none."""

VERSION = "0.14.0"
"""What ``aiokafka.__version__`` says: the release whose names and arguments the clients have."""

INSTEAD = {
    "aiokafka.coordinator.assignors.sticky": ('partition_assignment_strategy=["sticky"] names it'),
    **dict.fromkeys(
        ("aiokafka.client", "aiokafka.conn", "aiokafka.protocol", "aiokafka.record"),
        "an application meets Kafka by its producers, consumers and admin client",
    ),
    "confluent_kafka": "the simulated clients have aiokafka's names",
    "kafka": "the simulated clients have aiokafka's names",
}
"""What there is in place of a module of Kafka's clients that an application does not get."""


@dataclass(frozen=True)
class UserApplication:
    """The application of one host: ``make(port)`` gives the session of an incarnation."""

    app: str
    make: Callable[[Any], Session]

    def __call__(self, port: Any) -> Coroutine[Any, Any, None]:
        """Return the coroutine of one incarnation."""
        return self._run(self.make(port))

    async def _run(self, place: Session) -> None:
        """Run the function, and end the process with it, as ``asyncio.run`` and its caller do.

        Tasks that are left are cancelled and may clean up. Clients that are not stopped by then go
        with their connections: nothing is flushed or committed, and no member leaves its group.
        """
        CURRENT.set(place)
        place.returned.pop(place.node, None)
        place.handling.pop(place.node, None)
        path, function = split(self.app)
        try:
            await _main(path, function)
        except asyncio.CancelledError:
            if place.port.dead:
                raise
        finally:
            place.handling.pop(place.node, None)
            others = [] if place.port.dead else place.port.other_tasks()
            for task in others:
                task.cancel()
            if others:
                await asyncio.wait(others)
        if not place.port.stopping:
            place.returned[place.node] = None
        place.port.exit()


def _main(path: Path, function: str) -> Coroutine[Any, Any, None]:
    """Run a file; return what it gives to asyncio.run() itself, or else its function's coroutine.

    What stands behind such a call of asyncio.run() in the file is not run.
    """
    try:
        module = _Process(path.parent).load(path.stem)
    except stand_ins.RunsItself as given:
        return given.main
    main: Coroutine[Any, Any, None] = getattr(module, function)()
    return main


@dataclass
class _Process:
    """The modules of one incarnation: stand-ins, and what lies in the application's directory."""

    directory: Path
    modules: dict[str, ModuleType] = field(default_factory=stand_ins.modules)

    def __post_init__(self) -> None:
        self.modules.update(_client_modules())
        self._not_own = (*self.modules, *stand_ins.REFUSED_MODULES)
        self.modules.update(aiosqlite.modules())
        own = dict(vars(builtins), __import__=self.import_, open=stand_ins.refused("open()"))
        self._builtins = own | {"input": stand_ins.refused("input()"), "print": _print}

    def load(self, name: str) -> ModuleType:
        """Return a module of the application's directory; run it, and its packages, if it is new.

        Raises:
            ModuleNotFoundError: there is none of this name.
        """
        if name in self.modules:
            return self.modules[name]
        parent, _, last = name.rpartition(".")
        package = self.load(parent) if parent else None
        path = self._find(name)
        if path is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        module = ModuleType(name)
        module.__dict__.update(
            __file__=str(path), __builtins__=self._builtins, __kafkasim_application__=True,
            __package__=parent,
        )  # fmt: skip
        if path.is_dir() or path.name == "__init__.py":
            module.__dict__.update(__package__=name, __path__=[])
        self.modules[name] = module
        if not path.is_dir():
            self._execute(name, module, path)
        if package is not None:
            setattr(package, last, module)
        return module

    def _execute(self, name: str, module: ModuleType, path: Path) -> None:
        code = _compiled(str(path), path.stat().st_mtime_ns)
        known = sys.modules.setdefault(name, module)  # where dataclasses look annotations up
        try:
            exec(code, module.__dict__)
        except BaseException:
            del self.modules[name]
            raise
        finally:
            if known is module:
                del sys.modules[name]

    def _find(self, name: str) -> Path | None:
        """Return the file of a module or package, a directory without one, or None."""
        base = self.directory.joinpath(*name.split("."))
        for path in (base / "__init__.py", base.parent / f"{base.name}.py"):
            if path.exists():
                return path
        return base if base.is_dir() and any(base.glob("*.py")) else None

    def _import_own(self, name: str, fromlist: Any) -> ModuleType:
        """Import a module of the application's directory."""
        module = self.load(name)
        for each in fromlist or ():
            if not hasattr(module, each) and self._find(f"{name}.{each}") is not None:
                self.load(f"{name}.{each}")
        return module if fromlist else self.modules[name.partition(".")[0]]

    def import_(
        self,
        name: str,
        globals_: Any = None,
        locals_: Any = None,
        fromlist: Any = (),
        level: int = 0,
    ) -> Any:
        """Import a module for the application (builtins.__import__)."""
        if level:
            package = str(globals_.get("__package__") or "").split(".")
            parts = package[: len(package) - level + 1]
            if not all(parts) or not parts:
                raise ImportError("attempted relative import with no known parent package")
            return self._import_own(".".join([*parts, *[name] * bool(name)]), fromlist)
        top = name.partition(".")[0]
        if name == "kafkasim" and (not fromlist or "processed" in fromlist):
            session().tells = True
        own = top not in self._not_own and self._find(top) is not None
        if top in CLIENTS and name not in self.modules and not own:
            parts = [each for each in INSTEAD if f"{name}.".startswith(f"{each}.")]
            there = ", ".join(each for each in self.modules if each.partition(".")[0] == top)
            instead = INSTEAD[parts[0]] if parts else f"there are {there}"
            raise NotSimulated(f"the module {name} ({stand_ins.where()}): {instead}")
        if own:
            return self._import_own(name, fromlist)
        known = self.modules.get(name if fromlist else top)
        if known is not None:
            return known
        if top in stand_ins.REFUSED_MODULES and name not in stand_ins.PURE.get(top, ()):
            raise NotSimulated(f"the module {name} ({stand_ins.where()}): it leaves the simulation")
        return builtins.__import__(name, globals_, locals_, fromlist, level)


_codes: dict[tuple[str, int], Any] = {}


def _compiled(path: str, changed_ns: int) -> Any:
    key = (path, changed_ns)
    if key not in _codes:
        text = Path(path).read_text(encoding="utf-8")
        _codes[key] = compile(text, path, "exec", dont_inherit=True)
    return _codes[key]


def _client_modules() -> dict[str, ModuleType]:
    """Return ``aiokafka`` with its parts, and ``kafkasim`` as an application sees it."""
    aiokafka, of_abc, of_errors, of_structs = (
        ModuleType(f"aiokafka{part}") for part in ("", ".abc", ".errors", ".structs")
    )
    helpers = ModuleType("aiokafka.helpers")
    of_partitioner = ModuleType("aiokafka.partitioner")
    of_partitioner.__dict__.update(DefaultPartitioner=DefaultPartitioner, murmur2=murmur2)
    helpers.__dict__.update(create_ssl_context=lambda **_: None)  # security says nothing here
    of_abc.__dict__.update(
        ConsumerRebalanceListener=ConsumerRebalanceListener,
        AbstractTokenProvider=AbstractTokenProvider,
    )
    of_errors.__dict__.update(errors.names())
    for thing in (structs.TopicPartition, structs.OffsetAndMetadata, structs.OffsetAndTimestamp,
                  structs.RecordMetadata,
                  ConsumerRecord):  # fmt: skip
        setattr(of_structs, thing.__name__, thing)
    aiokafka.__dict__.update(
        AIOKafkaConsumer=AIOKafkaConsumer, AIOKafkaProducer=AIOKafkaProducer,
        ConsumerRebalanceListener=ConsumerRebalanceListener, ConsumerRecord=ConsumerRecord,
        TopicPartition=structs.TopicPartition, OffsetAndMetadata=structs.OffsetAndMetadata,
        OffsetAndTimestamp=structs.OffsetAndTimestamp,
        ConsumerStoppedError=errors.ConsumerStoppedError, IllegalOperation=errors.IllegalOperation,
        abc=of_abc, errors=of_errors, structs=of_structs, helpers=helpers,
        AbstractTokenProvider=AbstractTokenProvider, partitioner=of_partitioner,
        __version__=VERSION,
    )  # fmt: skip
    of_clients = _defining_modules(aiokafka)
    own = ModuleType("kafkasim")
    own.__dict__.update(processed=processed, serializers=serializers)
    of_assignors = assignors.modules()
    aiokafka.__dict__.update(
        cluster=of_assignors["aiokafka.cluster"], coordinator=of_assignors["aiokafka.coordinator"]
    )
    return {"aiokafka": aiokafka, "aiokafka.abc": of_abc, "aiokafka.errors": of_errors,
            "aiokafka.structs": of_structs, "aiokafka.helpers": helpers, **of_assignors,
            "aiokafka.partitioner": of_partitioner, **of_clients,
            **_admin_modules(aiokafka),
            "kafkasim": own, "kafkasim.serializers": serializers}  # fmt: skip


def _defining_modules(aiokafka: ModuleType) -> dict[str, ModuleType]:
    """Return the modules in which aiokafka defines its clients, under their names."""
    found: dict[str, ModuleType] = {}
    for kind, client in (("consumer", AIOKafkaConsumer), ("producer", AIOKafkaProducer)):
        package, module = ModuleType(f"aiokafka.{kind}"), ModuleType(f"aiokafka.{kind}.{kind}")
        for each in (package, module):
            setattr(each, client.__name__, client)
            found[each.__name__] = each
        setattr(package, kind, module)
        setattr(aiokafka, kind, package)
    return found


def _print(*values: Any, file: Any = None, **how: Any) -> None:
    """Print to stderr behind the host's name; stdout has the results of the run only."""
    if file is None:
        print(f"{session().node}:", end=" ", file=sys.stderr)
    print(*values, file=file or sys.stderr, **how)


def _admin_modules(aiokafka: ModuleType) -> dict[str, ModuleType]:
    """Return ``aiokafka.admin`` with its parts."""
    contents = {
        "aiokafka.admin": (
            AIOKafkaAdminClient, admin.NewPartitions, admin.NewTopic, admin.RecordsToDelete,
        ),
        "aiokafka.admin.client": (AIOKafkaAdminClient,),
        "aiokafka.admin.config_resource": (admin.ConfigResource, admin.ConfigResourceType),
        "aiokafka.admin.new_partitions": (admin.NewPartitions,),
        "aiokafka.admin.new_topic": (admin.NewTopic,),
        "aiokafka.admin.records_to_delete": (admin.RecordsToDelete,),
    }  # fmt: skip
    made = {"aiokafka": aiokafka} | {name: ModuleType(name) for name in contents}
    for name, things in contents.items():
        for thing in things:
            setattr(made[name], thing.__name__, thing)
        parent, _, own = name.rpartition(".")
        setattr(made[parent], own, made[name])
    del made["aiokafka"]
    return made


def processed(*records: ConsumerRecord) -> None:
    """Say that the effects of records have taken place."""
    record_processed(session(), records)
