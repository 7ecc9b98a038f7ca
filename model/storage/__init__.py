"""Logs on a disk: segments, checkpoints, log directories, recovery, retention."""
