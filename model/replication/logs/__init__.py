"""The logs of a broker on disk: opening, checkpoints, retention, clean close."""
