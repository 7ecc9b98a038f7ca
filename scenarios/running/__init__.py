"""Running a scenario: its hosts, workloads, faults and operations, phase by phase; and replays."""
