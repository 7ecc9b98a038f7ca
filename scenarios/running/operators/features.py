"""How an operator sets the levels of features (kafka-features.sh upgrade and downgrade)."""

from __future__ import annotations

from kafkasim.model.errors import Errors
from kafkasim.model.messages.clients.admin import SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, UPGRADE
from kafkasim.scenarios.language.tables import OperationTable
from kafkasim.sim.apps.client_port import ClientPort

UPGRADE_TYPES = {None: UPGRADE, "safe": SAFE_DOWNGRADE, "unsafe": UNSAFE_DOWNGRADE}
"""What ``downgrade`` asks for; None: an upgrade."""


async def update_features(
    port: ClientPort, operation: OperationTable
) -> list[tuple[str, Errors, str]]:
    """Set the levels of ``features``, all of them or none; return one answer for all."""
    levels = tuple(sorted(operation.features.items()))
    kind = UPGRADE_TYPES[operation.downgrade]
    answer = await port.call("admin.update_features", levels, kind)
    told = ", ".join([f"{name} = {level}" for name, level in levels])
    return [("features", answer.error, answer.message or told)]
