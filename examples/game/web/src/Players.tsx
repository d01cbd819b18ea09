import { type Game, SEATS } from "./game";

interface Props {
  game: Game;
  me: number;
  onRename: () => void;
}

/** Who sits where, with their wins; the one to move stands out. */
export function Players({ game, me, onRename }: Props) {
  return (
    <ul className="players" aria-label="Players">
      {Array.from({ length: SEATS }, (_, at) => {
        const player = game.players[at];
        const isToMove = game.status === "playing" && game.turn === at;
        return (
          <li key={at} className={isToMove ? "player to-move" : "player"}>
            <span className={`chip disc-${at}`} />
            {player ? (
              <>
                <span className="name">
                  {player.name}
                  {at === me && (
                    <button type="button" className="quiet" onClick={onRename}>
                      you · rename
                    </button>
                  )}
                </span>
                <span className="wins" aria-label={`${player.name}'s wins`}>
                  {player.wins}
                </span>
              </>
            ) : (
              <span className="name empty">empty seat</span>
            )}
          </li>
        );
      })}
    </ul>
  );
}
