import { useState } from "react";
import { Board } from "./Board";
import { headline, renamed, SEATS } from "./game";
import { NameForm } from "./NameForm";
import { Players } from "./Players";
import { addressOf, isWatching, room, useTable } from "./useTable";

/** The page of one table. */
export function Table() {
  const { game, me, isLive, hasFailed, error, refusal, call, setState } = useTable();
  const [isRenaming, setRenaming] = useState(false);
  // Browsers do not tell a page why a connection was refused.
  const isKeptOut = hasFailed && !game && !error;
  const connection = error ? "refused" : isLive ? "live" : game ? "reconnecting" : "connecting";
  const isOver = game?.status === "won" || game?.status === "drawn";

  return (
    <main>
      <header>
        <h1>Four in a row</h1>
        <span className={`connection ${connection}`} role="status" aria-label="Connection">
          {connection}
        </span>
      </header>
      <p className="room">
        Table <b>{room}</b>
        {isWatching && <span className="watching">you are watching</span>}
      </p>
      {error && <p role="alert">The server closed the connection: {error.message}</p>}
      {isKeptOut && (
        <p role="alert">
          No connection yet; trying again. If the server asks for a token, add
          <code> &token=TOKEN</code> to the address.
        </p>
      )}
      {game && (
        <>
          <Players game={game} me={me} onRename={() => setRenaming(!isRenaming)} />
          <p className="headline" aria-live="polite" aria-label="Game">
            {headline(game, me)}
          </p>
          <Board game={game} isEnabled={isLive} onDrop={(column) => call("play", column)} />
          <p className="refusal" role="alert">
            {refusal && `Refused: ${refusal}`}
          </p>
          {me < 0 && !isWatching && game.players.length < SEATS && (
            <NameForm button="Sit down" isEnabled={isLive} onName={(name) => call("join", name)} />
          )}
          {me >= 0 && isRenaming && (
            <NameForm
              button="Rename"
              initial={game.players[me]?.name}
              isEnabled={isLive}
              onName={(name) => {
                setState(renamed(game, me, name));
                setRenaming(false);
              }}
            />
          )}
          {me >= 0 && (
            <div className="actions">
              {isOver && (
                <button type="button" className="main" onClick={() => call("play_again")}>
                  Play again
                </button>
              )}
              <button type="button" className="quiet" onClick={() => call("leave")}>
                Leave the table
              </button>
            </div>
          )}
          <footer>
            <a href={addressOf({ watch: null })}>Play here</a>
            <a href={addressOf({ watch: "1" })}>Watch</a>
            <span>Open either in another tab or on another machine.</span>
          </footer>
        </>
      )}
    </main>
  );
}
