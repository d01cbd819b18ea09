"""Logging of the program's processes: lines for people, or JSON for machines."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime


class JsonFormatter(logging.Formatter):
    """One JSON object per record: time, level, logger, message, and the traceback if any."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)


def set_up_logging(level: str, log_format: str) -> None:
    """Send log records to stderr.

    Args:
        level: debug, info, warning or error.
        log_format: text or json.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonFormatter()
        if log_format == "json"
        else logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S")
    )
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # What the SDK says of each poll and the server of each start helps nobody below warnings.
    for chatty in ("temporalio", "uvicorn"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, logging.getLogger().level))
