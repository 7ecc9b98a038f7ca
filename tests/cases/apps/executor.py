"""Asks for a thread."""

import asyncio


async def main():
    await asyncio.get_running_loop().run_in_executor(None, len, "")
