"""Faults of single requests: the next N requests of an API get an error, or a late or no response.

An *answer* is such a rule. It says less than a fault of ``[[faults]]``, which breaks a host or a
link, and whose errors follow from Kafka's own rules: it is for the test that wants one error, once.

    {"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "count": 3}
    {"api": "Fetch", "delay": "2s", "client": "billing", "node": "broker-1", "topic": "orders"}
    {"api": "OffsetCommit", "lose": true}

With ``error`` the broker never sees the request. In all other cases the broker serves it: with
``delay`` the response leaves so much later, with ``lose`` it never does and the connection is
silent from then on, with ``reset`` the connection is reset instead. Requests of a client that are
behind it on the same connection wait, as brokers answer in order.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from kafkasim.model.errors import Errors
from kafkasim.scenarios.language.units import Duration
from kafkasim.scenarios.wire.adapters.base import Call
from kafkasim.scenarios.wire.adapters.table import ADAPTERS
from kafkasim.scenarios.wire.compiling import NULL_UUID, within
from kafkasim.scenarios.wire.failures import SessionError
from kafkasim.scenarios.wire.schemas import Schemas

COUNT_MAX = 1_000_000
ANSWERS_MAX = 1000
"""How many answers may wait for their requests at a time."""


class AnswerTable(BaseModel):
    """An answer as people write it; exactly one of ``error``, ``delay``, ``lose``, ``reset``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    api: str
    error: str | None = None
    delay: Duration | None = None
    lose: bool = False
    reset: bool = False
    count: int = Field(1, ge=1, le=COUNT_MAX)
    client: str | None = None  # a client id
    node: str | None = None  # a broker
    topic: str | None = None  # a topic that the request names

    @model_validator(mode="after")
    def _one_action(self) -> AnswerTable:
        said = [self.error is not None, self.delay is not None, self.lose, self.reset]
        if said.count(True) != 1:
            raise ValueError("give one of error, delay, lose, reset")
        return self


class Answer:
    """An answer that waits for its requests; ``left`` is how many it still takes."""

    __slots__ = ("error", "key", "left", "table")

    def __init__(self, table: AnswerTable, key: int, error: Errors | None) -> None:
        self.table, self.key, self.error = table, key, error
        self.left = table.count

    def __str__(self) -> str:
        table = self.table
        what = table.error or ("lose" if table.lose else "reset" if table.reset else "delay")
        return f"{table.api}: {what}, {self.left} left"


class Answers:
    """The answers of a session, oldest first."""

    def __init__(self, schemas: Schemas, nodes: tuple[str, ...]) -> None:
        self.waiting: list[Answer] = []
        self._schemas, self._nodes = schemas, nodes

    def add(self, data: Mapping[str, Any]) -> Answer:
        """Take an answer.

        Raises:
            SessionError: it is wrong; the message is one line.
        """
        try:
            table = AnswerTable.model_validate(dict(data))
        except ValidationError as problem:
            first = problem.errors()[0]
            place = ".".join(str(each) for each in first["loc"]) or "answer"
            raise SessionError(f"{place}: {first['msg'].removeprefix('Value error, ')}") from None
        key = self._schemas.keys.get(table.api, -1)
        if key not in ADAPTERS:
            served = [name for name, each in self._schemas.keys.items() if each in ADAPTERS]
            raise SessionError(f"api: no API {table.api!r} is served{_like(table.api, served)}")
        if table.node is not None and table.node not in self._nodes:
            raise SessionError(f"node: no broker {table.node!r}; there are {list(self._nodes)}")
        error = None
        if table.error is not None:
            error = Errors.__members__.get(table.error)
            if error is None or error is Errors.NONE:
                known = [name for name in Errors.__members__ if name != "NONE"]
                raise SessionError(f"error: no error {table.error!r}{_like(table.error, known)}")
        if len(self.waiting) >= ANSWERS_MAX:
            raise SessionError(f"more than {ANSWERS_MAX} answers wait for requests")
        answer = Answer(table, key, error)
        self.waiting.append(answer)
        return answer

    def clear(self) -> None:
        """Forget all answers."""
        self.waiting.clear()

    def take(self, key: int, node: str, call: Call) -> Answer | None:
        """Return the oldest answer for a request to the broker of a node, which counts it."""
        for answer in self.waiting:
            table = answer.table
            if answer.key != key or table.client not in (None, call.client_id):
                continue
            if table.node not in (None, node):
                continue
            if table.topic is not None:
                topic_id = call.topic_id(table.topic)
                known = () if topic_id == NULL_UUID else (topic_id,)
                if not _names(call.body, (table.topic, *known)):
                    continue
            answer.left -= 1
            if not answer.left:
                self.waiting.remove(answer)
            return answer
        return None

    def error_body(
        self, key: int, version: int, body: Mapping[str, Any], error: Errors
    ) -> dict[str, Any]:
        """Return the response with an error, as AbstractRequest.getErrorResponse makes it.

        The error stands once where the response has room for one, else in each row: the rows are
        those of the request. Fetch has both, and clients look at its partitions.
        """
        api = self._schemas.apis[key]
        response = api["response"]
        row_wise = api["name"] in ("Fetch", "ShareFetch", "ShareAcknowledge")
        return _mirrored(response["fields"], response["structs"], version, body, error, row_wise)


