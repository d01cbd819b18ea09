"""Checks of searching messages: what a word finds, and that nothing is query syntax."""

from __future__ import annotations

from collections.abc import Sequence

from agent_runtime.identity import AgentRef
from agent_runtime.storage.protocol import Transaction
from agent_runtime.storage.session_protocol import HitRow, SessionRef
from agent_runtime.testing.session_bench import (
    CHAT,
    NEIGHBOURS,
    SEARCH_LIMIT,
    SessionBench,
    message,
)
from agent_runtime.testing.storage_bench import OTHER, ROOM, StorageBench, StorageCheck, expect

_FRIDAY = "The deployment is scheduled for Friday"
_MANY_WORDS = " ".join(f"distinct{number}" for number in range(70_000))
_HAN = "".join(chr(0x4E00 + number * 7 % 20_000) for number in range(200_000))


async def all_words_are_needed(bench: StorageBench) -> None:
    """Words may stand anywhere and in any order, but each must be there."""
    chat = SessionBench(bench)
    await chat.append(message("m1", _FRIDAY), message("m2", "A deployment on Monday"))
    expect(["m1"], await chat.found("deployment Friday"))
    expect(["m1"], await chat.found("Friday deployment"))
    expect(["m1", "m2"], sorted(await chat.found("deployment")))
    expect([], await chat.found("deployment Sunday"))
    expect([], await chat.found("deploy" + "mentx"))


async def words_are_folded_and_stemmed(bench: StorageBench) -> None:
    """Case, accents and English endings do not matter."""
    chat = SessionBench(bench)
    await chat.append(
        message("m1", "The café was running late; Straße, Ёлка, ΣΊΣΥΦΟΣ"),
        message("m2", "cats dogs e-mail v2.0 snake_case"),
    )
    for query in ("CAFE", "café", "Run", "runs", "strasse", "елка", "σίσυφος"):
        expect(["m1"], await chat.found(query), query)
    for query in ("cat", "e-mail", "mail", "v2.0", "snake_case", "case", "v2"):
        expect(["m2"], await chat.found(query), query)
    expect([], await chat.found("mail-e"), "a word with punctuation is a phrase")


async def scripts_without_spaces_are_searched(bench: StorageBench) -> None:
    """Any run of Chinese, Japanese, Korean or Thai finds the text that holds it."""
    chat = SessionBench(bench)
    await chat.append(
        message("zh", "用户喜欢咖啡 and tea"),
        message("ja", "東京タワーへ行きたい"),
        message("ko", "서울에서커피를마셨다"),
        message("th", "สวัสดีครับ"),
        message("one", "茶"),
    )
    for query, found in (
        ("咖啡", "zh"),
        ("喜欢咖", "zh"),
        ("啡", "zh"),
        ("用", "zh"),
        ("咖啡 tea", "zh"),
        ("咖啡and", "zh"),
        ("タワー", "ja"),
        ("커피", "ko"),
        ("สวัส", "th"),
        ("茶", "one"),
    ):
        expect([found], await chat.found(query), query)
    expect([], await chat.found("咖喱"))
    expect([], await chat.found("欢喜"))


async def nothing_is_syntax(bench: StorageBench) -> None:
    """Operators, quotes and other signs are words or nothing, never an error."""
    chat = SessionBench(bench)
    await chat.append(message("m1", _FRIDAY), message("m2", "near and not or a b"))
    for query in ('"deployment', "deployment*", "(deployment", "deployment:*", "^deployment"):
        expect(["m1"], await chat.found(query), query)
    for query in ("deployment AND", "deployment NOT sunday", "terms:deployment", "deploy*"):
        found = await chat.found(query)
        expect(True, found in ([], ["m1"]), f"{query} is defined")
    expect(["m2"], await chat.found("near AND not OR"))
    expect([], await chat.found("deployment OR near"), "OR is a word like any other")
    for query in (
        "",
        " ",
        "\0",
        '"',
        '""',
        "*",
        "()",
        "-",
        "'",
        ";--",
        "\\",
        "!!!",
        "😀",
        "\u2028",
    ):
        expect([], await chat.found(query), repr(query))
    for query in ("a* NEAR(b)", "a & b", "a | b", "!a", "a <-> b", "%s", "?", ":name", "{}", "$1"):
        found = await chat.found(query)
        expect(True, isinstance(found, list), query)


async def any_query_has_an_answer(bench: StorageBench) -> None:
    """NUL characters, lone surrogates and ten thousand characters are queries too."""
    chat = SessionBench(bench)
    await chat.append(message("m1", _FRIDAY))
    expect(["m1"], await chat.found("deployment\0"))
    expect(["m1"], await chat.found("\0deployment\0Friday"))
    expect([], await chat.found("x" * 10_000))
    expect([], await chat.found("deployment " * 900 + "x" * 100))
    expect(["m1"], await chat.found("deployment " * 900))
    expect([], await chat.found("咖" * 10_000))
    expect([], await chat.found("()" * 5_000))
    expect([], await chat.found("a-" * 5_000))
    expect([], await chat.found("\ud800"))
    expect([], await chat.found("deployment \ud800x"))


