"""Why a share group got a record again, or never got it (KIP-932)."""
