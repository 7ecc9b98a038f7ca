"""Schedules of Kafka Streams: what groups, instances, changelogs and disks have of two runs."""
