"""When to try an automatic compaction again after one that did not help (contract 9.4)."""

from __future__ import annotations

_MAX_GROWTH = 2.0
_FIRST_GROWTH = 0.1
_MAX_DOUBLINGS = 10


class AttemptSpacing:
    """Lets a failing compaction be tried each time the history has grown enough, not each append.

    After the k-th failure in a row, made at an estimate E, the next attempt waits until the
    estimate is E * min(1 + 0.1 * 2^(k-1), 2).

    Args:
        failures: In a row, up to now.
        next_estimate: At which the next attempt may be made.
    """

    def __init__(self, failures: int = 0, next_estimate: float = 0.0) -> None:
        self.failures = failures
        self.next_estimate = next_estimate

    def allows(self, estimate: int) -> bool:
        """Tell whether an attempt may be made at this estimate."""
        return estimate >= self.next_estimate

    def note_failure(self, estimate: int) -> None:
        """Note an attempt that stored nothing, or left the estimate above the threshold."""
        growth = min(1 + _FIRST_GROWTH * 2 ** min(self.failures, _MAX_DOUBLINGS), _MAX_GROWTH)
        self.failures += 1
        self.next_estimate = estimate * growth

    def note_success(self) -> None:
        """Note an attempt that brought the estimate below the threshold."""
        self.failures = 0
        self.next_estimate = 0.0
