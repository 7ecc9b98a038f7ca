"""Check which messages a fault selects: by the name of an API, or by what a connection is for."""

from __future__ import annotations

from kafkasim.model import messages
from kafkasim.model.messages import share
from kafkasim.scenarios.language.checks.allowed import some
from kafkasim.scenarios.language.tables import FaultTable

PURPOSES = (
    "produce", "fetch", "coordinator", "admin", "replica-fetch", "heartbeat", "alter-partition",
    "forwarding", "directory-assignments", "producer-ids", "add-partitions-to-txn",
    "txn-marker-sender", "controlled-shutdown", "controller", "raft-fetch", "raft-vote",
    "persister-state-manager", "zookeeper", "zookeeper-learner",
)  # fmt: skip
"""What connections are for."""

FETCHES = ("FetchFollower", "FetchConsumer")
"""Requests to fetch by who asks. Their answers do not tell."""


def api_names() -> list[str]:
    """Return the names of all APIs whose messages a fault may select, sorted."""
    known = {**vars(messages), **vars(share)}
    requests = [
        name
        for name, each in known.items()
        if name.endswith("Request") and issubclass(each, messages.Message)
    ]
    return sorted([*map(messages.api_of, requests), *FETCHES, "ZkWatchEvent"])


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
            f"{place}.api: {fault.api} is a request, its answers do not tell who asked;"
            " allowed for responses: Fetch"
        )
