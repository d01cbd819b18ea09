"""Medians, quantiles and ratios."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` of all lie; 0 for none."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def median(values: Sequence[float]) -> float:
    """Return the median; 0 for none."""
    return statistics.median(values) if values else 0.0


def median_ratio(over: Sequence[float], under: Sequence[float]) -> float:
    """Return the median of the ratios of values measured side by side.

    Pairs are neighbours in time, so what the machine did meanwhile cancels out.
    """
    return median([a / b for a, b in zip(over, under, strict=True) if b])
