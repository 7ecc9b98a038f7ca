"""Node ids of controllers, and the hosts they run on."""

from __future__ import annotations

FIRST_CONTROLLER_ID = 3001


def controller_id(number: int, combined: int) -> int:
    """Return the node id of the ``number``-th controller; in combined mode it is the broker's."""
    return number if number <= combined else FIRST_CONTROLLER_ID + number - 1


def controller_hosts(count: int, combined: int) -> dict[int, str]:
    """Return the node ids of ``count`` controllers, voters first, and the hosts they run on."""
    return {
        controller_id(number, combined): f"{'broker' if number <= combined else 'controller'}-{number}"
        for number in range(1, count + 1)
    }  # fmt: skip
