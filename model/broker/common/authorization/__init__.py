"""What a client may do: every request's privileges, checked before it is served."""
