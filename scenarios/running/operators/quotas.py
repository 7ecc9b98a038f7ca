"""How an operator sets the quotas of clients (kafka-configs.sh --entity-type clients)."""

from __future__ import annotations

from kafkasim.model.errors import Errors
from kafkasim.scenarios.language.tables import OperationTable
from kafkasim.sim.apps.client_port import ClientPort


async def alter_client_quotas(
    port: ClientPort, operation: OperationTable
) -> list[tuple[str, Errors, str]]:
    """Set the quotas of ``config``, drop those of ``remove``; return (entity, error, message)."""
    rates: dict[str, float | None] = dict.fromkeys(operation.remove)
    rates |= {key: float(str(rate)) for key, rate in operation.config.items()}
    entries = ((operation.client_id, tuple(rates.items())),)
    answer = await port.call("admin.alter_client_quotas", entries)
    return [(f"client-id:{of}", error, message) for of, error, message in answer.results]
