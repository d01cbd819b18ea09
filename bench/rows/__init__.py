"""The rows of the table, one module each."""

from __future__ import annotations

import importlib
import pkgutil

from bench.support.row import Row


def all_rows() -> list[Row]:
    """Return every row of this package, in the order of the table."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return [importlib.import_module(f"{__name__}.{name}").ROW for name in names]
