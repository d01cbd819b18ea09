"""Databases that keep agents."""

from __future__ import annotations
