"""Conversations: message trees, context blocks, frozen prompts, tools, skills and search.

Names are loaded on first use; so optional libraries are needed by those only that use them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

_HOME = {
    "AUTO": "parent",
    "AppendResult": "session_provider",
    "Compaction": "session_provider",
    "ContextBlock": "context_block",
    "ContextConfig": "context_block",
    "ContextProvider": "context_provider",
    "DirectSessionStore": "direct_session_store",
    "FolderStore": "folder_store",
    "HistoryCompacted": "session_events",
    "HistoryPage": "session_provider",
    "Message": "message",
    "MessageAppended": "session_events",
    "MessageUpdated": "session_events",
    "MessagesCleared": "session_events",
    "MessagesDeleted": "session_events",
    "ModelUsage": "model_usage",
    "ObjectStoreSkillProvider": "object_store_skills",
    "ObstoreStore": "obstore_store",
    "Parent": "parent",
    "PostgresConnection": "postgres_connection",
    "PostgresContextProvider": "postgres_providers",
    "PostgresSearchProvider": "postgres_providers",
    "PostgresSessionProvider": "postgres_providers",
    "PostgresSessionStore": "postgres_session_store",
    "PromptStore": "context_provider",
    "RecentHistory": "session_provider",
    "ReferencePostgresSession": "reference_session",
    "RowStats": "session_provider",
    "SearchContextProvider": "context_provider",
    "SearchHit": "session_provider",
    "Session": "session",
    "SessionEvent": "session_events",
    "SessionManager": "session_manager",
    "SessionProvider": "session_provider",
    "SessionRecord": "session_record",
    "SessionStore": "session_store",
    "SkillProvider": "context_provider",
    "StaticContextProvider": "static_context",
    "StoredContextProvider": "stored_context",
    "StoredPrompt": "context_provider",
    "StoredPromptStore": "stored_context",
    "StoredSearchProvider": "stored_context",
    "StoredSessionProvider": "stored_session",
    "Tool": "tool",
    "WritableContextProvider": "context_provider",
    "anthropic_messages": "provider_messages",
    "assemble_model_messages": "model_messages",
    "enforce_row_size_limit": "row_guard",
    "export_session": "session_export",
    "import_reference_postgres": "reference_postgres",
    "import_reference_tables": "reference_import",
    "import_session": "session_import",
    "is_search_provider": "context_provider",
    "is_skill_provider": "context_provider",
    "is_writable_provider": "context_provider",
    "message_text": "message",
    "open_session_store": "direct_session_store",
    "openai_messages": "provider_messages",
    "text_message": "message",
    "to_anthropic_tool": "tool",
    "to_model_messages": "model_messages",
    "to_openai_tool": "tool",
    "truncate_older_messages": "truncation",
    "truncate_tool_output": "truncation",
}

__all__ = [
    "AUTO",
    "AppendResult",
    "Compaction",
    "ContextBlock",
    "ContextConfig",
    "ContextProvider",
    "DirectSessionStore",
    "FolderStore",
    "HistoryCompacted",
    "HistoryPage",
    "Message",
    "MessageAppended",
    "MessageUpdated",
    "MessagesCleared",
    "MessagesDeleted",
    "ModelUsage",
    "ObjectStoreSkillProvider",
    "ObstoreStore",
    "Parent",
    "PostgresConnection",
    "PostgresContextProvider",
    "PostgresSearchProvider",
    "PostgresSessionProvider",
    "PostgresSessionStore",
    "PromptStore",
    "RecentHistory",
    "ReferencePostgresSession",
    "RowStats",
    "SearchContextProvider",
    "SearchHit",
    "Session",
    "SessionEvent",
    "SessionManager",
    "SessionProvider",
    "SessionRecord",
    "SessionStore",
    "SkillProvider",
    "StaticContextProvider",
    "StoredContextProvider",
    "StoredPrompt",
    "StoredPromptStore",
    "StoredSearchProvider",
    "StoredSessionProvider",
    "Tool",
    "WritableContextProvider",
    "anthropic_messages",
    "assemble_model_messages",
    "enforce_row_size_limit",
    "export_session",
    "import_reference_postgres",
    "import_reference_tables",
    "import_session",
    "is_search_provider",
    "is_skill_provider",
    "is_writable_provider",
    "message_text",
    "open_session_store",
    "openai_messages",
    "text_message",
    "to_anthropic_tool",
    "to_model_messages",
    "to_openai_tool",
    "truncate_older_messages",
    "truncate_tool_output",
]

if TYPE_CHECKING:
    from agent_runtime.session.context_block import ContextBlock as ContextBlock
    from agent_runtime.session.context_block import ContextConfig as ContextConfig
    from agent_runtime.session.context_provider import ContextProvider as ContextProvider
    from agent_runtime.session.context_provider import PromptStore as PromptStore
    from agent_runtime.session.context_provider import (
        SearchContextProvider as SearchContextProvider,
    )
    from agent_runtime.session.context_provider import SkillProvider as SkillProvider
    from agent_runtime.session.context_provider import StoredPrompt as StoredPrompt
    from agent_runtime.session.context_provider import (
        WritableContextProvider as WritableContextProvider,
    )
    from agent_runtime.session.context_provider import is_search_provider as is_search_provider
    from agent_runtime.session.context_provider import is_skill_provider as is_skill_provider
    from agent_runtime.session.context_provider import is_writable_provider as is_writable_provider
    from agent_runtime.session.direct_session_store import DirectSessionStore as DirectSessionStore
    from agent_runtime.session.direct_session_store import open_session_store as open_session_store
    from agent_runtime.session.folder_store import FolderStore as FolderStore
    from agent_runtime.session.message import Message as Message
    from agent_runtime.session.message import message_text as message_text
    from agent_runtime.session.message import text_message as text_message
    from agent_runtime.session.model_messages import (
        assemble_model_messages as assemble_model_messages,
    )
    from agent_runtime.session.model_messages import to_model_messages as to_model_messages
    from agent_runtime.session.model_usage import ModelUsage as ModelUsage
    from agent_runtime.session.object_store_skills import (
        ObjectStoreSkillProvider as ObjectStoreSkillProvider,
    )
    from agent_runtime.session.obstore_store import ObstoreStore as ObstoreStore
    from agent_runtime.session.parent import AUTO as AUTO
    from agent_runtime.session.parent import Parent as Parent
    from agent_runtime.session.postgres_connection import PostgresConnection as PostgresConnection
    from agent_runtime.session.postgres_providers import (
        PostgresContextProvider as PostgresContextProvider,
    )
    from agent_runtime.session.postgres_providers import (
        PostgresSearchProvider as PostgresSearchProvider,
    )
    from agent_runtime.session.postgres_providers import (
        PostgresSessionProvider as PostgresSessionProvider,
    )
    from agent_runtime.session.postgres_session_store import (
        PostgresSessionStore as PostgresSessionStore,
    )
    from agent_runtime.session.provider_messages import anthropic_messages as anthropic_messages
    from agent_runtime.session.provider_messages import openai_messages as openai_messages
    from agent_runtime.session.reference_import import (
        import_reference_tables as import_reference_tables,
    )
    from agent_runtime.session.reference_postgres import (
        import_reference_postgres as import_reference_postgres,
    )
    from agent_runtime.session.reference_session import (
        ReferencePostgresSession as ReferencePostgresSession,
    )
    from agent_runtime.session.row_guard import enforce_row_size_limit as enforce_row_size_limit
    from agent_runtime.session.session import Session as Session
    from agent_runtime.session.session_events import HistoryCompacted as HistoryCompacted
    from agent_runtime.session.session_events import MessageAppended as MessageAppended
    from agent_runtime.session.session_events import MessagesCleared as MessagesCleared
    from agent_runtime.session.session_events import MessagesDeleted as MessagesDeleted
    from agent_runtime.session.session_events import MessageUpdated as MessageUpdated
    from agent_runtime.session.session_events import SessionEvent as SessionEvent
    from agent_runtime.session.session_export import export_session as export_session
    from agent_runtime.session.session_import import import_session as import_session
    from agent_runtime.session.session_manager import SessionManager as SessionManager
    from agent_runtime.session.session_provider import AppendResult as AppendResult
    from agent_runtime.session.session_provider import Compaction as Compaction
    from agent_runtime.session.session_provider import HistoryPage as HistoryPage
    from agent_runtime.session.session_provider import RecentHistory as RecentHistory
    from agent_runtime.session.session_provider import RowStats as RowStats
    from agent_runtime.session.session_provider import SearchHit as SearchHit
    from agent_runtime.session.session_provider import SessionProvider as SessionProvider
    from agent_runtime.session.session_record import SessionRecord as SessionRecord
    from agent_runtime.session.session_store import SessionStore as SessionStore
    from agent_runtime.session.static_context import StaticContextProvider as StaticContextProvider
    from agent_runtime.session.stored_context import StoredContextProvider as StoredContextProvider
    from agent_runtime.session.stored_context import StoredPromptStore as StoredPromptStore
    from agent_runtime.session.stored_context import StoredSearchProvider as StoredSearchProvider
    from agent_runtime.session.stored_session import StoredSessionProvider as StoredSessionProvider
    from agent_runtime.session.tool import Tool as Tool
    from agent_runtime.session.tool import to_anthropic_tool as to_anthropic_tool
    from agent_runtime.session.tool import to_openai_tool as to_openai_tool
    from agent_runtime.session.truncation import truncate_older_messages as truncate_older_messages
    from agent_runtime.session.truncation import truncate_tool_output as truncate_tool_output


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
