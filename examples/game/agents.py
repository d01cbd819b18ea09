"""Four in a row for two players and any number of spectators; one table per agent."""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal

from pydantic import BaseModel, Field, StringConstraints

from agent_runtime import Agent, callable
from agent_runtime.agent_connection import Connection
from agent_runtime.caller import current_caller
from agent_runtime.http_message import Request

WIDTH, HEIGHT, SEATS = 7, 6, 2
Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=20)]
Place = tuple[int, int]
"""Column from the left and row from the bottom, both from 0."""


def empty_columns() -> list[list[int]]:
    """Return a board without discs."""
    return [[] for _ in range(WIDTH)]


class Player(BaseModel):
    """One who sits at the table."""

    name: Name
    seat: str
    wins: int = 0


class Game(BaseModel):
    """What everybody at the table sees."""

    players: list[Player] = []
    status: Literal["waiting", "playing", "won", "drawn"] = "waiting"
    turn: int = 0
    """Whose move it is, or who has won: a position in `players`."""
    columns: list[list[int]] = Field(default_factory=empty_columns)
    """Each column's discs from the bottom: positions in `players`."""
    last: Place | None = None
    line: list[Place] = []
    rounds: int = 0

    def deal(self) -> Game:
        """Clear the board for the next round; the players take turns in beginning."""
        self.columns, self.last, self.line = empty_columns(), None, []
        self.status, self.turn = "playing", self.rounds % SEATS
        self.rounds += 1
        return self

    def drop(self, column: int, player: int) -> Game:
        """Let a player's disc fall, and see what comes of it.

        Raises:
            ValueError: The rules forbid it.
        """
        if self.status == "waiting":
            raise ValueError("The game begins when two players are in")
        if self.status != "playing":
            raise ValueError("The round is over")
        if player != self.turn:
            raise ValueError(f"It is {self.players[self.turn].name}'s turn")
        if not 0 <= column < WIDTH:
            raise ValueError(f"There is no column {column + 1}")
        if len(self.columns[column]) == HEIGHT:
            raise ValueError(f"Column {column + 1} is full")
        self.columns[column].append(player)
        self.last = (column, len(self.columns[column]) - 1)
        self.line = self.line_through(self.last)
        if self.line:
            self.status = "won"
            self.players[player].wins += 1
        elif all(len(discs) == HEIGHT for discs in self.columns):
            self.status = "drawn"
        else:
            self.turn = (player + 1) % SEATS
        return self

    def line_through(self, place: Place) -> list[Place]:
        """Return the discs that win together with the one at a place; none if it does not win."""
        for across, up in ((1, 0), (0, 1), (1, 1), (1, -1)):
            line = [place]
            for step in (1, -1):
                column, row = place[0] + step * across, place[1] + step * up
                while self._disc((column, row)) == self._disc(place):
                    line.append((column, row))
                    column, row = column + step * across, row + step * up
            if len(line) >= 4:
                return sorted(line)
        return []

    def _disc(self, place: Place) -> int | None:
        column, row = place
        is_disc = 0 <= column < WIDTH and 0 <= row < len(self.columns[column])
        return self.columns[column][row] if is_disc else None


class GameAgent(Agent[Game]):
    """A table: `GameAgent/lobby`, `GameAgent/kitchen` ..."""

    initial_state = Game()

    def should_connection_be_readonly(self, connection: Connection, request: Request) -> bool:
        """Let spectators watch only."""
        return "watch" in request.query

    def validate_state_change(self, next_state: Game, source: str) -> None:
        """Refuse states that pages may not set, and names that cannot be told apart."""
        names = [player.name.casefold() for player in next_state.players]
        if len(set(names)) < len(names):
            raise ValueError("Somebody at the table has that name")
        # Pages may set a state too: it may rename the player who sits there, and nothing else.
        if source != "server" and _renamed(self.state, next_state) - {seat_of(source)}:
            raise ValueError("Moves are made by calls")

    async def on_state_changed(self, state: Game, source: str) -> None:
        """Begin when two players are in."""
        if state.status == "waiting" and len(state.players) == SEATS:
            await self.update_state(lambda game: game.deal() if game.status == "waiting" else game)

    @callable()
    def seat(self) -> str:
        """Return which seat is the caller's, whether it is taken or not."""
        return _caller_seat()

    @callable()
    async def join(self, name: str) -> None:
        """Take a seat; who comes back has it still."""
        seat = _caller_seat()
        if not 1 <= len(name.strip()) <= 20:
            raise ValueError("A name has 1 to 20 characters")

        def sit(game: Game) -> Game:
            if all(player.seat != seat for player in game.players):
                if len(game.players) == SEATS:
                    raise ValueError("The table is full")
                game.players.append(Player(name=name, seat=seat))
            return game

        await self.update_state(sit)

    @callable()
    async def play(self, column: int) -> None:
        """Drop a disc."""
        seat = _caller_seat()
        await self.update_state(lambda game: game.drop(column, _player_at(game, seat)))

    @callable()
    async def play_again(self) -> None:
        """Begin the next round when one is over."""
        seat = _caller_seat()

        def begin(game: Game) -> Game:
            _player_at(game, seat)
            if game.status not in ("won", "drawn"):
                raise ValueError("The round is not over")
            return game.deal()

        await self.update_state(begin)

    @callable()
    async def leave(self) -> None:
        """Give the seat up, which ends the match; whoever stays waits for another player."""
        seat = _caller_seat()

        def stand_up(game: Game) -> Game:
            staying = [player for player in game.players if player.seat != seat]
            return Game(players=[Player(name=each.name, seat=each.seat) for each in staying])

        await self.update_state(stand_up)


def seat_of(connection_id: str) -> str:
    """Return what others may know of a player's connection, whose id is like a password."""
    return hashlib.sha256(connection_id.encode()).hexdigest()[:16]


def _caller_seat() -> str:
    connection = current_caller().connection
    if connection is None:
        raise ValueError("Players come in through the page")
    return seat_of(connection.id)


def _player_at(game: Game, seat: str) -> int:
    for position, player in enumerate(game.players):
        if player.seat == seat:
            return position
    raise ValueError("You have no seat at this table")


def _renamed(present: Game, following: Game) -> set[str]:
    """Return the seats whose names differ, and `board` if anything else does."""
    changed = {
        player.seat
        for player, now in zip(present.players, following.players, strict=False)
        if player.name != now.name
    }
    unnamed = [
        {
            **game.model_dump(exclude={"players"}),
            "players": [player.model_dump(exclude={"name"}) for player in game.players],
        }
        for game in (present, following)
    ]
    return changed if unnamed[0] == unnamed[1] else {*changed, "board"}
