"""The group coordinator: classic groups, committed offsets; and the clients' assignors."""
