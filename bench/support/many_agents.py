"""The same job spread over many agents, in all forms in turns."""

from __future__ import annotations

import asyncio

from bench.support.bench import Bench, Samples
from bench.support.forms import Form
from bench.support.load import Submit


async def many_agents(bench: Bench, agents: int, callers: int) -> Samples:
    """Measure all forms with so many callers on each of so many agents."""
    bench.say(f"{agents} agents, {callers} callers each, {bench.scale.repetitions} repetitions")
    opened: dict[str, tuple[list[str], list[Submit]]] = {}
    for form in await bench.forms():
        names = [bench.new_name("many") for _ in range(agents)]
        opened[form.name] = (names, await _open_all(form, names))
    samples: Samples = {}
    for _ in range(bench.scale.repetitions):
        for form in await bench.forms():
            sample = await bench.sample(form, opened[form.name][1], callers)
            samples.setdefault(form.name, []).append(sample)
    for form in await bench.forms():
        await asyncio.gather(*(form.close(name) for name in opened[form.name][0]))
    return samples


async def _open_all(form: Form, names: list[str]) -> list[Submit]:
    gate = asyncio.Semaphore(20)

    async def open_one(name: str) -> Submit:
        async with gate:
            return await form.open(name)

    return await asyncio.gather(*map(open_one, names))
