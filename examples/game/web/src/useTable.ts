import { useAgent } from "agents/react";
import { useCallback, useEffect, useState } from "react";
import type { Game } from "./game";

const address = new URLSearchParams(location.search);
export const room = address.get("room") || "lobby";
export const isWatching = address.has("watch");
const token = address.get("token");

/** The address of this table for a player or a spectator; a token goes along. */
export function addressOf({ watch }: { watch: string | null }): string {
  const parts = { room, ...(watch && { watch }), ...(token && { token }) };
  return `?${new URLSearchParams(parts)}`;
}

/** One id for each tab: with it a reloaded page gets its seat back. */
function connectionId(): string {
  const key = isWatching ? "spectator" : "player";
  const known = sessionStorage.getItem(key) ?? crypto.randomUUID();
  sessionStorage.setItem(key, known);
  return known;
}

const id = connectionId();
const query: Record<string, string> = {
  ...(isWatching && { watch: "1" }),
  ...(token && { token }),
};

const BROKEN = "Connection closed";

/** The agent of a table, live: its state, our seat, whether we are connected, what was refused. */
export function useTable() {
  const [game, setGame] = useState<Game>();
  const [confirmed, setConfirmed] = useState<Game>();
  const [isLive, setLive] = useState(false);
  const [hasFailed, setFailed] = useState(false);
  const [seat, setSeat] = useState("");
  const [refusal, setRefusal] = useState("");

  const agent = useAgent<Game>({
    agent: "GameAgent",
    name: room,
    id,
    query,
    // The client's own guess is wss for all hosts but those of private networks.
    protocol: location.protocol === "https:" ? "wss" : "ws",
    onStateUpdate: (state, source) => {
      setGame(state);
      if (source === "server") {
        setConfirmed(state);
      }
    },
    // The state we set was shown at once; now it must go again.
    onStateUpdateError: (reason) => {
      setGame(confirmed);
      setRefusal(reason);
    },
    onOpen: () => {
      setLive(true);
      setFailed(false);
    },
    onClose: () => {
      setLive(false);
      setFailed(true);
    },
  });

  const call = useCallback(
    async (method: string, ...args: unknown[]) => {
      setRefusal("");
      try {
        await agent.call(method, args);
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        setRefusal(reason === BROKEN ? "" : reason);
      }
    },
    [agent],
  );

  // Asked for after each break, as the answer to `join` may have been lost in it.
  useEffect(() => {
    if (isLive) {
      agent.call<string>("seat").then(setSeat, () => undefined);
    }
  }, [agent, isLive]);

  const setState = (state: Game) => {
    setRefusal("");
    agent.setState(state);
  };

  const me = game ? game.players.findIndex((player) => player.seat === seat) : -1;
  const error = agent.connectionError;
  return { game, me, isLive, hasFailed, error, refusal, call, setState };
}
