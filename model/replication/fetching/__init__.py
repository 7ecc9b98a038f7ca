"""The follower's side: threads that copy partitions from their leaders."""
