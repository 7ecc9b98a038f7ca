"""Clients of a cluster: producer, consumer and admin client; the process that holds them."""
