"""STALESERVE: whoever lost a role hears of it in time, and stops serving it."""
