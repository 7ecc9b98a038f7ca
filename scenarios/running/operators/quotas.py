"""How an operator sets quotas (kafka-configs.sh, entity types clients, users and ips)."""

from __future__ import annotations

from kafkasim.model.controller.common.client_quotas import entity_text
from kafkasim.model.errors import Errors
from kafkasim.model.messages import ClientQuotaAlteration
from kafkasim.model.messages.clients.admin import (
    CLIENT_ID,
    DEFAULT_NAME,
    IP,
    USER,
    QuotaEntity,
    quota_entity,
)
from kafkasim.scenarios.language.tables import OperationTable
from kafkasim.sim.apps.client_port import ClientPort


async def alter_client_quotas(
    port: ClientPort, operation: OperationTable
) -> list[tuple[str, Errors, str]]:
    """Set the quotas of ``config``, drop those of ``remove``; return (entity, error, message)."""
    rates: dict[str, float | None] = dict.fromkeys(operation.remove)
    rates |= {key: float(str(rate)) for key, rate in operation.config.items()}
    entries = (ClientQuotaAlteration(_entity(operation), tuple(rates.items())),)
    answer = await port.call("admin.alter_client_quotas", entries)
    return [(entity_text(of), error, message) for of, error, message in answer.results]


def _entity(operation: OperationTable) -> QuotaEntity:
    """Return the user, the client id or both, or the IP address; without, the default client id."""
    given = {USER: operation.user, CLIENT_ID: operation.client_id, IP: operation.ip}
    parts = [(kind, name) for kind, name in given.items() if name is not None]
    return quota_entity(
        [(kind, None if name == DEFAULT_NAME else name) for kind, name in parts]
        or [(CLIENT_ID, None)]
    )
