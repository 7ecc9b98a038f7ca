"""The state of a share group, its records and their replay."""