_ERRORS = ("ErrorCode", "PartitionErrorCode")
_SAME = (
    ("Index", "PartitionIndex", "Partition", "PartitionId"),
    ("Name", "Topic", "TopicName", "Key", "GroupId"),
)
"""Names that a partition, and a thing with a name, have in requests and in responses."""

_NONE = {"BaseOffset": -1, "HighWatermark": -1}
"""What Kafka's error responses have where a field's default is another value."""


def _mirrored(
    fields: list[dict[str, Any]], structs: Mapping[str, Any], version: int, asked: Any,
    error: Errors, row_wise: bool,
) -> dict[str, Any]:  # fmt: skip
    """Return a struct of a response, with the error or with the rows that have it."""
    known = [each for each in fields if within(version, each["versions"])]
    has_error = any(each["name"] in _ERRORS for each in known) and not row_wise
    found: dict[str, Any] = {}
    for each in known:
        name, kind = each["name"], each["type"]
        inner = each.get("fields") or structs.get(kind.removeprefix("[]"))
        if name in _ERRORS:
            found[name] = error if has_error else Errors.NONE
        elif kind.startswith("[]") and inner is not None:
            rows = [] if has_error or "tag" in each else _rows(asked, name)
            found[name] = [_mirrored(inner, structs, version, row, error, False) for row in rows]
        elif name in _NONE:
            found[name] = _NONE[name]
        else:
            echoed = _echoed(asked, name)
            if echoed is not None:
                found[name] = echoed
    return found


def _rows(asked: Any, name: str) -> list[Any]:
    """Return the rows of a request that the rows of its response mirror."""
    if not isinstance(asked, Mapping):
        return []
    given = asked.get(name)
    if isinstance(given, list):
        return given
    return next((each for each in asked.values() if isinstance(each, list) and each), [])


def _echoed(asked: Any, name: str) -> Any:
    """Return the value of a field that a response has from its request, None if there is none."""
    same = next((each for each in _SAME if name in each), (name,))
    if not isinstance(asked, Mapping):  # a list of keys, or of numbers
        wanted = int if "Index" in same else str
        return asked if len(same) > 1 and isinstance(asked, wanted) else None
    return next((asked[each] for each in same if each in asked), None)


def _names(body: Any, names: tuple[str, ...]) -> bool:
    """Return whether a request names a topic anywhere, by its name or by its id."""
    if isinstance(body, Mapping):
        return any(_names(each, names) for each in body.values())
    if isinstance(body, list):
        return any(_names(each, names) for each in body)
    return body in names


def _like(given: str, known: list[str]) -> str:
    near = difflib.get_close_matches(given, known, 1)
    return (
        f"; did you mean {near[0]}?" if near else f"; there are {', '.join(sorted(known)[:8])}, …"
    )
