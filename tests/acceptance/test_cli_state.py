"""`agent-runtime state` and `agents`, against a real worker and Temporal server."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.service import RPCError, RPCStatusCode

from agent_runtime import Agent, callable
from agent_runtime.errors import MethodNotCallableError, UnknownMethodError
from agent_runtime.identity import AgentRef, workflow_id
from tests.conftest import Serve, Served
from tests.support.eventually import assert_eventually
from tests.support.program import PROGRAM, UNREACHABLE, Ran, run_at_terminal, run_program


class Game(BaseModel):
    """What the test's agent remembers."""

    score: int = 0
    players: list[str] = []


class GameAgent(Agent[Game]):
    """Refuses scores below zero."""

    initial_state = Game()

    def validate_state_change(self, next_state: Game, source: str) -> None:
        """Refuse negative scores."""
        if next_state.score < 0:
            raise ValueError("score cannot be negative")

    @callable()
    async def cheer(self) -> str:
        """Be callable."""
        return "hurray"

    @callable()
    async def echo(self, *values: Any) -> list[Any]:
        """Return what came."""
        return list(values)

    @callable()
    async def count(self) -> int:
        """Count calls in the score."""
        await self.merge_state({"score": self.state.score + 1})
        return self.state.score

    @callable()
    async def fail(self) -> None:
        """Raise."""
        raise ValueError("no luck")

    async def secret(self) -> str:
        """Be not callable."""
        return "hush"


@pytest.fixture
async def served(serve: Serve) -> AsyncIterator[Served]:
    """A worker of the game's agents."""
    async with serve(GameAgent) as running:
        yield running


class Shell:
    """Runs commands on the served agents; from afar, or beside the data directory."""

    def __init__(self, served: Served, cwd: Path) -> None:
        self._served = served
        self._cwd = cwd

    async def __call__(
        self, *arguments: str, is_local: bool = False, address: str | None = None, stdin: str = ""
    ) -> Ran:
        """Run `agent-runtime` with these arguments."""
        variables = {
            "TEMPORAL_ADDRESS": address or self._served.address,
            "AGENT_RUNTIME_TASK_QUEUE": self._served.task_queue,
        }
        if is_local:
            variables["AGENT_RUNTIME_DATA_DIR"] = str(self._served.data_dir)
        return await run_program(*arguments, cwd=self._cwd, variables=variables, stdin=stdin)

    async def type(self, answer: str, *arguments: str) -> Ran:
        """Run `agent-runtime` at a terminal where somebody types an answer."""
        variables = {
            "TEMPORAL_ADDRESS": self._served.address,
            "AGENT_RUNTIME_TASK_QUEUE": self._served.task_queue,
        }
        return await run_at_terminal(*arguments, answer=answer, cwd=self._cwd, variables=variables)


@pytest.fixture
def shell(served: Served, tmp_path: Path) -> Shell:
    """A shell in an empty folder."""
    cwd = tmp_path / "elsewhere"
    cwd.mkdir()
    return Shell(served, cwd)


async def test_a_state_set_by_command_is_read_by_command(shell: Shell) -> None:
    """set, then get through Temporal."""
    await shell("state", "set", "GameAgent", "r", '{"score": 5}')

    got = await shell("state", "get", "GameAgent", "r", "--json")

    assert got.json == {
        "agent": "GameAgent",
        "name": "r",
        "version": 1,
        "is_set": True,
        "value": {"score": 5, "players": []},
    }


async def test_a_state_beside_the_data_directory_is_read_without_temporal(shell: Shell) -> None:
    """get needs no server where the database is."""
    await shell("state", "set", "GameAgent", "r", '{"score": 5}')

    got = await shell(
        "state", "get", "GameAgent", "r", "--json", is_local=True, address=UNREACHABLE
    )

    assert (got.code, got.json["value"]["score"]) == (0, 5)


