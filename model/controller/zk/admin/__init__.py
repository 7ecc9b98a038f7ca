"""Operators' requests that write znodes: topics and settings (ZkAdminManager)."""
