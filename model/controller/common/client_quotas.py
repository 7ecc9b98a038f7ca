"""What both kinds of controllers and all brokers know of quotas of clients (KIP-546).

Left out in ZooKeeper mode: quotas of IP addresses, which are refused as unknown. Every name that
could be one of a host is an address here (isValidIpEntity).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kafkasim.model.errors import Errors
from kafkasim.model.messages import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from kafkasim.model.messages.clients.admin import (
    CLIENT_ID,
    DEFAULT_NAME,
    IP,
    MATCH_DEFAULT,
    MATCH_EXACT,
    MATCH_SPECIFIED,
    USER,
    QuotaEntity,
)

REQUEST_PERCENTAGE = "request_percentage"
"""The quota of time on a broker's threads, in percent of one thread (KIP-124)."""

MUTATION_RATE = "controller_mutation_rate"
"""The quota of partitions that are created or deleted, in partitions a second (KIP-599)."""

FRACTIONS = {
    "producer_byte_rate": False,
    "consumer_byte_rate": False,
    REQUEST_PERCENTAGE: True,
    MUTATION_RATE: True,
}
"""The quotas (QuotaConfig), and whether one need not be a whole number."""

CONNECTION_RATE = "connection_creation_rate"
"""The quota of new connections of an IP address to each broker, a second (KIP-612)."""

_ADDRESS = re.compile(r"[A-Za-z0-9.:-]+")

Quotas = Mapping[QuotaEntity, Mapping[str, float]]

Tags = tuple[str, str]
"""Who shares what is measured: user and client id, "" for all of them."""


def applied(quotas: Quotas, key: str, user: str, client_id: str) -> tuple[Tags, float | None]:
    """Return who shares the quota of a client, and the quota: the most specific one.

    Models DefaultQuotaCallback. A client without a quota, which is None, is measured alone.
    """
    for entity, tags in precedence(user, client_id):
        if key in quotas.get(entity, {}):
            return tags, quotas[entity][key]
    return ("", client_id), None


def limits_ips(quotas: Quotas) -> bool:
    """Return whether an IP address has a quota."""
    return any(is_of_ip(entity) for entity in quotas)


def connection_rate_of(quotas: Quotas, ip: str) -> float | None:
    """Return the quota of an IP address: its own, or the default one (connectionRateForIp)."""
    for entity in (((IP, ip),), ((IP, None),)):
        if CONNECTION_RATE in quotas.get(entity, {}):
            return quotas[entity][CONNECTION_RATE]
    return None


def precedence(user: str, client_id: str) -> tuple[tuple[QuotaEntity, Tags], ...]:
    """Return the entities whose quota may apply to a client, the most specific one first.

    With each stands who shares such a quota.
    """
    both, of_user, of_client = (user, client_id), (user, ""), ("", client_id)
    return (
        (((CLIENT_ID, client_id), (USER, user)), both),
        (((CLIENT_ID, None), (USER, user)), both),
        (((USER, user),), of_user),
        (((CLIENT_ID, client_id), (USER, None)), both),
        (((CLIENT_ID, None), (USER, None)), both),
        (((USER, None),), of_user),
        (((CLIENT_ID, client_id),), of_client),
        (((CLIENT_ID, None),), of_client),
    )


def entity_problem(entity: QuotaEntity, kinds: tuple[str, ...]) -> str:
    """Return why no quota can be set on an entity, "" if one can (INVALID_REQUEST).

    ``kinds`` are the types of entities that there are.
    """
    if not entity:
        return "Invalid empty client quota entity"
    for kind, name in entity:
        if kind not in kinds:
            return f"Unhandled client quota entity type: {kind}"
        if name == "":
            return f"Empty {kind} not supported"
    ip = dict(entity).get(IP)
    if is_of_ip(entity) and len(entity) > 1:
        return (
            "Invalid quota entity combination, IP entity shouldnot be combined with User or"
            " ClientId"
        )
    if ip is not None and not _ADDRESS.fullmatch(ip):
        return f"{ip} is not a valid IP or resolvable host."
    return ""


def is_of_ip(entity: QuotaEntity) -> bool:
    """Return whether an entity is an IP address, or all of them."""
    return any(kind == IP for kind, _ in entity)


def entity_text(entity: QuotaEntity) -> str:
    """Return an entity's name in facts: ``client-id:a``, ``client-id:<default>,user:b``."""
    return ",".join([f"{kind}:{DEFAULT_NAME if name is None else name}" for kind, name in entity])


def rate_text(rate: float) -> str:
    """Return a quota's value in facts."""
    return f"{rate:g}"


def filter_problem(request: DescribeClientQuotasRequest, malformed: Errors) -> Errors:
    """Return the error of a filter; ``malformed`` is that of a match that makes no sense."""
    kinds: list[str] = []
    for kind, match, name in request.components:
        if not kind or kind in kinds:
            return Errors.INVALID_REQUEST
        if kind not in (USER, CLIENT_ID, IP):
            return Errors.UNSUPPORTED_VERSION
        if match not in (MATCH_EXACT, MATCH_DEFAULT, MATCH_SPECIFIED):
            return malformed
        if (match == MATCH_EXACT) != (name is not None):
            return malformed
        kinds.append(kind)
    return Errors.INVALID_REQUEST if IP in kinds and len(kinds) > 1 else Errors.NONE


def described(
    request: DescribeClientQuotasRequest,
    quotas: Mapping[QuotaEntity, Mapping[str, float]],
    malformed: Errors = Errors.INVALID_REQUEST,
) -> DescribeClientQuotasResponse:
    """Return the quotas of the entities that a filter matches (ClientQuotasImage.describe)."""
    error = filter_problem(request, malformed)
    if error is not Errors.NONE:
        return DescribeClientQuotasResponse(error, ())
    found = [
        (entity, tuple(rates.items()))
        for entity, rates in quotas.items()
        if _matches(entity, request)
    ]
    return DescribeClientQuotasResponse(Errors.NONE, tuple(found))


def _matches(entity: QuotaEntity, request: DescribeClientQuotasRequest) -> bool:
    if request.strict and len(entity) != len(request.components):
        return False
    names = dict(entity)
    return all(
        kind in names and (match == MATCH_SPECIFIED or names[kind] == name)
        for kind, match, name in request.components
    )
