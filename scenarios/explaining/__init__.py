"""Why a run went wrong: the causal chain of one anomaly, told from its trace."""
