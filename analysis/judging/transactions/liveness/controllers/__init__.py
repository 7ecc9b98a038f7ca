"""Standstills of what controllers decide: leaders, ISRs and registrations."""
