"""The normal form in ZooKeeper mode: the changes of znodes as text that two runs share.

As in :mod:`tests.fidelity.playing.history`, the lines of one partition, broker, topic or setting
stand in the order of ZooKeeper's log, different ones apart, and epochs count from the start. A line
of a partition shows the whole state that was written::

    orders-0 +1/+3: leader 3; isr 1,3; controller +0

means: the leader epoch is one and the znode's version (the partition epoch) three above those at
the start. Controllers are called A, B, … in the order in which they are elected.
"""

from __future__ import annotations

import re
from typing import Any

from tests.fidelity.playing.told import Told
from tests.fidelity.playing.znodes import ZnodeChange

STATE = re.compile(r"/brokers/topics/([^/]+)/partitions/(\d+)/state")
TOPIC = re.compile(r"/brokers/topics/([^/]+)")
BROKER = re.compile(r"/brokers/ids/(\d+)")
CONFIG = re.compile(r"/config/(topics|brokers)/([^/]+)")
DELETION = re.compile(r"/admin/delete_topics/([^/]+)")

OFFSETS = "__consumer_offsets"


class ZnodeHistory:
    """Reads all changes from the beginning; keeps text of what follows the start."""

    def __init__(self, start: int) -> None:
        """``start`` is the zxid of the last transaction before the schedule."""
        self._start = start
        self._told = Told()
        self._states: dict[str, tuple[dict[str, Any], int]] = {}  # partition -> state, version
        self._first: dict[str, tuple[int, int]] = {}  # its epochs at the start
        self._assignments: dict[str, dict[str, Any]] = {}
        self._brokers: dict[str, None] = {}
        self._controllers: list[int] = []
        self._controller = -1
        self._epoch = self._first_epoch = 0

    def lines(self, changes: list[ZnodeChange]) -> list[str]:
        """Return the text of a log."""
        told = False
        for change in changes:
            if not told and change.zxid > self._start:
                told = True
                self._begin()
            self._read(change, told)
        if not told:
            self._begin()
        return self._told.lines()

    def _begin(self) -> None:
        self._controllers = [self._controller]
        self._first_epoch = self._epoch
        self._told.say(0, "controller", ": A at the start")
        for broker in self._brokers:
            self._told.say(1, f"broker {broker}", ": registered at the start")
        for name, (state, version) in self._states.items():
            self._first[name] = state["leader_epoch"], version
            self._told.say(4, name, f" at the start: {self._shown(state)}")

    def _read(self, change: ZnodeChange, told: bool) -> None:
        path, data = change.path, change.data
        if path == "/controller_epoch" and data is not None:
            self._epoch = int(data.epoch if hasattr(data, "epoch") else data)
        elif path == "/controller":
            self._on_controller(data, told)
        elif found := BROKER.fullmatch(path):
            if data is None or change.version == 0:  # it is written once more at each start
                self._on_broker(found[1], data, told)
        elif found := STATE.fullmatch(path):
            self._on_state(f"{found[1]}-{found[2]}", change, told)
        elif found := TOPIC.fullmatch(path):
            self._on_topic(found[1], data, told)
        elif (found := CONFIG.fullmatch(path)) and told:
            settings = "gone" if data is None else sorted(data["config"].items())
            shown = settings if data is None else ", ".join(f"{k}={v}" for k, v in settings)
            self._told.say(2, f"config of {found[1][:-1]} {found[2]}", f": {shown or 'empty'}")
        elif (found := DELETION.fullmatch(path)) and told:
            self._told.say(
                3, f"topic {found[1]}", ": to be deleted" if data is not None else ": done"
            )

    def _on_controller(self, data: Any, told: bool) -> None:
        if data is None:
            if told:
                self._told.say(0, "controller", ": none")
            return
        self._controller = data["brokerid"]
        if told:
            if self._controller not in self._controllers:
                self._controllers.append(self._controller)
            name = chr(ord("A") + self._controllers.index(self._controller))
            self._told.say(0, "controller", f": {name}")

    def _on_broker(self, broker: str, data: Any, told: bool) -> None:
        if data is None:
            self._brokers.pop(broker, None)
        else:
            self._brokers[broker] = None
        if told:
            self._told.say(1, f"broker {broker}", ": gone" if data is None else ": registers")

    def _on_state(self, name: str, change: ZnodeChange, told: bool) -> None:
        if change.data is None:
            self._states.pop(name, None)
            if told:
                self._told.say(4, name, ": state removed")
            return
        state = change.data
        self._states[name] = state, change.version
        if told:
            leader, partition = self._first.setdefault(name, (0, 0))
            epochs = f"+{state['leader_epoch'] - leader}/+{change.version - partition}"
            self._told.say(4, name, f" {epochs}: {self._shown(state)}")

    def _on_topic(self, topic: str, data: Any, told: bool) -> None:
        if data is None:
            self._assignments.pop(topic, None)
            if told:
                self._told.say(3, f"topic {topic}", ": removed")
            return
        before = self._assignments.get(topic)
        self._assignments[topic] = data
        if told and before is None:
            self._told.say(3, f"topic {topic}", ": created")
        for number, replicas in data["partitions"].items():
            own = _assignment(data, number)
            if told and (before is None or own != _assignment(before, number)):
                adding, removing = own[1:]
                shown = f" assigned: replicas {_list(replicas)}"
                shown += f"; adding {_list(adding)}" if adding else ""
                shown += f"; removing {_list(removing)}" if removing else ""
                self._told.say(4, f"{topic}-{number}", shown)

    def _shown(self, state: dict[str, Any]) -> str:
        leader = "none" if state["leader"] < 0 else state["leader"]
        epoch = state["controller_epoch"] - self._first_epoch
        shown = f"leader {leader}; isr {_list(state['isr'])}; controller {epoch:+d}"
        return shown + ("; recovering" if state.get("leader_recovery_state") else "")


def _assignment(data: dict[str, Any], number: str) -> tuple[list[int], list[int], list[int]]:
    return (
        data["partitions"].get(number, []),
        data.get("adding_replicas", {}).get(number, []),
        data.get("removing_replicas", {}).get(number, []),
    )


def _list(brokers: list[int]) -> str:
    return ",".join(map(str, brokers)) or "empty"
