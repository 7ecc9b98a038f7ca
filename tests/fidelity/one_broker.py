"""A real cluster of one broker, which nobody else connects to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.fidelity.real_kafka import CONTROLLER, RealCluster, free_ports

ALONE = {
    "offsets.topic.replication.factor": "1",
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
}
"""The settings of a broker that is the only one."""

SECOND = "listener.name.second."
"""With a setting of this prefix a real broker has a second listener, which is not for brokers."""


class OneBroker(RealCluster):
    """One broker and its controller, to which nobody else connects; the settings are the broker's.

    Limits on connections would keep it away from the controller.
    """

    def __init__(self, version: str, directory: Path, settings: Mapping[str, str]) -> None:
        super().__init__(version, directory, {**ALONE, **settings}, brokers=(1,))
        (self.second_port,) = free_ports(1)

    def _settings_of(self, node: int) -> dict[str, str]:
        if node == CONTROLLER:
            return {}
        own = super()._settings_of(node)
        if any(key.startswith(SECOND) for key in own):
            ports = {"PLAINTEXT": self.ports[node], "SECOND": self.second_port}
            names = ("CONTROLLER", *ports)
            own["listeners"] = ",".join(f"{name}://127.0.0.1:{at}" for name, at in ports.items())
            own["listener.security.protocol.map"] = ",".join(f"{n}:PLAINTEXT" for n in names)
        return own
