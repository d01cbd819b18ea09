"""The models of a process: opened once, closed together."""

from __future__ import annotations

from agent_runtime.llm import ChatMessage, ChatRequest, ModelConfig
from agent_runtime.llm.open_models import OpenModels
from agent_runtime.testing import ScriptedModel, ScriptedModelServer

QUESTION = ChatRequest((ChatMessage("user", "Why?"),))


def test_equal_configurations_are_one_model() -> None:
    """So that all who ask share its connections."""
    models = OpenModels()
    first = models.get(ModelConfig(model="a", extra_body={"effort": "low"}))

    assert models.get(ModelConfig(model="a", extra_body={"effort": "low"})) is first
    assert models.get(ModelConfig(model="a")).model is not first.model


def test_an_open_model_has_no_price() -> None:
    """Nobody told it."""
    opened = OpenModels().get(ScriptedModel(name="mine"))

    assert (opened.config.model, opened.config.input_price) == ("mine", 0.0)


def test_there_is_no_default_unless_one_is_set() -> None:
    """Then it is opened at its first use."""
    models = OpenModels()
    assert models.get_default() is None

    models.default = ModelConfig(model="a")
    opened = models.get_default()
    assert opened is not None and opened.model.name == "a"


async def test_closing_closes_what_was_opened_and_nothing_else() -> None:
    """A model given open is its owner's; one asked after closing is opened again."""
    models, mine = OpenModels(), ScriptedModel()
    models.get(mine)
    async with ScriptedModelServer("one", "two") as server:
        for _ in range(2):
            await models.get(server.config()).model.complete(QUESTION)
            await models.close()

        assert server.connection_count == 2
    assert not mine.is_closed