async def test_a_method_is_called_with_json_and_words(shell: Shell) -> None:
    """A word stands for itself, all else is JSON; the result is printed as JSON."""
    plain = await shell("call", "GameAgent", "r", "echo", "ann", "5", '"5"', '{"a": [null]}')
    negative = await shell("call", "GameAgent", "r", "echo", "--", "-5", "--json")
    fields = await shell("call", "GameAgent", "r", "echo", "--json")
    several = await shell("call", "GameAgent", "r", "cheer", "--timeout", "60")

    assert (plain.code, plain.json) == (0, ["ann", 5, "5", {"a": [None]}])
    assert negative.json == [-5, "--json"]
    assert fields.json == {"agent": "GameAgent", "name": "r", "method": "echo", "result": []}
    assert several.json == "hurray"


async def test_a_call_repeated_with_its_key_prints_the_same_outcome(shell: Shell) -> None:
    """The method ran once."""
    first = await shell("call", "GameAgent", "r", "count", "--key", "k")
    again = await shell("call", "GameAgent", "r", "count", "--key", "k")
    other = await shell("call", "GameAgent", "r", "count")

    assert (first.json, again.json, other.json) == (1, 1, 2)


@pytest.mark.parametrize(
    ("arguments", "code", "kind"),
    [
        (("echo", "{a: 1}"), 2, "NotSerializableError"),
        (("secret",), 2, "MethodNotCallableError"),
        (("nothing",), 2, "UnknownMethodError"),
        (("fail",), 1, "HandlerError"),
    ],
)
async def test_a_call_that_fails_says_so(
    shell: Shell, arguments: tuple[str, ...], code: int, kind: str
) -> None:
    """Arguments that are no JSON, methods that are not there, and what a method raises."""
    refused = await shell("call", "GameAgent", "r", *arguments, "--json")

    assert (refused.code, refused.json["type"]) == (code, kind)


async def test_an_agent_is_deleted_once(shell: Shell) -> None:
    """delete destroys it with its data; a repeat with the key leaves the next one alone."""
    await shell("state", "set", "GameAgent", "r", '{"score": 5}')

    first = await shell("agents", "delete", "GameAgent", "r", "--yes", "--key", "d")
    gone = await shell("state", "get", "GameAgent", "r", is_local=True)
    await shell("state", "set", "GameAgent", "r", '{"score": 6}')
    again = await shell("agents", "delete", "GameAgent", "r", "--yes", "--key", "d", "--json")
    kept = await shell("state", "get", "GameAgent", "r", "--json")

    assert "is destroyed; it was at version 1" in first.out
    assert "has no state yet" in gone.out
    fields = {"version": 1, "applied": False, "duplicate": True}
    assert again.json == {"agent": "GameAgent", "name": "r", **fields}
    assert kept.json["value"]["score"] == 6


@pytest.mark.parametrize(("answer", "code", "version"), [("n", 130, 1), ("y", 0, 0)])
async def test_who_can_be_asked_is_asked(
    shell: Shell, answer: str, code: int, version: int
) -> None:
    """At a terminal delete asks first; anything but yes leaves the agent alone."""
    await shell("state", "set", "GameAgent", "r", '{"score": 5}')

    ran = await shell.type(answer, "agents", "delete", "GameAgent", "r")

    assert (ran.code, "Destroy GameAgent/r" in ran.out) == (code, True)
    got = await shell("state", "get", "GameAgent", "r", "--json", is_local=True)
    assert got.json["version"] == version


@pytest.mark.parametrize("as_json", [[], ["--json"]])
async def test_nothing_is_deleted_unless_somebody_is_sure(shell: Shell, as_json: list[str]) -> None:
    """Where nobody can be asked, delete needs --yes."""
    await shell("state", "set", "GameAgent", "r", '{"score": 5}')

    ran = await shell("agents", "delete", "GameAgent", "r", *as_json)

    assert (ran.code, "--yes" in ran.out + ran.err) == (2, True)
    assert (await shell("state", "get", "GameAgent", "r", "--json")).json["version"] == 1


@pytest.mark.parametrize("is_local", [True, False])
async def test_an_earlier_version_is_read(shell: Shell, is_local: bool) -> None:
    """get --version goes back, by either way."""
    await shell("state", "set", "GameAgent", "r", '{"score": 5}')
    await shell("state", "merge", "GameAgent", "r", '{"score": 6}')

    got = await shell(
        "state", "get", "GameAgent", "r", "--version", "1", "--json", is_local=is_local
    )

    assert (got.json["version"], got.json["value"]["score"]) == (1, 5)


