"""Imports relatively, and has a dataclass, whose annotations Python looks up in the module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from aiokafka.consumer import AIOKafkaConsumer

from . import settings
from .settings import TOPIC


@dataclass
class Counted:
    kind: ClassVar[str] = settings.TOPIC
    records: int = 0


async def main():
    counted = Counted()
    async with AIOKafkaConsumer(TOPIC, group_id="billing", auto_offset_reset="earliest") as orders:
        async for _ in orders:
            counted.records += 1
