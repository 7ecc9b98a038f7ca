"""How the members of groups live: static ones, late ones, slow ones, two of one instance id."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasim.scenarios.searching.clients.cast import Cast
from kafkasim.scenarios.searching.draw_workload import permit_unreleased
from kafkasim.scenarios.searching.shapes.focus import ms

Change = Callable[[Cast], None]


def static_members(cast: Cast) -> None:
    """The members of a group are static (KIP-345); no chain alone has them."""
    group = _group(cast)
    if group is None or group.get("count", 1) == 1 or "group.instance.id" in group["config"]:
        return
    workload: list[dict[str, Any]] = cast.data["workload"]
    at = workload.index(group)
    members = []
    for number in range(group["count"]):
        config = {**group["config"], "group.instance.id": f"{group['group']}-{number + 1}"}
        members.append({**group, "count": 1, "config": config})
    workload[at : at + 1] = members
    if group["config"].get("group.protocol") == "consumer":
        permit_unreleased(cast.data, [group["group"]])


def late_member(cast: Cast) -> None:
    """A member starts later than the others, which rebalances the group while it reads."""
    group = _group(cast)
    if group is None:
        return
    config = dict(group["config"])
    instance = config.pop("group.instance.id", None)
    if instance is not None:
        config["group.instance.id"] = f"{instance}-late-{len(cast.data['workload'])}"
    start = ms(cast.rng.randrange(500, 5000))
    cast.data["workload"].append({**group, "count": 1, "config": config, "start": start})


def flapping_member(cast: Cast) -> None:
    """A member starts late, is gone again before the group has settled, and comes back.

    What the group agreed on is out of date before its members have done it, also because one of
    them is away from poll() meanwhile.
    """
    group = _group(cast)
    if group is None:
        return
    rng = cast.rng
    at = rng.randrange(500, 3000)
    if "stuck-at" not in group and rng.random() < 0.5:
        group["stuck-at"], group["stuck-for"] = ms(at - 100), ms(max(300.0, cast.away()))
    config = dict(group["config"])
    instance = config.pop("group.instance.id", None)
    if instance is not None:
        config["group.instance.id"] = f"{instance}-flaps-{len(cast.data['workload'])}"
    member = {**group, "count": 1, "config": config, "start": ms(at)}
    member.pop("stuck-at", None)
    cast.data["workload"].append(member)
    (node,) = cast.hosts(member)
    operations = cast.data.setdefault("operations", [])
    for _ in range(rng.choice((1, 1, 2))):
        for kind in ("stop", "start"):
            at += 100 + int(cast.near())
            how = {"kill": True} if kind == "stop" and rng.random() < 0.3 else {}
            operations.append({"kind": kind, "node": node, "at": ms(at), **how})


def late_group(cast: Cast) -> None:
    """Another group starts late, and reads what was rolled, cleaned or aborted before."""
    group = _group(cast)
    if group is None:
        return
    config = {**group["config"], "auto.offset.reset": "earliest"}
    config.pop("group.instance.id", None)
    start = ms(cast.rng.randrange(2000, 8000))
    late = {**group, "group": "late", "count": 1, "config": config, "start": start}
    cast.data["workload"].append(late)


def second_process(cast: Cast) -> None:
    """Two processes are started with one group.instance.id: an operator's mistake.

    The second fences the first, which ends its application, and the judges know that
    (judging/failures.py). No topic grows meanwhile: what
    a static leader's former process has not found, its successor does not look for, and before 3.2
    it looks for nothing (analysis/judging/holes.py: static-member-returned).
    """
    group = _group(cast)
    if group is None or group["config"].get("group.protocol") == "consumer":
        return
    operations = cast.data.get("operations", ())
    if any(each["kind"] == "create-partitions" for each in operations):
        return
    config = {**group["config"], "group.instance.id": f"{group['group']}-twin"}
    for at in (1, cast.rng.choice((1, 500, cast.rng.randrange(1, 6000)))):
        twin = {**group, "count": 1, "config": dict(config), "start": ms(at)}
        cast.data["workload"].append(twin)


def stuck_member(cast: Cast) -> None:
    """A member stays away from poll() once, for a part or a multiple of its timeouts."""
    group = _group(cast)
    if group is None:
        return
    rng = cast.rng
    group["stuck-at"] = ms(rng.randrange(300, 5000))
    group["stuck-for"] = ms(max(300.0, cast.away()))
    if rng.random() < 0.5:
        group["config"]["max.poll.interval.ms"] = rng.choice((1000, 3000, 10_000))
        if group["config"].get("session.timeout.ms", 0) > group["config"]["max.poll.interval.ms"]:
            group["config"]["max.poll.interval.ms"] = 10_000


def _group(cast: Cast) -> dict[str, Any] | None:
    """Draw a group that nothing else in the scenario changes, if there is one."""
    deployed = [each.get("group") for each in cast.data.get("operations", ())]
    fit = [
        each
        for each in cast.groups
        if each["kind"] == "consumer-group" and each["group"] not in deployed
    ]
    return cast.rng.choice(fit) if fit else None


MEMBERS: tuple[tuple[Change, float], ...] = (
    (static_members, 0.15),
    (late_member, 0.2),
    (flapping_member, 0.12),
    (late_group, 0.1),
    (second_process, 0.04),
    (stuck_member, 0.12),
)
"""Each way of life with the share of seeds that have it."""
