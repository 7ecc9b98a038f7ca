"""Requests of quotas on the wire, their answers as the model's, and as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasim.model import messages as m
from kafkasim.model.controller.common.client_quotas import entity_text
from kafkasim.model.errors import Errors
from kafkasim.model.messages.clients.admin import QuotaEntity, quota_entity

Body = dict[str, Any]

VERSIONS = {"AlterClientQuotas": 1, "DescribeClientQuotas": 1}


def _alter(request: m.AlterClientQuotasRequest) -> Body:
    entries = [
        {
            "Entity": [{"EntityType": kind, "EntityName": name} for kind, name in each.entity],
            "Ops": [
                {"Key": key, "Value": rate or 0.0, "Remove": rate is None}
                for key, rate in each.changes
            ],
        }
        for each in request.entries
    ]
    return {"Entries": entries, "ValidateOnly": False}


def _describe(request: m.DescribeClientQuotasRequest) -> Body:
    components = [
        {"EntityType": kind, "MatchType": match, "Match": name}
        for kind, match, name in request.components
    ]
    return {"Components": components, "Strict": request.strict}


def _entity(body: Body) -> QuotaEntity:
    return quota_entity((each["EntityType"], each["EntityName"]) for each in body["Entity"])


def _altered(_: Any, body: Body) -> m.AlterClientQuotasResponse:
    rows = [(_entity(each), Errors(each["ErrorCode"]), "") for each in body["Entries"]]
    return m.AlterClientQuotasResponse(Errors.NONE, tuple(rows))


def _described(_: Any, body: Body) -> m.DescribeClientQuotasResponse:
    rows = [
        (_entity(each), tuple((quota["Key"], quota["Value"]) for quota in each["Values"]))
        for each in body["Entries"] or ()
    ]
    return m.DescribeClientQuotasResponse(Errors(body["ErrorCode"]), tuple(rows))


REQUESTS: dict[type, tuple[str, Callable[[Any], Body]]] = {
    m.AlterClientQuotasRequest: ("AlterClientQuotas", _alter),
    m.DescribeClientQuotasRequest: ("DescribeClientQuotas", _describe),
}

RESPONSES: dict[type, Callable[[Any, Body], Any]] = {
    m.AlterClientQuotasRequest: _altered,
    m.DescribeClientQuotasRequest: _described,
}

SHOWN: dict[type, Any] = {
    m.AlterClientQuotasResponse: lambda a, _names: sorted(
        f"{entity_text(entity)!r} {e.name}" for entity, e, _ in a.results
    ),
    m.DescribeClientQuotasResponse: lambda a, _names: [
        a.error.name,
        *sorted(
            f"{entity_text(entity)!r} "
            + " ".join(f"{key}={rate:.0f}" for key, rate in sorted(rates))
            for entity, rates in a.entries
        ),
    ],
}
