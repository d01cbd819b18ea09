"""Images as the two dialects write them."""

from __future__ import annotations

import re

from agent_runtime.json_value import Json
from agent_runtime.llm.chat_model import ChatImage

DATA_URL = re.compile(r"data:([^;,]*)(?:;[^;,]*)*;base64,")


def openai_image(image: ChatImage) -> dict[str, Json]:
    """Return an image as a part of a chat message."""
    return {"type": "image_url", "image_url": {"url": image.url}}


def anthropic_image(image: ChatImage) -> dict[str, Json]:
    """Return an image as a block of a message."""
    return {"type": "image", "source": anthropic_source(image.url, image.media_type)}


def anthropic_source(url: str, media_type: str) -> dict[str, Json]:
    """Return where a block's bytes are: in the block, or at an address that the provider reads."""
    inline = DATA_URL.match(url)
    if inline is None:
        return {"type": "url", "url": url}
    return {"type": "base64", "media_type": media_type, "data": url[inline.end() :]}


def is_sendable(url: str, media_type: str) -> bool:
    """Tell whether a file is an image that a model can be given."""
    return media_type.startswith("image/") and is_reachable(url)


def is_reachable(url: str) -> bool:
    """Tell whether a provider can read what is at an address, or in it."""
    return DATA_URL.match(url) is not None or url.startswith(("http:", "https:"))
