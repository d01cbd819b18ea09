"""The rows of the table, one module each."""

from __future__ import annotations

import importlib
import pkgutil

from bench.support.row import Row


def all_rows() -> list[Row]:
    """Return every row of this package, in the order of the table."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return [row for module in modules for row in getattr(module, "ROWS", None) or [module.ROW]]
