"""Tests of this tier."""

from __future__ import annotations
