"""What Kafka's own server-side assignors answer to generated groups (java/ServerAssignments.java).

A case is a group, its topics, and what its members were assigned before. The assignments before are
those of the model of 4.0, from a chain of changes: members come and go, subscribe otherwise, and
topics grow. So stickiness is asked of states that a group can be in.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from kafkasim.model.group.modern.assignors.spec import GroupSpec, MemberSpec, SubscriptionType
from kafkasim.model.group.modern.assignors.uniform import ASSIGNORS
from kafkasim.model.group.modern.state.assignment import Assignment, partitions_of
from kafkasim.model.group.rules import GroupRules
from kafkasim.scenarios.variants.releases import RULES
from tests.fidelity.real_kafka import jars, run_java

HERE = Path(__file__).parent
VERSIONS = ("4.0.0", "4.1.0")
"""Kafka's versions whose answers are committed."""

CHAINS, STEPS = 150, 8


def cases() -> Iterator[tuple[str, GroupSpec]]:
    """Yield (assignor, group) of every case."""
    for seed in range(CHAINS):
        rng = random.Random(seed)
        yield from _chain(rng, rng.choice(("uniform", "uniform", "range")))


def question(assignor: str, spec: GroupSpec) -> str:
    """Return a case as a line."""
    topics = ",".join(f"{topic} {number}" for topic, number in spec.partitions.items())
    members = ";".join(
        f"{member_id}/{member.instance_id or '-'}/{' '.join(member.topic_ids) or '-'}/"
        f"{_names(member.assignment) or '-'}"
        for member_id, member in spec.members.items()
    )
    return f"{assignor}|{spec.subscription_type.name}|{topics}|{members}"


def answer(assignor: str, spec: GroupSpec, version: str) -> str:
    """Return what the model of a version answers, as a line."""
    rules = RULES.get(version[:3], {}).get("group", GroupRules)()
    given = rules.assignor(assignor)(spec)
    return ";".join(f"{member_id}={_names(given.get(member_id, {}))}" for member_id in spec.members)


def ask(version: str) -> list[str]:
    """Return what a version of Kafka answers to all cases."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.writelines([question(*case) + "\n" for case in cases()])
        file.flush()
        return run_java(jars(version), HERE / "java" / "ServerAssignments.java", file.name)


def committed(version: str) -> list[str]:
    """Return the answers that a version of Kafka gave."""
    return (HERE / "server_assignments" / f"{version}.txt").read_text().splitlines()


def _names(assignment: Assignment) -> str:
    return " ".join(f"{topic}-{number}" for topic, number in partitions_of(assignment))


def _chain(rng: random.Random, assignor: str) -> Iterator[tuple[str, GroupSpec]]:
    """Yield a group that changes step by step; each step starts from what the model assigned."""
    same = rng.random() < 0.5
    partitions = {f"t{i}": rng.randint(1, 9) for i in range(rng.randint(1, 5))}
    members: dict[str, MemberSpec] = {}
    for number in range(rng.randint(1, 7)):
        members[f"m{number}"] = _new_member(rng, partitions, same, number)
    for step in range(STEPS):
        topics = {member.topic_ids for member in members.values()}
        kind = SubscriptionType.HOMOGENEOUS if len(topics) == 1 else SubscriptionType.HETEROGENEOUS
        spec = GroupSpec(dict(sorted(members.items())), kind, dict(partitions))
        yield assignor, spec
        given = ASSIGNORS[assignor](spec)
        members = {
            key: replace(member, assignment=given.get(key, {})) for key, member in members.items()
        }
        _change(rng, members, partitions, same, 10 + step)


def _change(
    rng: random.Random,
    members: dict[str, MemberSpec],
    partitions: dict[str, int],
    same: bool,
    number: int,
) -> None:
    change = rng.choice(("joins", "leaves", "grows", "subscribes"))
    if change == "leaves" and len(members) > 1:
        del members[rng.choice(sorted(members))]
    elif change == "grows":
        topic = rng.choice(sorted(partitions))
        partitions[topic] += rng.randint(1, 3)
    elif change == "subscribes":
        topics = _some(rng, partitions)
        chosen = sorted(members) if same else [rng.choice(sorted(members))]
        for key in chosen:
            members[key] = replace(members[key], topic_ids=topics)
    else:
        members[f"m{number}"] = _new_member(rng, partitions, same, number)
        if same:
            topics = next(iter(members.values())).topic_ids
            members[f"m{number}"] = replace(members[f"m{number}"], topic_ids=topics)


def _new_member(
    rng: random.Random, partitions: dict[str, int], same: bool, number: int
) -> MemberSpec:
    instance = f"i{99 - number}" if rng.random() < 0.3 else None
    topics = tuple(sorted(partitions)) if same else _some(rng, partitions)
    return MemberSpec(instance, topics, {})


def _some(rng: random.Random, partitions: dict[str, int]) -> tuple[str, ...]:
    return tuple(sorted(rng.sample(sorted(partitions), rng.randint(1, len(partitions)))))
