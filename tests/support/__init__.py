"""What several test tiers share."""

from __future__ import annotations
