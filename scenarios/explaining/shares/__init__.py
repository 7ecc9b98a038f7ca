"""Why a share group was given a record again, or never got it (KIP-932)."""
