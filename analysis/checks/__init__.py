"""The checks: one function per guarantee, DataFrame in, violations out (see base.py)."""

from analysis.checks import delivery, groups, liveness, order, replication
from analysis.checks.base import VIOLATION_COLUMNS, Check

CHECKS: dict[str, Check] = {
    "lost-write": delivery.lost_write,
    "unseen": delivery.unseen,
    "duplicate": delivery.duplicate,
    "inconsistent-offsets": delivery.inconsistent_offsets,
    "poll-order": order.poll_order,
    "nonmonotonic-send": order.nonmonotonic_send,
    "offset-regression": groups.offset_regression,
    "skipped-by-commit": groups.skipped_by_commit,
    "double-owner": groups.double_owner,
    "one-leader-per-epoch": replication.one_leader,
    "clean-leader-holds-exposed": replication.clean_leader_holds_exposed,
    "high-watermark-min-isr": replication.high_watermark_needs_min_isr,
    "high-watermark-monotonic": replication.high_watermark_monotonic,
    "isr-members-eligible": replication.isr_eligible,
    "isr-change-has-reason": replication.change_has_reason,
    "logs-agree": replication.logs_agree,
    "no-progress": liveness.no_progress,
}
"""Every check by the name that verdicts show."""

__all__ = ["CHECKS", "VIOLATION_COLUMNS", "Check"]
