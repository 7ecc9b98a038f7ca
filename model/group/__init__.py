"""The group coordinator: classic protocol, committed offsets, assignors."""