async def any_text_can_be_indexed(bench: StorageBench) -> None:
    """Text with NUL, and far more words than an index takes, is stored and partly found."""
    chat = SessionBench(bench)
    await chat.append(message("nul", "before\0after"))
    expect(["nul"], await chat.found("after"))
    expect(["nul"], await chat.found("before"))
    for name, text, word in (
        ("words", _MANY_WORDS, "distinct17"),
        ("letters", "w" * 1_000_000, "w" * 1_000_000),
        ("han", _HAN, _HAN[:4]),
        ("one", "again " * 200_000, "again"),
    ):
        await chat.append(message(name, text[:20], searched=text))
        expect([name], await chat.found(word), name)
        await chat.update(message(name, "shorter"))
        expect([], await chat.found(word), name)
    await chat.expect_path("nul", "words", "letters", "han", "one")


async def the_index_follows_changes(bench: StorageBench) -> None:
    """Updates, deletions and clearing show in search at once; text may come and go."""
    chat = SessionBench(bench)
    await chat.append(message("m1", "first"), message("m2", "second", searched=""))
    expect([], await chat.found("second"))
    await chat.update(message("m1", "third"))
    await chat.update(message("m2", "second"))
    expect([], await chat.found("first"))
    expect(["m1"], await chat.found("third"))
    expect(["m2"], await chat.found("second"))
    await chat.update(message("m2", "second", searched=""))
    expect([], await chat.found("second"))
    await chat.delete("m1")
    expect([], await chat.found("third"))
    await chat.append(message("m1", "fourth"))
    expect(["m1"], await chat.found("fourth"))
    expect([], await chat.found("third"))
    await chat.clear()
    expect([], await chat.found("fourth"))


async def all_branches_are_searched(bench: StorageBench) -> None:
    """Messages off the path and under overlays are found; summaries are not."""
    chat = SessionBench(bench)
    await chat.append(message("m1", "root"), message("m2", "old answer"))
    await chat.append(message("m3", "new answer"), parent="m1")
    await chat.overlay("S", "m1", "m3")
    expect(["m2", "m3"], sorted(await chat.found("answer")))
    expect([], await chat.found("Summary"))


async def hits_tell_where_they_are(bench: StorageBench) -> None:
    """A hit has its session, role, JSON text and time of creation."""
    chat = SessionBench(bench)
    row = message("m1", "needle", role="assistant")
    await chat.append(row)
    [stored] = await chat.reads.tree(CHAT, 0, 1)
    expect(
        [HitRow("m1", "assistant", row.content, stored.created_at, "chat")],
        await chat.reads.search(ROOM, ["chat"], "needle", 5),
    )


async def the_best_come_first(bench: StorageBench) -> None:
    """Rank orders hits, the newer one wins a tie, and no more come than asked for."""
    chat = SessionBench(bench)
    await chat.append(*(message(f"m{number:02}", "apple pie") for number in range(30)))
    await chat.append(message("best", "apple apple apple"))
    found = await chat.found("apple")
    expect(SEARCH_LIMIT, len(found))
    expect(["best", "m29", "m28"], found[:3])
    expect(["best"], await chat.found("apple", limit=1))
    expect(31, len(await chat.found("apple", limit=1_000)))


async def sessions_are_searched_apart(bench: StorageBench) -> None:
    """A search sees the sessions that it names, of its agent, and no others."""
    chat = SessionBench(bench)
    refs = [CHAT, *NEIGHBOURS, *(SessionRef(ROOM, f"s{n}") for n in range(40))]
    for ref in refs:
        await chat.of(ref).append(message(f"of {ref.agent.name}/{ref.session_id}", "secret word"))
    for ref in refs:
        expect([f"of {ref.agent.name}/{ref.session_id}"], await chat.of(ref).found("secret"))
    expect(["of a/", "of a/chat"], sorted(await chat.found("secret", "", "chat", "nope")))
    expect([], await chat.reads.search(ROOM, [], "secret", 5))
    expect([], await chat.reads.search(AgentRef("Room", "none"), ["chat"], "secret", 5))
    expect(["of b/chat"], [h.id for h in await chat.reads.search(OTHER, ["chat"], "secret", 5)])


async def many_sessions_are_searched_together(bench: StorageBench) -> None:
    """Hits of hundreds of sessions are ranked as one list."""
    names = [f"s{number}" for number in range(250)]

    async def fill(tx: Transaction) -> None:
        for name in names:
            rows = [message(f"{name}-a", "needle in hay"), message(f"{name}-b", "only hay here")]
            await tx.sessions.messages.append(
                SessionRef(ROOM, name), rows, None, is_auto_parent=True
            )
        best = [message("best", "needle needle")]
        await tx.sessions.messages.append(SessionRef(ROOM, "s249"), best, None, is_auto_parent=True)

    await bench.storage.write(fill)
    chat = SessionBench(bench)
    found = await chat.found("needle", *names, limit=1_000)
    expect(251, len(found))
    expect("best", found[0])
    expect([], await chat.found("needle hay missing", *names))
    expect(250, len(await chat.found("needle " * 70 + "hay in", *names, limit=1_000)))
    expect([], await chat.found(" ".join(f"w{n}" for n in range(64)), *names))


SEARCH_CHECKS: Sequence[StorageCheck] = (
    all_words_are_needed,
    words_are_folded_and_stemmed,
    scripts_without_spaces_are_searched,
    nothing_is_syntax,
    any_query_has_an_answer,
    any_text_can_be_indexed,
    the_index_follows_changes,
    all_branches_are_searched,
    hits_tell_where_they_are,
    the_best_come_first,
    sessions_are_searched_apart,
    many_sessions_are_searched_together,
)
