"""The rules of the example game."""

from __future__ import annotations

import pytest

from examples.game.agents import HEIGHT, WIDTH, Game, Player


def begun(*columns: str) -> Game:
    """Return a game under way with discs in columns, from the bottom: `begun("01", "0")`."""
    players = [Player(name=name, seat=name) for name in ("Ada", "Bob")]
    game = Game(players=players).deal()
    for at, discs in enumerate(columns):
        game.columns[at] = [int(disc) for disc in discs]
    return game


@pytest.mark.parametrize(
    ("columns", "column", "line"),
    [
        (["000"], 0, [(0, 0), (0, 1), (0, 2), (0, 3)]),
        (["0", "0", "", "0"], 2, [(0, 0), (1, 0), (2, 0), (3, 0)]),
        (["0", "10", "110", "111"], 3, [(0, 0), (1, 1), (2, 2), (3, 3)]),
        (["111", "110", "10", "0"], 0, [(0, 3), (1, 2), (2, 1), (3, 0)]),
        (["0", "0", "0", "", "0"], 3, [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0)]),
    ],
    ids=["up", "across", "rising", "falling", "five"],
)
def test_four_in_a_row_win(columns: list[str], column: int, line: list[tuple[int, int]]) -> None:
    """A disc that completes four or more, in any direction, wins for its player."""
    game = begun(*columns).drop(column, 0)

    assert game.status == "won"
    assert game.line == line
    assert [player.wins for player in game.players] == [1, 0]


@pytest.mark.parametrize(
    ("columns", "column"),
    [(["00"], 0), (["0", "0", "1", "0"], 4), (["0001"], 0)],
    ids=["three", "a gap", "covered"],
)
def test_less_than_four_pass_the_turn(columns: list[str], column: int) -> None:
    """Without four the other player is to move."""
    game = begun(*columns).drop(column, 0)

    assert (game.status, game.turn, game.line) == ("playing", 1, [])


def test_a_full_board_without_a_line_is_a_draw() -> None:
    """The last disc of a board ends the round for nobody."""
    columns = [["101010", "010101"][at // 2 % 2] for at in range(WIDTH)]
    columns[0] = columns[0][: HEIGHT - 1]
    game = begun(*columns).drop(0, 0)

    assert (game.status, game.line) == ("drawn", [])


@pytest.mark.parametrize(
    ("game", "column", "player", "reason"),
    [
        (Game(), 0, 0, "The game begins when two players are in"),
        (begun(), 0, 1, "It is Ada's turn"),
        (begun(), WIDTH, 0, "There is no column 8"),
        (begun(), -1, 0, "There is no column 0"),
        (begun("010101"), 0, 0, "Column 1 is full"),
        (begun("000").drop(0, 0), 1, 1, "The round is over"),
    ],
)
def test_what_the_rules_forbid(game: Game, column: int, player: int, reason: str) -> None:
    """A forbidden move says why, and leaves the board as it was."""
    before = [list(discs) for discs in game.columns]

    with pytest.raises(ValueError) as refused:
        game.drop(column, player)

    assert str(refused.value) == reason
    assert game.columns == before


def test_players_begin_in_turns() -> None:
    """The second round is begun by who did not begin the first."""
    game = begun("000").drop(0, 0).deal()

    assert (game.status, game.turn, game.columns) == ("playing", 1, [[] for _ in range(WIDTH)])