@pytest.mark.parametrize("is_local", [True, False])
async def test_history_shows_the_newest_first(shell: Shell, is_local: bool) -> None:
    """history lists kinds and versions, --limit and --newest page through."""
    await shell("state", "set", "GameAgent", "r", '{"score": 5}')
    await shell("state", "merge", "GameAgent", "r", '{"score": 6}', "--key", "k-1")
    await shell("state", "reset", "GameAgent", "r")

    got = await shell(
        "state", "history", "GameAgent", "r", "--newest", "2", "--json", is_local=is_local
    )

    listed = [(entry["version"], entry["kind"], entry["key"]) for entry in got.json["history"]]
    assert listed[0] == (2, "merge", "k-1")
    assert [version for version, _, _ in listed] == [2, 1]


async def test_the_table_of_history_shows_changed_keys(shell: Shell) -> None:
    """Without --json people get a table."""
    await shell("state", "set", "GameAgent", "r", '{"score": 5}')

    got = await shell("state", "history", "GameAgent", "r", is_local=True)

    assert (got.code, '{"score": 5, "players": []}' in got.out) == (0, True)


async def test_a_repeat_with_the_same_key_changes_nothing(shell: Shell) -> None:
    """--key makes a command safe to repeat."""
    await shell("state", "merge", "GameAgent", "r", '{"score": 1}', "--key", "k")
    await shell("state", "merge", "GameAgent", "r", '{"score": 2}')

    again = await shell("state", "merge", "GameAgent", "r", '{"score": 1}', "--key", "k", "--json")

    assert (again.code, again.json["duplicate"], again.json["version"]) == (0, True, 2)


async def test_the_value_is_read_from_stdin(shell: Shell) -> None:
    """A dash stands for stdin."""
    await shell("state", "set", "GameAgent", "r", "-", stdin='{"score": 9}')

    got = await shell("state", "get", "GameAgent", "r", "--json")

    assert got.json["value"]["score"] == 9


async def test_a_refusal_is_code_1_and_one_line(shell: Shell) -> None:
    """The validator's reason reaches stderr, without a traceback."""
    got = await shell("state", "set", "GameAgent", "r", '{"score": -1}')

    assert (got.code, got.out) == (1, "")
    assert got.err == "agent-runtime: StateRejectedError: score cannot be negative\n"


async def test_a_refusal_as_json_goes_to_stdout(shell: Shell) -> None:
    """With --json errors are objects with type and message."""
    got = await shell("state", "set", "GameAgent", "r", '{"score": -1}', "--json")

    assert (got.code, got.err) == (1, "")
    assert got.json == {"type": "StateRejectedError", "message": "score cannot be negative"}


async def test_another_version_than_expected_is_code_1(shell: Shell) -> None:
    """--expected-version refuses a lost race, naming both versions."""
    await shell("state", "set", "GameAgent", "r", '{"score": 5}')

    got = await shell(
        "state", "set", "GameAgent", "r", '{"score": 6}', "--expected-version", "7", "--json"
    )

    assert (got.code, got.json["type"]) == (1, "VersionConflictError")
    assert got.json["details"] == {"expected": 7, "actual": 1}


async def test_an_unknown_class_is_code_2(shell: Shell) -> None:
    """The message says what the worker serves."""
    got = await shell("state", "set", "NoAgent", "r", "{}")

    assert (got.code, "this worker serves: GameAgent" in got.err) == (2, True)


async def test_a_state_over_the_limit_is_code_2(shell: Shell) -> None:
    """The message names size and limit."""
    big = '{"players": ["' + "x" * 2_100_000 + '"]}'

    got = await shell("state", "set", "GameAgent", "r", "-", "--json", stdin=big)

    assert (got.code, got.json["type"]) == (2, "StateTooLargeError")
    assert got.json["details"]["limit"] == 2_000_000


@pytest.mark.parametrize("is_local", [True, False])
async def test_agents_are_listed(shell: Shell, is_local: bool) -> None:
    """agents list names every agent, by either way."""
    await shell("state", "set", "GameAgent", "a", "{}")
    await shell("state", "set", "GameAgent", "b/ö [red]", "{}")

    got = await shell("agents", "list", "--json", is_local=is_local)

    assert sorted(row["name"] for row in got.json["agents"]) == ["a", "b/ö [red]"]


