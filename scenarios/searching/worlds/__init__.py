"""Worlds that a scenario is put into at last: other timers, voters that change, lasting losses."""
