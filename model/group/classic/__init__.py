"""Groups of the classic protocol: membership requests, rebalances, static members."""
