// The state of the agent, as agents.py types it.

export type Place = [column: number, row: number];

export interface Player {
  name: string;
  seat: string;
  wins: number;
}

export interface Game {
  players: Player[];
  status: "waiting" | "playing" | "won" | "drawn";
  turn: number;
  columns: number[][];
  last: Place | null;
  line: Place[];
  rounds: number;
}

export const WIDTH = 7;
export const HEIGHT = 6;
export const SEATS = 2;

/** What the page says above the board. `me` is a position in the players, -1 for none. */
export function headline(game: Game, me: number): string {
  const other = game.players[game.turn]?.name ?? "";
  if (game.status === "waiting") {
    return me < 0 ? "Waiting for players" : "Waiting for another player";
  }
  if (game.status === "drawn") {
    return "A draw: the board is full";
  }
  if (game.status === "won") {
    return game.turn === me ? "You won" : `${other} won`;
  }
  return game.turn === me ? "Your move" : `${other} is to move`;
}

/** The state with a player renamed. */
export function renamed(game: Game, me: number, name: string): Game {
  const players = game.players.map((player, at) => (at === me ? { ...player, name } : player));
  return { ...game, players };
}
