"""Reading storage from the entity's query, so that big states never enter a workflow history.

The worker that hosts entities installs a reader; queries are answered on a thread that is not the
event loop, so the reader may block for a moment.
"""

from __future__ import annotations

from collections.abc import Callable

from agent_runtime.call import CompactionRun
from agent_runtime.errors import InternalError
from agent_runtime.identity import compaction_job_key
from agent_runtime.json_value import from_json, pack

Reader = Callable[[str, str, str], str]

_readers: list[Reader] = []


def install_reader(reader: Reader) -> Callable[[], None]:
    """Let queries of this process be answered by `reader`; returns how to take it out again."""
    _readers.append(reader)
    return lambda: _readers.remove(reader)


def read_directly(agent: str, name: str, request: str) -> str:
    """Answer a read request, JSON text for JSON text.

    Raises:
        InternalError: This process serves no storage.
    """
    if not _readers:
        raise InternalError("this worker cannot read agents; it has no storage")
    return _readers[-1](agent, name, request)


def read_progress(run: CompactionRun, run_id: str, stage: int) -> int:
    """Return how many parts of a compaction's stage are summarized.

    Raises:
        InternalError: This process serves no storage.
    """
    job = compaction_job_key(run.session_id, run.leaf_id, run_id)
    request = {"read": "compaction", "job": job, "stage": stage}
    done: int = from_json(read_directly(run.agent, run.name, pack(request).decode()))
    return done
