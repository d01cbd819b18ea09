"""Agents over a gateway, for Python programs that reach neither Temporal nor the storage."""
