"""A server of the ensemble: its log, its side of the current epoch, its clients."""
