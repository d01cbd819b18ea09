"""Figures out of samples that were taken side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bench.support.bench import Sample, Samples
from bench.support.row import number
from bench.support.statistics import median, median_ratio


def rates(samples: Sequence[Sample]) -> list[float]:
    """Return the calls per second of each sample."""
    return [sample.load.rate for sample in samples]


def rate_ratio(samples: Samples, over: str, under: str) -> float:
    """Return how many times as many calls per second `over` makes."""
    return median_ratio(rates(samples[over]), rates(samples[under]))


def latency_ratio(samples: Samples, over: str, under: str) -> float:
    """Return how many times as long a call of `over` takes."""
    return median_ratio(
        [sample.load.p50 for sample in samples[over]],
        [sample.load.p50 for sample in samples[under]],
    )


def median_of(samples: Sequence[Sample], what: Callable[[Sample], float]) -> float:
    """Return the median of something over samples."""
    return median([what(sample) for sample in samples])


def describe(samples: Samples, *names: str) -> str:
    """Tell rate and median latency of forms in absolute numbers."""
    return "; ".join(
        f"{name} {number(median_of(samples[name], lambda sample: sample.load.rate))}/s "
        f"p50 {number(median_of(samples[name], lambda sample: sample.load.p50) * 1e3)} ms"
        for name in names
    )


def processor(samples: Samples, *names: str) -> str:
    """Tell the processor milliseconds per call of server, worker and client."""
    return "; ".join(f"{name} {_processor(samples[name])}" for name in names)


def _processor(samples: Sequence[Sample]) -> str:
    return "+".join(
        f"{median([sample.per_operation(process) for sample in samples]):.2f}"
        for process in ("server", "worker", "client")
    )
