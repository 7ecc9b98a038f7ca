"""Two named checks of the stateful test of migration: its oracle bites, and how long it waits."""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.stateful.test_consumer_group_stateful import GrantsAtOnce
from tests.stateful.test_group_migration_stateful import CooperativeMigration, Migration


def test_tries_to_upgrade_prolong_a_first_join_phase_by_rebalance_timeouts() -> None:
    """Found by CooperativeMigration: the group is not stable 140 s after the last change.

    The timer of the join phase ends where a failed upgrade has just answered the only join with
    REBALANCE_IN_PROGRESS, so completeClassicGroupJoin waits for another rebalance timeout of 60 s.
    """
    state = CooperativeMigration()
    state.every_step()
    state.every_step()
    state.roll(modern=True, pattern=None)
    state.settle(rounds=2)
    state.roll(modern=False, pattern=None)
    state.roll(modern=True, pattern="orders")
    state.settle(rounds=6)
    state.settle(rounds=5)
    state.every_step()
    state.restart(c=1, leaves=False, modern=False, pattern="orders", static=False)
    state.step(c=2, steps=3)
    state.every_step()
    assert state.in_first_join()
    state.teardown()


def test_the_oracle_sees_a_partition_that_is_given_away_too_early() -> None:
    class Early(Migration):
        group_rules = GrantsAtOnce

    with pytest.raises(AssertionError, match="TopicPartition"):
        run_state_machine_as_test(
            Early,
            settings=settings(
                max_examples=200, phases=[Phase.generate], report_multiple_bugs=False
            ),
        )
