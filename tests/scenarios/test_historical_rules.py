"""Each decision that a KIP or JIRA of KAFKA.md, section 8, changed is a method of the rules.

So any of those faults can be brought back by a variant, whether or not there is one. This table is
the list; an entry that is added to KAFKA.md must be added here.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from kafkasim.scenarios.variants.page import WITHOUT_SCRIPT
from kafkasim.scenarios.variants.registry import BUGS
from kafkasim.scenarios.variants.rules import PARTS

ROOT = Path(__file__).parents[2]

METHODS: dict[str, tuple[str, ...]] = {
    "B01": ("replication.looks_up_epochs",),
    "B03": ("replication.lookup_reply",),
    "B04": ("replication.check_leader_epoch", "replication.accepts_lookup_reply"),
    "B05": ("replication.reset_remote_replicas",),
    "B06": ("replication.reaches_epoch_start",),
    "B07": ("replication.assigns_epoch_at_election",),
    "B08": ("storage.trims_epochs_beyond_end",),
    "B10": ("replication.follower_hw_from_diverging",),
    "B12": ("replication.offset_after_failed_read",),
    "B13": ("replication.session_keeps_epoch",),
    "B14": ("replication.uses_reply_of_removed",),
    "B16": ("replication.consumer_bound",),
    "B17": ("replication.starts_leadership",),
    "B18": ("replication.high_watermark_is_frozen",),
    "B19": ("controller.is_unclean_restart",),
    "B20": ("replication.members_for_high_watermark",),
    "B22": ("zk_controller.is_repeated",),
    "B23": (
        "controller.alter_partition_epoch_order",
        "zk_controller.alter_partition_epochs_ahead",
    ),
    "B24": (
        "replication.is_active",
        "replication.stops_replicas_in_shutdown",
        "controller.is_active",
        "zk_controller.eligible_for_isr",
    ),
    "B25": (
        "replication.is_same_incarnation",
        "replication.is_stale_replica_epoch",
        "replication.isr_member_epoch",
        "controller.is_same_incarnation",
    ),
    "B29": ("controller.reassignment_is_complete", "zk_controller.is_reassignment_complete"),
    "B30": ("controller.may_elect_unclean",),
    "B31": ("controller.may_elect_last_known",),
    "B32": ("controller.may_shut_down",),
    "B33": ("zk_controller.guards", "zk_controller.requests_outlive_session"),
    "B34": ("zk_controller.broker_epoch",),
    "B35": ("zk_controller.is_stale_broker_epoch",),
    "B36": ("zk_controller.is_bounced",),
    "B37": ("zk_controller.stop_replica_epoch", "zk_controller.may_stop_replica"),
    "B38": ("zk_controller.coordinator_reads_zookeeper", "transaction.load_replaces_state"),
    "B39": ("raft.check_quorum_us",),
    "B41": ("raft.restart_role",),
    "B42": ("raft.must_flush_before_fetch", "raft.persist_vote_before_reply"),
    "B43": ("raft.pre_vote", "raft.pre_vote_grant"),
    "B44": ("controller.may_unfence",),
    "B45": ("client.is_another_topic",),
    "B46": ("replication.verifies_transactions",),
    "B47": ("storage.is_verified",),
    "B48": ("transaction.timeout_fences_producer",),
    "B49": ("storage.marker_refreshes_producer",),
    "B51": ("transaction.second_completion_us",),
    "B52": ("transaction.fencing_epoch",),
    "B54": ("storage.check_marker",),
    "B50": ("storage.forgets_producers_of_deleted_records",),
    "B55": ("storage.aborted_transactions_bound",),
    "B57": ("storage.counts_batches_before_append",),
    "B58": ("client.new_epoch_waits_for_in_flight",),
    "B59": ("storage.find_duplicate", "storage.check_sequence"),
    "B60": ("storage.check_unverified_sequence",),
    "B61": ("group.checks_transactional_commit",),
    "B63": ("group.check_generation", "group.check_committer", "client.retries_async_commit"),
    "B65": ("client.pauses_pending_revocation",),
    "B67": ("group.update_partition_epochs", "group.reconcile"),
    "B68": ("group.replaces_static_member",),
    "B69": ("group.static_rejoin_rebalances",),
    "B70": ("group.persists_static_replacement",),
    "B71": ("group.offsets_may_expire", "group.offset_expired"),
    "B73": ("replication.may_be_read_from",),
    "B75": ("storage.recovery_point_after_recovery", "storage.recovery_point_after_truncation"),
    "B76": ("storage.marks_clean",),
    "B77": ("storage.syncs_truncated_epochs",),
    "B80": ("storage.cleanable_bound",),
    "B81": ("storage.retention_bound",),
    "B82": ("replication.accepts_fetch_reply",),
    "B83": ("storage.follower_accepts", "replication.fetch_send_delay_us"),
    "B84": ("controller.fences_previous_incarnation",),
    "B85": ("client.stops_fetchers_before_release",),
    "B86": ("client.commits_at_rebalance",),
    "B87": ("controller.next_last_known_leader",),
    "B88": ("storage.delete_horizon_passed",),
    "B90": ("share.fetches_gaps_again",),
    "B91": ("share.honours_transitions",),
    "B92": ("share.written_start_offset",),
    "B93": ("replication.is_caught_up",),
    "B94": ("controller.fences_one_broker_at_a_time",),
    "B95": ("replication.advances_after_isr_change",),
    "B97": ("zk_controller.startup_takes_offline",),
    "B98": ("client.new_epoch_renumbers_idle",),
    "B99": ("client.keeps_reconciled_topics",),
    "B100": ("replication.skips_diverged_followers",),
    "B101": ("transaction.start_may_go_back",),
    "B102": ("transaction.may_expire_again",),
    "B103": ("transaction.removes_own_markers_only",),
    "B96": ("storage.high_watermark_after_reset",),
}

SAME: dict[str, str] = {"B02": "B01", "B89": "B88"}
"""Another harm of the decision of another entry."""

SETTINGS: dict[str, str] = {
    "B64": "the application's commits: commit = auto with handover, in a scenario",
    "B74": "log.flush.interval.messages, and the racks of the replicas",
}
"""Designs that no release changed: what an operator or an application sets decides."""

WAITING: dict[str, str] = {
    "B79": "a race within one append: here an append is one handler",
}
"""Entries without a method, each with the reason."""

NAMED = re.compile(r"^- \*\*(B\d\d+) |\bSibling (B\d\db)", re.MULTILINE)


def _kafka_md() -> str:
    return (ROOT / "model" / "KAFKA.md").read_text(encoding="utf-8")


def _entries(end: str, siblings: bool = False) -> list[str]:
    text = _kafka_md()
    found = NAMED.findall(text[text.index("\n## 8. ") : text.index(f"\n### {end} ")])
    return [entry or sibling for entry, sibling in found if entry or siblings]


def test_every_entry_has_methods_or_a_reason() -> None:
    listed = [*METHODS, *SAME, *SETTINGS, *WAITING]
    assert sorted(listed) == sorted(_entries("8.7"))


def test_every_entry_up_to_8_5_has_a_variant_or_says_why_not() -> None:
    told = [*WITHOUT_SCRIPT, *[variant.id.partition("-")[0] for variant in BUGS]]
    entries = _entries("8.6", siblings=True)
    assert [entry for entry in entries if entry not in told] == []
    every = [*entries, *re.findall(r"^- \*\*([A-Z]\d\d) ", _kafka_md(), re.MULTILINE)]
    assert [entry for entry in WITHOUT_SCRIPT if entry not in every] == []
    assert all(told.count(entry) == 1 for entry in WITHOUT_SCRIPT)


def test_a_method_belongs_to_one_entry() -> None:
    methods = [name for names in METHODS.values() for name in names]
    assert sorted(methods) == sorted(dict.fromkeys(methods))
    assert all(other in METHODS for other in SAME.values())


@pytest.mark.parametrize("entry", METHODS)
def test_the_rules_have_the_methods_of_an_entry(entry: str) -> None:
    """The first one names the entry, so that its reader finds the story."""
    for name in METHODS[entry]:
        part, _, method = name.partition(".")
        assert callable(vars(PARTS[part])[method]), name
    part, _, method = METHODS[entry][0].partition(".")
    own = vars(PARTS[part])[method].__doc__ or ""
    module = sys.modules[PARTS[part].__module__].__doc__ or ""
    assert entry in own + module, f"neither {METHODS[entry][0]} nor its module names {entry}"
