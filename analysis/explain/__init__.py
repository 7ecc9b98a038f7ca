"""Why a run failed: the chain of events that led to an anomaly, from its trace."""
