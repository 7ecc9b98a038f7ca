"""The injector: starts the faults of a scenario in a world and heals them.

A condition is met while a fact is recorded or a message sent. The fault then starts as an event of
its own at the same instant, so that it interrupts no handler. The injector looks up the hosts that
a fault hits when the fault starts. Faults of one disk or host may overlap: they are counted, and
the one that ends last restores the disk or starts the host. A host that has not yet stopped cleanly
by then is killed first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from kafkasim.model.facts import DiskDamaged, FaultEnded, FaultStarted
from kafkasim.sim.faults.conditions import MessageWatch, Watch
from kafkasim.sim.faults.kinds import KINDS, Fault, When, validate
from kafkasim.sim.faults.roles import Roles

if TYPE_CHECKING:
    from kafkasim.model.effects import Process
    from kafkasim.sim.disk.device import Disk
    from kafkasim.sim.host.lifecycle import Host
    from kafkasim.sim.trace.recording import Facts
    from kafkasim.sim.world import World

Heal = Callable[[], None]

DAMAGE = {
    "flush-error": "failed flush", "disk-failure": "failed disk", "disk-full": "failed disk",
}  # fmt: skip
"""What a fault of a disk does, as ``DiskDamaged`` says it; the others do no damage."""

PARTING = ("isolate", "gc-pause", "disk-stall", "disk-full", "disk-failure")
"""Faults that leave a process running and keep it from serving the others."""


class Guard(Protocol):
    """Who knows which data a fault would cost (the no-loss budget)."""

    def allows(self, nodes: Iterable[str], loses: bool) -> bool:
        """Return whether these processes may be cut off now, and lose data if ``loses``."""
        ...


def _loses(fault: Fault) -> bool | None:
    """Return whether a fault costs data on a disk; None: it cuts no process off either."""
    how = fault.parameter("how") if fault.kind == "rack-loss" else fault.kind
    loses = KINDS[how].loses_data or how == "flush-error"
    return loses if loses or KINDS[how].stops or how in PARTING else None


class Injector:
    """The faults of one run; a context manager that heals on exit.

    ``skipped`` lists the faults that did not start, and why: no node had the role that a target
    names, or the no-loss budget did not allow a guarded fault. ``armed`` is True until all faults
    are healed; no fault starts afterwards.
    """

    def __init__(self, world: World, trace: Facts, budget: Guard | None = None) -> None:
        self.world = world
        self.budget = budget
        self.skipped: list[tuple[Fault, str]] = []
        self._trace = trace
        self._active: dict[int, tuple[Fault, list[Heal]]] = {}
        self._started = 0
        self.armed = True
        self.stopping: dict[str, Process] = {}  # by card: what a fault last stopped cleanly
        self._roles = Roles(trace)

    @property
    def active(self) -> list[Fault]:
        """The faults that have started and have not ended."""
        return [fault for fault, _ in self._active.values()]

    def arm(self, faults: Iterable[Fault], ready_us: int = 0) -> None:
        """Schedule faults; their times count from the simulated time ``ready_us``.

        Raises:
            FaultError: a fault is not valid.
        """
        for fault in faults:
            validate(fault)
            if fault.when is None:
                self.world.at(ready_us + fault.at_us, self._start_armed, fault, None)
            else:
                self.watch(fault.when, fault.at_us, self._start_armed, fault)

    def watch(self, when: When, after_us: int, act: Callable[..., None], what: Any) -> None:
        """Call ``act(what, node)`` ``after_us`` after a fact or message of ``node`` has met it."""

        def met(node: str) -> None:
            self.world.at(self.world.now + after_us, act, what, node)

        def begin() -> None:
            if when.fact:
                Watch(self._trace, self._roles, when, met)
            else:
                MessageWatch(self.world.network, self._roles, when, met, self.world.domain)

        if when.after_us:
            self.world.at(self.world.now + when.after_us, begin)
        else:
            begin()

    def place(self, name: str, node: str | None = None) -> str | None:
        """Return the host that a role names now, None if nobody has it (Roles.place)."""
        return self._roles.place(name, node)

    def start(self, fault: Fault, node: str | None = None) -> bool:
        """Start a fault now; return False if it is skipped.

        ``node`` is what the target ``@node`` stands for.
        """
        targets = self._resolve(fault, fault.targets, node)
        others = self._resolve(fault, fault.others, node)
        if targets is None or others is None:
            return False
        loses = _loses(fault) if fault.guarded and self.budget is not None else None
        if self.budget is not None and loses is not None:
            if not self.budget.allows(targets, loses):
                self.skipped.append((fault, "outside the no-loss budget"))
                return False
        self._started += 1
        number = self._started
        name = "+".join(targets) + (f"|{'+'.join(others)}" if others else "")
        self._record(FaultStarted(fault.kind, name))
        heals = _INJECT[fault.kind](self, fault, targets, others)
        heals.append(lambda: self._record(FaultEnded(fault.kind, name)))
        if fault.kind in _INSTANT:
            heals[0]()
            return True
        self._active[number] = (fault, heals)
        if fault.duration_us is not None and not fault.lasts:
            self.world.at(self.world.now + fault.duration_us, self._end, number)
        if fault.until is not None:
            self.watch(fault.until, 0, self._end, number)
        return True

    def heal_all(self) -> None:
        """End every fault that does not last for ever, and let no fault start any more.

        Hosts that are down start again.
        """
        self.armed = False
        for number, (fault, _) in list(self._active.items()):
            if not fault.lasts:
                self._end(number)
        if not self._active:
            self.world.link_faults.heal()

    def __enter__(self) -> Injector:
        return self

    def __exit__(self, *_: object) -> None:
        self.heal_all()

    # ------------------------------------------------------------------------------- inside

    def _start_armed(self, fault: Fault, node: str | None) -> None:
        if self.armed:
            self.start(fault, node)

    def _end(self, number: int, _: str | None = None) -> None:
        ended = self._active.pop(number, None)
        if ended is not None:
            for heal in ended[1]:
                heal()

    def _record(self, fact: Any) -> None:
        self._trace.record(self.world.now, "world", fact)

    def _resolve(
        self, fault: Fault, names: tuple[str, ...], node: str | None
    ) -> tuple[str, ...] | None:
        found: dict[str, None] = {}
        for name in names:
            place = self._roles.place(name, node)
            if place is None:
                self.skipped.append((fault, f"nobody is {name}"))
                return None
            for host in self.world.link_faults.resolve(place):
                found[host] = None
        return tuple(found)

    def hosts(self, names: tuple[str, ...]) -> list[Host]:
        """Return hosts by name."""
        return [self.world.host(name) for name in names]

    def keeps_down(self, host: str) -> bool:
        """Return whether an outage that has not ended keeps a host down."""
        return self.share(self.world.host(host), "down", 0) > 0

    def share(self, host: Host, what: str, delta: int) -> int:
        """Count a fault that starts or ends to break a disk or host; return how many there are.

        Those of the whole world and of its parts are counted together.
        """
        key, broken = (host.card.name, what), self.world.broken
        broken[key] = broken.get(key, 0) + delta
        return broken[key]


# -------------------------------------------------------------------------------- kind by kind

Names = tuple[str, ...]


def _pause(injector: Injector, fault: Fault, targets: Names, _: Names) -> list[Heal]:
    hosts = injector.hosts(targets)
    assert fault.duration_us is not None, fault
    for host in hosts:
        host.pause(fault.duration_us)

    def heal() -> None:
        for host in hosts:
            if host.paused and not injector.armed:  # else the host ends its longest pause itself
                host.resume()

    return [heal]


def _kill(injector: Injector, fault: Fault, targets: Names, _: Names) -> list[Heal]:
    how = fault.parameter("how") if fault.kind == "rack-loss" else fault.kind
    if how == "isolate":
        return [injector.world.link_faults.isolate(targets).heal]
    hosts = [host for host in injector.hosts(targets) if host.incarnation >= 0]  # else none to stop
    for host in hosts:
        injector.share(host, "down", 1)
        if how == "power-loss":
            host.power_loss()
        elif how == "crash":
            host.crash()
        elif host.process is not None:
            injector.stopping[host.card.name] = host.process
            host.stop()

    def heal() -> None:
        for host in hosts:
            if injector.share(host, "down", -1):
                continue  # another fault keeps it down
            if host.process is not None and host.process is injector.stopping.get(host.card.name):
                host.crash()  # its clean stop took too long, as for an operator's kill -9
            if not host.powered:
                host.boot()
            elif not host.alive:
                host.start()

    return [heal]


def _restart(injector: Injector, _: Fault, targets: Names, __: Names) -> list[Heal]:
    for host in injector.hosts(targets):
        if host.incarnation >= 0 and not injector.share(host, "down", 0):
            host.restart()
    return []


def _link(injector: Injector, fault: Fault, a: Names, b: Names) -> list[Heal]:
    links = injector.world.link_faults
    if fault.kind == "reset":
        links.reset(a, b)
        return []
    if fault.kind == "half-open":
        links.half_open(a, b)
        return []
    if fault.kind == "partition":
        rule = links.partition(a, b)
    elif fault.kind == "partition-oneway":
        rule = links.partition_oneway(a, b)
    elif fault.kind == "slow-link":
        rule = links.slow(a, b, fault.parameter("extra-us"))
    elif fault.kind == "flaky":
        rule = links.flaky(a, b, fault.parameter("loss"))
    elif fault.kind == "cut-purpose":
        rule = links.cut(a, b, purpose=fault.parameter("purpose"), api=fault.parameter("api"))
    else:
        selection = {name: fault.parameter(name) for name in ("api", "direction", "purpose")}
        rule = links.hold(a, b, **selection)
    return [rule.heal]


def _isolate(injector: Injector, _: Fault, targets: Names, __: Names) -> list[Heal]:
    return [injector.world.link_faults.isolate(targets).heal]


def _disk(injector: Injector, fault: Fault, targets: Names, _: Names) -> list[Heal]:
    hosts = injector.hosts(targets)
    prefix = fault.parameter("path") if "path" in KINDS[fault.kind].parameters else ""
    share = f"{fault.kind} {prefix}"
    for host in hosts:
        injector.share(host, share, 1)
        _break(host.disk, fault, prefix, True)
        damage = DAMAGE.get(fault.kind)
        if damage is not None:
            where = prefix if fault.kind != "flush-error" else ""
            host.trace.record(injector.world.now, host.name, DiskDamaged(damage, where))

    def heal() -> None:
        for host in hosts:
            if not injector.share(host, share, -1):
                _break(host.disk, fault, prefix, False)

    return [heal]


def _break(disk: Disk, fault: Fault, prefix: str, on: bool) -> None:
    """Start or end the effect of a fault on a disk."""
    if fault.kind == "slow-disk":
        disk.slow(fault.parameter("factor") if on else 1)
    elif fault.kind == "disk-stall":
        disk.stall() if on else disk.resume()
    elif fault.kind == "disk-full":
        disk.fill(on, prefix)
    elif fault.kind == "disk-read-error":
        disk.fail_reads(prefix) if on else disk.heal_reads(prefix)
    elif fault.kind == "flush-error":
        disk.fail_flushes(on, prefix)
    else:
        disk.fail(on, prefix)


def _bit_rot(injector: Injector, fault: Fault, targets: Names, _: Names) -> list[Heal]:
    for host in injector.hosts(targets):
        prefix = fault.parameter("path")
        paths = [path for path in host.disk.paths(prefix) if host.disk.count(path)]
        logs = [path for path in paths if path.endswith(".log")] or paths
        if logs:
            draw = injector.world.streams.stream("bit-rot", host.name, injector.world.now)
            host.disk.bit_rot(logs[int(draw.random() * len(logs))], fault.parameter("index"))
    return []


def _clock(injector: Injector, fault: Fault, targets: Names, _: Names) -> list[Heal]:
    hosts = injector.hosts(targets)
    sign = 1

    def change() -> None:
        for host in hosts:
            if fault.kind == "clock-step":
                host.step_clock(host.clock_step_us + sign * fault.parameter("offset-us"))
            else:
                host.set_drift(host.clock.drift_ppm + sign * fault.parameter("ppm"))

    def heal() -> None:
        nonlocal sign
        sign = -1
        change()

    change()
    return [heal]


_INJECT: dict[str, Callable[[Injector, Fault, Names, Names], list[Heal]]] = {
    "gc-pause": _pause,
    "crash": _kill,
    "power-loss": _kill,
    "stop": _kill,
    "rack-loss": _kill,
    "restart": _restart,
    "isolate": _isolate,
    "bit-rot": _bit_rot,
    **dict.fromkeys(("clock-step", "clock-drift"), _clock),
    **dict.fromkeys(
        ("slow-disk", "disk-stall", "disk-full", "disk-read-error", "flush-error", "disk-failure"),
        _disk,
    ),
    **dict.fromkeys(
        (
            "partition", "partition-oneway", "slow-link", "flaky",
            "reset", "half-open", "hold", "cut-purpose",
        ),
        _link,
    ),
}  # fmt: skip
_INSTANT = ("restart", "reset", "half-open", "bit-rot")