async def test_an_agent_is_described(shell: Shell) -> None:
    """agents describe tells version, size and whether its entity is awake."""
    await shell("state", "set", "GameAgent", "a", '{"score": 5}')

    got = await shell("agents", "describe", "GameAgent", "a", "--json", is_local=True)

    assert (got.json["version"], got.json["state_bytes"]) == (1, len('{"score":5,"players":[]}'))
    assert got.json["entity"].startswith("awake")


async def test_describe_does_without_temporal(shell: Shell) -> None:
    """What storage knows is told also while Temporal is away."""
    await shell("state", "set", "GameAgent", "a", '{"score": 5}')

    got = await shell(
        "agents", "describe", "GameAgent", "a", "--json", is_local=True, address=UNREACHABLE
    )

    assert (got.code, got.json["version"]) == (0, 1)
    assert got.json["entity"] == "unknown: Temporal does not answer"


async def test_a_name_cannot_steer_the_terminal(shell: Shell) -> None:
    """Control characters of names are shown, not sent."""
    await shell("state", "set", "GameAgent", "a\x1b[2J\nb", "{}")

    got = await shell("agents", "list", is_local=True)

    assert (got.code, "\x1b" in got.out, r"a\x1b[2J\nb" in got.out) == (0, False, True)


async def test_a_closed_pipe_is_no_error(shell: Shell, served: Served, tmp_path: Path) -> None:
    """`agent-runtime ... | head -1` ends quietly."""
    await shell("state", "set", "GameAgent", "a", "{}")
    program = shlex.join((*PROGRAM, "agents", "list", "--data-dir", str(served.data_dir)))

    ran = await run_program("-c", f"{program} | true", cwd=tmp_path, command=("/bin/sh",))

    assert ran.err == ""


async def test_short_runs_never_abort_at_exit(shell: Shell) -> None:
    """Twenty runs that use the Temporal SDK all end with 0 (the SDK alone aborts some)."""
    codes = [
        (await shell("state", "merge", "GameAgent", "r", '{"score": 1}')).code for _ in range(20)
    ]

    assert codes == [0] * 20


async def test_an_unknown_method_is_named(served: Served) -> None:
    """Calling what is not there is refused at once."""
    with pytest.raises(UnknownMethodError, match="Method no_such does not exist"):
        await served.client.agent("GameAgent", "r").call("no_such")


async def test_an_unmarked_method_is_not_callable(served: Served) -> None:
    """Calling what is not marked is refused at once."""
    with pytest.raises(MethodNotCallableError, match="Method secret is not callable"):
        await served.client.agent("GameAgent", "r").call("secret")


async def test_history_is_read_after_temporal_has_forgotten_the_agent(
    served: Served, shell: Shell
) -> None:
    """An entity that ended before the namespace's retention is no reason to show nothing."""
    await shell("state", "set", "GameAgent", "r", '{"score": 5}')
    await forget_entity(served, "r")

    history = await shell("state", "history", "GameAgent", "r", "--json")
    assert [entry["version"] for entry in history.json["history"]] == [1]

    await forget_entity(served, "r")
    earlier = await shell("state", "get", "GameAgent", "r", "--version", "1", "--json")
    assert earlier.json["value"]["score"] == 5


async def forget_entity(served: Served, name: str) -> None:
    """Delete the entity's run, as retention does."""
    temporal = served.client.temporal
    handle = temporal.get_workflow_handle(
        workflow_id(served.task_queue, AgentRef("GameAgent", name))
    )
    await temporal.workflow_service.delete_workflow_execution(
        DeleteWorkflowExecutionRequest(
            namespace=temporal.namespace,
            workflow_execution=WorkflowExecution(workflow_id=handle.id),
        )
    )

    async def is_forgotten() -> None:
        try:
            await handle.describe()
        except RPCError as error:
            assert error.status is RPCStatusCode.NOT_FOUND
            return
        raise AssertionError("it is still known")

    await assert_eventually(is_forgotten)
