"""A shop's own tests of its Kafka settings, as somebody outside of kafkasim writes them."""

from pathlib import Path

from hypothesis import given, settings

import kafkasim
from kafkasim import strategies

SHOP = Path(__file__).with_name("shop.toml")
SMALL = {
    "name": "small",
    "claim": "Two brokers keep every order.",
    "duration": "2s",
    "cluster": {"brokers": 2, "controllers": 1},
    "topics": [{"name": "orders", "replication-factor": 2}],
    "workload": [{"kind": "producer", "rate": "20/s"}],
}


def test_no_order_is_lost_when_the_leader_crashes(kafka):
    outcome = kafka.run(SHOP)
    assert outcome.verdict == "pass", kafka.why(outcome)
    assert outcome.facts("Acked").num_rows > 0


def test_acks_one_would_lose_orders(kafka):
    outcome = kafka.run(SHOP, settings={"workload.0.config.acks": "1"})
    assert outcome.anomalies == ["lost-write"]
    assert "acks=1 was answered before the commit" in kafka.why(outcome)


@settings(max_examples=5, deadline=None)
@given(fault=strategies.faults(SMALL, until_ms=1500))
def test_any_fault_within_the_budget_costs_no_order(fault):
    outcome = kafkasim.run({**SMALL, "faults": [fault]})
    assert outcome.verdict != "fail", outcome.explain()


def test_the_seed_is_that_of_the_command_line(kafka, request):
    assert kafka.run(SMALL).result.seed == request.config.getoption("--kafkasim-seed")


BILLING = Path(__file__).with_name("billing.py")
CRASH = "consumer-crash-rebalance"


def test_billing_forgets_no_order_when_it_crashes(kafka):
    """It may charge one twice: that is at least once."""
    outcome = kafka.run(CRASH, settings={"workload.1.app": str(BILLING)})
    assert outcome.verdict != "fail", kafka.why(outcome)


def test_a_commit_before_the_charge_would_forget_orders(kafka):
    outcome = kafka.run(CRASH, settings={"workload.1.app": f"{BILLING}:commit_first"})
    assert outcome.anomalies == ["skipped-by-commit"]
