"""Quotas of clients as znodes (ZkAdminManager.alterClientQuotas, AdminZkClient).

A quota stands below /config/users, /config/clients or /config/users/U/clients, and its change is
announced below /config/changes. The znode of an entity without quotas is deleted, and so are those
above it that held nothing else. A rate of 0 is accepted, unlike in KRaft mode.

In Kafka the entities are read one after the other, and only those that the filter can match.
"""

from __future__ import annotations

from typing import Any

from kafkasim.model.controller.common.client_quotas import (
    FRACTIONS,
    described,
    entity_problem,
    entity_text,
)
from kafkasim.model.controller.common.configs import Problem
from kafkasim.model.controller.zk.events import Steps
from kafkasim.model.controller.zk.store.zk_data import (
    CLIENT_CONFIGS,
    CLIENTS,
    CONFIG_CHANGES,
    QUOTA,
    USER_CONFIGS,
    ConfigChange,
    ConfigEntries,
    quota_entity_at,
    quota_path,
)
from kafkasim.model.errors import Errors
from kafkasim.model.facts import ConfigChanged
from kafkasim.model.messages import DescribeClientQuotasRequest
from kafkasim.model.messages.clients.admin import CLIENT_ID, USER, QuotaEntity
from kafkasim.model.zookeeper.ops import (
    Create,
    Delete,
    GetChildren,
    GetData,
    SetData,
    ZkError,
    ZkResult,
    parent_of,
)

EPSILON = 1e-6
NOTHING = ConfigEntries(())


def rates_in(found: ZkResult) -> dict[str, float]:
    """Return the quotas in a znode that was read, {} if there is none."""
    if found.error is not ZkError.OK:
        return {}
    return {key: float(text) for key, text in found.data.entries}


def read_quotas() -> Steps:
    """Return all quotas, by entity."""
    users, clients = yield (GetChildren(USER_CONFIGS), GetChildren(CLIENT_CONFIGS))
    of_users = [f"{USER_CONFIGS}/{name}" for name in users.children]
    paths = [*of_users, *[f"{CLIENT_CONFIGS}/{name}" for name in clients.children]]
    below = yield tuple([GetChildren(f"{path}/{CLIENTS}") for path in of_users])
    for path, found in zip(of_users, below, strict=True):
        paths += [f"{path}/{CLIENTS}/{name}" for name in found.children]
    results = yield tuple([GetData(path) for path in paths])
    quotas: dict[QuotaEntity, dict[str, float]] = {}
    for path, result in zip(paths, results, strict=True):
        if rates := rates_in(result):
            quotas[quota_entity_at(path)] = rates
    return quotas


def describe(request: DescribeClientQuotasRequest) -> Steps:
    """Return the response; Kafka fails unexpectedly on a match that makes no sense."""
    quotas = yield from read_quotas()
    return described(request, quotas, Errors.UNKNOWN_SERVER_ERROR)


class QuotaWriter:
    """Writes quotas; ``out`` takes the facts."""

    def __init__(self, out: list[Any]) -> None:
        self._out = out

    def alter(self, entity: QuotaEntity, changes: tuple[tuple[str, float | None], ...]) -> Steps:
        """Change the quotas of one entity, all or none; return the error and its message.

        The write is not conditional: of two writers the last one wins.
        """
        message = entity_problem(entity, (USER, CLIENT_ID))
        if message:
            return Errors.INVALID_REQUEST, message
        path = quota_path(entity)
        (found,) = yield (GetData(path),)
        before = dict(found.data.entries) if found.error is ZkError.OK else {}
        entries = dict(before)
        problem = _change(entries, changes)
        if problem[0] is not Errors.NONE:
            return problem
        written = None if entries else (yield from _clean(entity))
        if written is None:
            written = yield from _set_or_create(path, ConfigEntries(tuple(entries.items())))
        for key in {**before, **entries}:
            if entries.get(key) != before.get(key):
                text = entries.get(key)
                self._out.append(ConfigChanged(written.zxid, entity_text(entity), key, text))
        change = ConfigChange(QUOTA, path)
        yield (Create(f"{CONFIG_CHANGES}/config_change_", change, sequential=True),)
        return problem


def _change(entries: dict[str, str], changes: tuple[tuple[str, float | None], ...]) -> Problem:
    """Change the settings of a znode; return the first problem."""
    for key, rate in changes:
        if rate is None:
            entries.pop(key, None)
            continue
        if key not in FRACTIONS:
            return Errors.INVALID_REQUEST, f"Invalid configuration key {key}"
        if FRACTIONS[key]:
            entries[key] = str(rate)
            continue
        whole = int(rate + EPSILON)
        if abs(whole - rate) > EPSILON:
            return Errors.INVALID_REQUEST, f"Configuration {key} must be a LONG value"
        entries[key] = str(whole)
    return Errors.NONE, ""


def _clean(entity: QuotaEntity) -> Steps:
    """Delete the znode of an entity without quotas; return the result, None if it must stay.

    Models tryCleanQuotaNodes: a user's znode stays while it has clients.
    """
    path = quota_path(entity)
    (found,) = yield (GetChildren(path),)
    if found.children:
        return None
    clients, doomed = parent_of(path), [path]
    if clients != CLIENT_CONFIGS and clients != USER_CONFIGS:
        (siblings,) = yield (GetChildren(clients),)
        if siblings.children == (path.removeprefix(f"{clients}/"),):
            doomed.append(clients)
            user = parent_of(clients)
            (data, children) = yield (GetData(user), GetChildren(user))
            if not rates_in(data) and children.children == (CLIENTS,):
                doomed.append(user)
    first: ZkResult | None = None
    for each in doomed:
        (deleted,) = yield (Delete(each),)
        first = deleted if first is None else first
    return first


def _set_or_create(path: str, settings: ConfigEntries) -> Steps:
    """Write a znode, and create it and those above it if they are missing."""
    (written,) = yield (SetData(path, settings),)
    if written.error is ZkError.NONODE:
        written = yield from _create(path, settings)
    return written


def _create(path: str, settings: ConfigEntries) -> Steps:
    (written,) = yield (Create(path, settings),)
    if written.error is ZkError.NONODE:
        yield from _create(parent_of(path), NOTHING)
        (written,) = yield (Create(path, settings),)
    return written
