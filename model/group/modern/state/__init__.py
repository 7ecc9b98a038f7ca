"""What a consumer group is (KIP-848): members, subscriptions, assignments; no effects."""
