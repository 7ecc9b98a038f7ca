"""The decisions of operators that Kafka once got wrong, or that a KIP changed.

The base class has the rules of Kafka 3.9 to 4.1, which are the same. A variant overrides some.
"""

from __future__ import annotations


class OperatorRules:
    """What operators decide."""

    def holds_unjoined(self) -> bool:
        """Return whether a record of a left or outer join waits for a partner.

        Before KAFKA-10847 (3.1) it was joined with null as soon as no partner was stored, and
        joined again when one came.
        """
        return True

    def restores_suppressed_context(self) -> bool:
        """Return whether a restored update of suppress() has the context that it had.

        Before KAFKA-7895 (2.2.1) it had the timestamp of its changelog record: the time of the
        last commit.
        """
        return True
