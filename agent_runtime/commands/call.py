"""`agent-runtime call`: calling an agent's method from the shell."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from agent_runtime.commands import options
from agent_runtime.commands.access import Target, open_client, run
from agent_runtime.commands.output import print_json

if TYPE_CHECKING:
    from agent_runtime.json_value import Json

Arguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="ARGUMENT...", help="Each as JSON, or a plain word: 5 ann."),
]


def call(
    class_name: options.AgentClassName,
    name: options.AgentName,
    method: Annotated[str, typer.Argument(metavar="METHOD", help="A @callable method, add.")],
    arguments: Arguments = None,
    key: options.Key = None,
    as_json: options.AsJson = False,
    address: options.Address = None,
    namespace: options.Namespace = None,
    task_queue: options.TaskQueue = None,
    timeout: options.Timeout = None,
) -> None:
    """Call a method of an agent and print what it returns; it runs on if this is interrupted."""
    values = [_read(argument) for argument in arguments or ()]
    target = Target(None, address, namespace, task_queue, timeout)
    agent = options.agent(class_name, name)

    async def send() -> Json:
        async with open_client(target) as client:
            wait = None if timeout is None else timedelta(seconds=timeout)
            handle = client.agent(*agent)
            return await handle.call(method, *values, idempotency_key=key, timeout=wait)

    result = run(send())
    if as_json:
        print_json({"agent": class_name, "name": name, "method": method, "result": result})
    else:
        print_json(result)


def _read(argument: str) -> Json:
    """Read an argument: JSON, or a word, so that a name needs no quotes within quotes.

    Raises:
        NotSerializableError: It begins as JSON does and is none.
    """
    from agent_runtime.errors import NotSerializableError
    from agent_runtime.json_value import from_json

    try:
        return from_json(argument)
    except NotSerializableError as error:
        if argument.lstrip().startswith(("{", "[", '"')):
            raise NotSerializableError(f"the argument {argument!r} is {error.message}") from error
        return argument
