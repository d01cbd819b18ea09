"""The address of a PostgreSQL database, and what may be said of it: it holds a password."""

from __future__ import annotations

from urllib.parse import urlsplit

from agent_runtime.errors import ConfigurationError

EXAMPLE = "postgresql://user:password@host:5432/database"


def is_database_url(url: str) -> bool:
    """Tell whether a text looks like the address of a database."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("postgresql", "postgres") and parts.path.strip("/") != ""


def check_url(url: str) -> None:
    """Refuse what is no address of a database, without repeating it.

    Raises:
        ConfigurationError: Says what an address looks like.
    """
    if not is_database_url(url):
        raise ConfigurationError(f"the database URL must look like {EXAMPLE}")


def place_of(url: str) -> str:
    """Return what messages call the database: host and name, never user or password."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2] or "local socket"
    return f"PostgreSQL {host}{parts.path}"
