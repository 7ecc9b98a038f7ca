"""One replica of a log that a quorum of voters replicates (KRaft: KIP-595, 630, 853, 996)."""
