"""What facts say where stale metadata leads clients from one topic of a name to another."""

from __future__ import annotations

from pathlib import Path

import kafkasim

STALE = Path(__file__).parent.parent / "bugs" / "stale-topic-id.toml"


def test_records_are_processed_in_the_topic_of_which_they_were_polled() -> None:
    """Applications know the topic by its name only."""
    outcome = kafkasim.run(str(STALE), seed=1)
    polled = {
        (row["topic_id"], offset)
        for row in outcome.facts("Polled").to_pylist()
        for offset in row["offsets"]
    }
    processed = {
        (row["topic_id"], offset)
        for row in outcome.facts("Processed").to_pylist()
        for offset in range(row["base_offset"], row["offset"])
    }
    assert len({topic_id for topic_id, _ in polled}) == 2
    assert processed <= polled
