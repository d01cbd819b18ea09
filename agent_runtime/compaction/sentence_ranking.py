"""Which sentences say most of what a text says: central ones, without repetition.

Sentences are vectors of their terms, weighted by rarity; the nearer to the middle of all, the more
central (one step of LexRank, in linear time). Of the best, each next one is chosen for being
central and unlike those chosen before (maximal marginal relevance).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent_runtime.compaction.sentences import terms

MAX_CANDIDATES = 200
_CENTRALITY = 0.7


@dataclass(frozen=True)
class RankedSentence:
    """A sentence that may be chosen.

    Attributes:
        line: How it would be quoted.
        text: What its terms are taken of.
        weight: How much it counts, 1 for an ordinary sentence.
    """

    line: str
    text: str
    weight: float = 1.0


def choose_sentences(
    sentences: Sequence[RankedSentence], budget: float, cost: Callable[[str], float]
) -> list[str]:
    """Return the lines of the most telling sentences, in their order, within a budget.

    The same input always gives the same lines. Linear, but for the choice among the best 200.

    Args:
        sentences: In order; of equal lines the first counts.
        budget: What the chosen lines may cost together.
        cost: What a line costs.
    """
    vectors = _vectors([sentence.text for sentence in sentences])
    centre: Counter[str] = Counter()
    for vector in vectors:
        centre.update(vector)
    length = math.sqrt(sum(value * value for value in centre.values())) or 1.0
    scores = [
        sentence.weight * sum(value * centre[term] for term, value in vector.items()) / length
        for sentence, vector in zip(sentences, vectors, strict=True)
    ]
    best = sorted(range(len(sentences)), key=lambda index: (-scores[index], index))
    return _unlike_one_another(sentences, vectors, scores, best[:MAX_CANDIDATES], budget, cost)


def _vectors(texts: Sequence[str]) -> list[dict[str, float]]:
    counted = [Counter(terms(text)) for text in texts]
    frequency = Counter(term for counts in counted for term in counts)
    vectors: list[dict[str, float]] = []
    for counts in counted:
        vector = {
            term: (1 + math.log(count)) * math.log((len(texts) + 1) / (frequency[term] + 0.5))
            for term, count in counts.items()
        }
        length = math.sqrt(sum(value * value for value in vector.values())) or 1.0
        vectors.append({term: value / length for term, value in vector.items()})
    return vectors


def _unlike_one_another(
    sentences: Sequence[RankedSentence],
    vectors: Sequence[dict[str, float]],
    scores: Sequence[float],
    candidates: Sequence[int],
    budget: float,
    cost: Callable[[str], float],
) -> list[str]:
    costs = {index: cost(sentences[index].line) for index in candidates}
    likeness = dict.fromkeys(candidates, 0.0)
    chosen: dict[str, int] = {}
    while likeness:
        index = max(
            likeness,
            key=lambda each: (
                _CENTRALITY * scores[each] - (1 - _CENTRALITY) * likeness[each],
                -each,
            ),
        )
        del likeness[index]
        line = sentences[index].line
        if costs[index] > budget or line in chosen:
            continue
        chosen[line] = index
        budget -= costs[index]
        vector = vectors[index]
        for other in likeness:
            same = sum(value * vector.get(term, 0.0) for term, value in vectors[other].items())
            likeness[other] = max(likeness[other], same)
    return sorted(chosen, key=chosen.__getitem__)
