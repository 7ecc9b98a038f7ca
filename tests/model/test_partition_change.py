"""PartitionChangeBuilder (KAFKA.md, 1.8; recovery state: KIP-704; ELR: KIP-966)."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from kafkasim.model.controller.common.image import PartitionRegistration
from kafkasim.model.controller.common.records import PartitionChangeRecord
from kafkasim.model.controller.kraft.partition_change import Election, PartitionChangeBuilder
from kafkasim.model.controller.kraft.rules import ControllerRules


def partition(**fields: Any) -> PartitionRegistration:
    replicas = fields.get("replicas", (1, 2, 3))
    return PartitionRegistration(
        replicas,
        fields.get("isr", replicas),
        (),
        (),
        fields.get("leader", 1),
        5,
        7,
        fields.get("recovery", 0),
        fields.get("elr", ()),
        fields.get("last_known_elr", ()),
    )


def build(
    before: PartitionRegistration,
    active: tuple[int, ...],
    rules: ControllerRules | None = None,
    **targets: Any,
) -> PartitionChangeRecord | None:
    builder = PartitionChangeBuilder(
        before,
        lambda broker: broker in active,
        rules or ControllerRules(),
        min_isr=targets.pop("min_isr", 2),
        metadata_version=targets.pop("metadata_version", 25),
        elr_enabled=targets.pop("elr_enabled", False),
        unclean_enabled=targets.pop("unclean_enabled", False),
    )
    for name, target in targets.items():
        setattr(builder, name, target)
    return builder.build("t", 0, "fenced")


def change(**fields: Any) -> PartitionChangeRecord:
    return PartitionChangeRecord("t", 0, **{"reason": "fenced", **fields})


def test_a_valid_leader_stays() -> None:
    assert build(partition(), (1, 2, 3)) is None


def test_the_first_valid_replica_in_assignment_order_is_elected() -> None:
    before = partition(replicas=(1, 3, 2), isr=(1, 2, 3))
    assert build(before, (2, 3), target_isr=(2, 3)) == change(isr=(2, 3), leader=3)


def test_without_elr_the_last_member_stays() -> None:
    assert build(partition(isr=(1,)), (2, 3), target_isr=()) == change(leader=-1)


def test_an_unclean_leader_stands_alone_and_recovers() -> None:  # KIP-704
    expected = change(isr=(2,), leader=2, leader_recovery_state=1, reason="unclean", unclean=True)
    assert build(partition(isr=(1,)), (2, 3), target_isr=(), unclean_enabled=True) == expected


def test_a_valid_replica_is_preferred_to_an_unclean_one() -> None:
    before = partition(isr=(1, 3))
    record = build(before, (2, 3), target_isr=(3,), unclean_enabled=True)
    assert record == change(isr=(3,), leader=3)


def test_preferred_takes_the_first_replica_else_stays() -> None:
    before = partition(leader=2)
    election = Election.PREFERRED
    assert build(before, (1, 2, 3), election=election) == change(leader=1)
    assert build(before, (2, 3), election=election) is None
    assert build(before, (3,), election=election) == change(leader=3)


def test_a_shrink_does_not_raise_the_leader_epoch() -> None:  # KAFKA-15021
    record = build(partition(), (1, 2), target_isr=(1, 2))
    assert record == change(isr=(1, 2))
    assert record is not None
    after = partition().merge(record)
    assert (after.leader_epoch, after.partition_epoch) == (5, 8)


@pytest.mark.parametrize("metadata_version", [11, 12])  # 3.5-IV2, 3.6-IV0
def test_a_shrink_raises_it_before_metadata_version_3_6(metadata_version: int) -> None:
    record = build(partition(), (1, 2), target_isr=(1, 2), metadata_version=metadata_version)
    raises = {"leader": 1} if metadata_version < 12 else {}
    assert record == change(isr=(1, 2), **raises)


def test_a_partition_that_keeps_its_last_member_is_not_changed_twice() -> None:
    before = partition(isr=(1,), leader=-1)
    assert build(before, (), target_isr=(), metadata_version=11) is None


def test_recovered_is_stored() -> None:
    before = partition(isr=(1,), recovery=1)
    record = build(before, (1, 2), target_isr=(1, 2), target_recovery_state=0)
    assert record == change(isr=(1, 2), leader_recovery_state=0)


# Eligible leader replicas.


def test_who_leaves_below_min_isr_becomes_eligible() -> None:
    record = build(partition(isr=(1, 2)), (1,), target_isr=(1,), elr_enabled=True)
    assert record == change(isr=(1,), elr=(2,))


def test_the_isr_may_be_empty_and_the_last_leader_is_remembered() -> None:
    before = partition(isr=(1,), elr=(2,))
    record = build(before, (), target_isr=(), elr_enabled=True)
    assert record == change(isr=(), leader=-1, elr=(1, 2), last_known_elr=(1,))


def test_a_leader_that_leaves_an_isr_behind_is_remembered() -> None:  # KAFKA.md, 0.1 f
    before = partition(isr=(1,))  # the log directory of broker 1 is offline
    record = build(before, (), elr_enabled=True, min_isr=1)
    assert record == change(leader=-1, last_known_elr=(1,))


def test_the_leader_is_remembered_when_the_isr_becomes_empty_later() -> None:
    before = partition(isr=(1,), leader=-1, last_known_elr=(1,))
    record = build(before, (), target_isr=(), elr_enabled=True)
    assert record == change(isr=(), elr=(1,))


def test_an_eligible_replica_is_elected_cleanly() -> None:
    before = partition(isr=(), leader=-1, elr=(1, 2), last_known_elr=(1,))
    record = build(before, (2,), elr_enabled=True)
    assert record == change(isr=(2,), leader=2, elr=(1,), last_known_elr=())


def test_enough_isr_clears_the_elr() -> None:
    before = partition(isr=(1,), elr=(2,), last_known_elr=(3,))
    record = build(before, (1, 2), target_isr=(1, 2), elr_enabled=True)
    assert record == change(isr=(1, 2), elr=(), last_known_elr=())


@pytest.mark.parametrize(
    ("active", "then"),
    [((), {"leader": -1}), ((2,), {"isr": (2,), "leader": 2})],
)
def test_where_elr_is_off_again_it_is_used_once_and_forgotten(
    active: tuple[int, ...], then: dict[str, Any]
) -> None:  # maybeUpdateRecordElr follows tryElection
    before = partition(isr=(1,), elr=(2, 3))
    assert build(before, active, target_isr=()) == change(elr=(), **then)


def test_an_unclean_restart_leaves_the_elr() -> None:  # KAFKA-18635
    before = partition(isr=(1,), elr=(2, 3))
    record = build(before, (1,), unclean_shutdown_replicas=(2,), elr_enabled=True)
    assert record == change(elr=(3,))


@pytest.mark.parametrize("alive", [True, False])
def test_the_last_known_leader_is_elected_if_it_is_alive(alive: bool) -> None:  # B31
    before = partition(isr=(), leader=-1, last_known_elr=(3,))
    record = build(before, (3,) if alive else (), elr_enabled=True)
    expected = change(
        isr=(3,),
        leader=3,
        leader_recovery_state=1,
        last_known_elr=(),
        reason="unclean",
        unclean=True,
    )
    assert record == (expected if alive else None)


def test_b31_variant_elects_a_dead_one() -> None:
    class Dead(ControllerRules):
        def may_elect_last_known(self, active: bool) -> bool:
            return True

    before = partition(isr=(), leader=-1, last_known_elr=(3,))
    record = build(before, (), Dead(), elr_enabled=True)
    assert record is not None
    assert (record.leader, record.isr) == (3, (3,))


SETS = [(), (1,), (2,), (1, 2), (2, 3), (1, 2, 3)]


@pytest.mark.parametrize("elr_enabled", [False, True])
@pytest.mark.parametrize("unclean_enabled", [False, True])
def test_the_leader_is_active_and_in_the_isr_whatever_happens(
    elr_enabled: bool, unclean_enabled: bool
) -> None:
    for isr, active, target, election in product(SETS, SETS, SETS, Election):
        if not isr and not elr_enabled:
            continue
        before = partition(isr=isr, leader=isr[0] if isr else -1)
        record = build(
            before,
            active,
            target_isr=target,
            election=election,
            elr_enabled=elr_enabled,
            unclean_enabled=unclean_enabled,
        )
        after = before if record is None else before.merge(record)
        case = (isr, active, target, election, after)
        assert after.leader == -1 or (after.leader in after.isr and after.leader in active), case
        assert after.isr or elr_enabled, case
        if record is not None and record.leader not in (-2, -1) and not record.unclean:
            assert record.leader in target or record.leader in (*isr, *before.elr), case
