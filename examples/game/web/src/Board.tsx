import { type Game, HEIGHT, type Place, WIDTH } from "./game";

interface Props {
  game: Game;
  isEnabled: boolean;
  onDrop: (column: number) => void;
}

/** The columns; each is a button. Whether a move is allowed is for the agent to say. */
export function Board({ game, isEnabled, onDrop }: Props) {
  const isIn = (places: Place[], column: number, row: number) =>
    places.some(([c, r]) => c === column && r === row);

  const disc = (column: number, row: number) => {
    const owner = game.columns[column]?.[row];
    if (owner === undefined) {
      return <span key={row} className="hole" />;
    }
    const marks = [
      isIn(game.line, column, row) && "winning",
      game.last && isIn([game.last], column, row) && "last",
    ];
    return (
      <span key={row} className={["hole", `disc-${owner}`, ...marks].filter(Boolean).join(" ")} />
    );
  };

  return (
    <div className="board" role="group" aria-label="Board">
      {Array.from({ length: WIDTH }, (_, column) => {
        const discs = (game.columns[column] ?? []).map((owner) => game.players[owner]?.name ?? "");
        const label = `Column ${column + 1}: ${discs.join(", ") || "empty"}`;
        return (
          <button
            key={column}
            className="column"
            type="button"
            aria-label={label}
            disabled={!isEnabled}
            onClick={() => onDrop(column)}
          >
            {Array.from({ length: HEIGHT }, (_, row) => disc(column, HEIGHT - 1 - row))}
          </button>
        );
      })}
    </div>
  );
}
