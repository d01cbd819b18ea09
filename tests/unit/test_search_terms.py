"""What the full-text index holds: scopes never meet, and a text is found by each of its words."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.storage.search_terms import (
    MAX_QUERY_TERMS,
    Phrase,
    fts5_query,
    index_terms,
    query_phrases,
    scope_prefix,
)

scopes = st.integers(1, 10**9)
texts = st.text(max_size=60) | st.lists(
    st.sampled_from(
        ["Deploy", "用户喜欢", "привет", "naïve", "e-mail", "ไทย", "x1", "한국어", "-", "\0"]
    ),
    max_size=8,
).map(" ".join)


@given(scopes, scopes)
def test_no_scope_s_prefix_begins_another_s(one: int, other: int) -> None:
    """So a term, or the beginning of one, belongs to one scope."""
    assert one == other or not scope_prefix(one).startswith(scope_prefix(other))


@given(texts, scopes)
def test_terms_are_letters_and_digits_of_their_scope(text: str, scope: int) -> None:
    """Nothing that a tokenizer or a query's syntax could read in its own way."""
    for term in index_terms(text, scope).split():
        assert re.fullmatch("[a-z0-9]+", term)
        assert term.startswith(scope_prefix(scope))


@given(texts, scopes)
def test_a_text_is_found_by_each_of_its_words(text: str, scope: int) -> None:
    """Each phrase of a query that is a word of the text stands in the text's terms."""
    terms = index_terms(text, scope).split()
    for word in text.replace("\0", " ").split():
        for phrase in query_phrases(word, scope):
            assert _holds(terms, phrase), (word, phrase, terms)


@given(texts, scopes)
def test_queries_are_quoted_words(query: str, scope: int) -> None:
    """What SQLite is asked has no operator but those between the phrases."""
    phrases = query_phrases(query, scope)
    if phrases:
        asked = fts5_query([phrases])
        assert re.fullmatch(r'\(("[a-z0-9 ]+"\*?)( AND "[a-z0-9 ]+"\*?)*\)', asked)


@given(st.integers(1, 3_000), st.sampled_from(["咖", "a-", "w ", "x1 咖 "]))
def test_queries_have_a_bound(times: int, piece: str) -> None:
    """However long a query is, what is asked of the index is not."""
    assert sum(len(each.terms) for each in query_phrases(piece * times, 7)) <= MAX_QUERY_TERMS


def test_long_texts_have_a_bound() -> None:
    """An entry fits what PostgreSQL takes, counted as it counts; words said again cost little."""
    distinct = index_terms(" ".join(f"word{n}" for n in range(200_000)), 7).split()
    repeated = index_terms("again " * 80_000, 7).split()

    assert sum(len(each) + 5 for each in set(distinct)) <= 1_000_000
    assert len(distinct) > 50_000
    assert len(repeated) == 80_000


def _holds(terms: list[str], phrase: Phrase) -> bool:
    width = len(phrase.terms)
    for start in range(len(terms) - width + 1):
        window = terms[start : start + width]
        if window == list(phrase.terms):
            return True
        if phrase.is_prefix and window[-1].startswith(phrase.terms[-1]):
            return True
    return False


@given(st.text(st.characters(max_codepoint=127), max_size=80), scopes)
def test_plain_text_has_the_terms_that_it_has_beside_other_text(text: str, scope: int) -> None:
    """Texts of ASCII alone go a shorter way to the same terms."""
    beside = index_terms(f"{text} é", scope).split()
    assert [*index_terms(text, scope).split(), f"{scope_prefix(scope)}e"] == beside
