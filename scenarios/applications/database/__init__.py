"""SQLite databases on the disks of simulated hosts."""
