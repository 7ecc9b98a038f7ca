"""What both kinds of controllers and all brokers know of quotas of clients (KIP-546).

Left out: quotas of IP addresses, request_percentage and controller_mutation_rate, which are
refused as unknown.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkasim.model.errors import Errors
from kafkasim.model.messages import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from kafkasim.model.messages.clients.admin import (
    CLIENT_ID,
    DEFAULT_NAME,
    MATCH_DEFAULT,
    MATCH_EXACT,
    MATCH_SPECIFIED,
    USER,
    QuotaEntity,
)

QUOTA_KEYS = ("producer_byte_rate", "consumer_byte_rate")
"""The quotas that are modelled."""


def entity_problem(entity: QuotaEntity) -> str:
    """Return why no quota can be set on an entity, "" if one can (INVALID_REQUEST)."""
    if not entity:
        return "Invalid empty client quota entity"
    for kind, name in entity:
        if kind not in (USER, CLIENT_ID):
            return f"Unhandled client quota entity type: {kind}"
        if name == "":
            return f"Empty {kind} not supported"
    return ""


def entity_text(entity: QuotaEntity) -> str:
    """Return an entity's name in facts: ``client-id:a``, ``client-id:<default>,user:b``."""
    return ",".join([f"{kind}:{DEFAULT_NAME if name is None else name}" for kind, name in entity])


def filter_problem(request: DescribeClientQuotasRequest, malformed: Errors) -> Errors:
    """Return the error of a filter; ``malformed`` is that of a match that makes no sense."""
    kinds: list[str] = []
    for kind, match, name in request.components:
        if not kind or kind in kinds:
            return Errors.INVALID_REQUEST
        if kind not in (USER, CLIENT_ID):
            return Errors.UNSUPPORTED_VERSION
        if match not in (MATCH_EXACT, MATCH_DEFAULT, MATCH_SPECIFIED):
            return malformed
        if (match == MATCH_EXACT) != (name is not None):
            return malformed
        kinds.append(kind)
    return Errors.NONE


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
