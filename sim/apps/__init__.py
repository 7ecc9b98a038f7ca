"""Applications of client hosts: asyncio over host time, and the port to the client process."""
