"""Check which messages a fault selects or waits for: by API, fields, purpose of a connection."""

from __future__ import annotations

from kafkasim.model import messages
from kafkasim.model.messages import share
from kafkasim.scenarios.language.checks.allowed import some
from kafkasim.scenarios.language.tables import FaultTable, WhenTable

PURPOSES = (
    "produce", "fetch", "coordinator", "admin", "replica-fetch", "heartbeat", "alter-partition",
    "forwarding", "directory-assignments", "producer-ids", "add-partitions-to-txn",
    "txn-marker-sender", "controlled-shutdown", "controller", "raft-fetch", "raft-vote",
    "persister-state-manager", "zookeeper", "zookeeper-learner",
)  # fmt: skip
"""What connections are for."""

FETCHES = ("FetchFollower", "FetchConsumer")
"""Requests to fetch by who asks. Their answers do not tell."""


def _classes(suffix: str) -> dict[str, type[messages.Message]]:
    """Return the class of each API's requests or responses."""
    known = {**vars(messages), **vars(share)}
    return {
        messages.api_of(name): each
        for name, each in known.items()
        if name.endswith(suffix) and issubclass(each, messages.Message)
    }


REQUESTS, RESPONSES = _classes("Request"), _classes("Response")


def api_names() -> list[str]:
    """Return the names of all APIs whose messages a fault may select, sorted."""
    return sorted([*REQUESTS, *FETCHES, "ZkWatchEvent"])


def check_awaited(place: str, when: WhenTable) -> None:
    """Check the message that a condition waits for, if it waits for one.

    Raises:
        ValueError: there is no such API, or its messages have no such field.
    """
    for direction, api, classes in (
        ("request", when.request, REQUESTS), ("response", when.response, RESPONSES),
    ):  # fmt: skip
        if not api:
            continue
        message = classes.get(api)
        if message is None:
            near = [name for name in classes if name[:3].lower() == api[:3].lower()]
            allowed = some(sorted(near or classes))
            raise ValueError(f"{place}.{direction}: no API {api!r}; allowed: {allowed}")
        fields = message.__dataclass_fields__  # type: ignore[attr-defined]
        bounded = (*when.at_least, *when.at_most)
        for name in (*when.fields, *bounded):
            if name not in fields:
                known = ", ".join(fields) or "no field"
                raise ValueError(
                    f"{place}.{name}: the fields of a {direction} of {api} are: {known}"
                )
            if name in bounded and not _is_counted(fields[name].type):
                raise ValueError(f"{place}.{name}: only numbers and lists can be bounded")


def _is_counted(declared: str) -> bool:
    """Return whether a field is always a number or a list."""
    return declared == "int" or (declared.startswith("tuple[") and declared.endswith("]"))


def check_selection(place: str, fault: FaultTable) -> None:
    """Check the names that a fault on messages gives.

    Raises:
        ValueError: there is no such API or purpose, or an answer of a kind that is none.
    """
    for key, purposes in (("purpose", [fault.purpose]), ("purposes", fault.purposes)):
        for purpose in purposes:
            if purpose is not None and purpose not in PURPOSES:
                raise ValueError(
                    f"{place}.{key}: no purpose {purpose!r}; allowed: {', '.join(PURPOSES)}"
                )
    if fault.api is None:
        return
    names = api_names()
    if fault.api not in names:
        near = [name for name in names if name[:3].lower() == fault.api[:3].lower()]
        raise ValueError(f"{place}.api: no API {fault.api!r}; allowed: {some(near or names)}")
    if fault.api in FETCHES and fault.direction == "response":
        raise ValueError(
            f"{place}.api: {fault.api} is a request; responses do not tell who asked;"
            " allowed for responses: Fetch"
        )
