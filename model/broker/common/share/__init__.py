"""The broker's part of share groups: its persister, and the requests about them."""
