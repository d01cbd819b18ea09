"""Run the benchmark: `python -m bench [ROW ...] [--quick]`."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path

from bench.rows import all_rows
from bench.support.bench import Bench, Scale
from bench.support.row import Row, SkipRow
from bench.support.table import head, lines, skipped


def main() -> int:
    """Measure the rows asked for, print the table, return 1 if a row could not be run."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=main.__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="P1, P2, ...; all without any")
    parser.add_argument("--quick", action="store_true", help="short repetitions, about 3 minutes")
    parser.add_argument("--list", action="store_true", help="name the rows and stop")
    parser.add_argument("--folder", type=Path, help="keep data and logs here")
    parser.add_argument(
        "--peers-python", default=sys.executable, help="interpreter that has the peers' packages"
    )
    parser.add_argument(
        "--reference", metavar="HOST:PORT", help="a running reference server of the wire, for G4"
    )
    options = parser.parse_args()
    rows = all_rows()
    if options.list:
        print("\n".join(f"{row.name:5s} {row.title}" for row in rows))
        return 0
    wanted = {name.upper() for name in options.rows}
    if unknown := wanted - {row.name for row in rows}:
        parser.error(f"no row {', '.join(sorted(unknown))}; see --list")
    chosen = [row for row in rows if not wanted or row.name in wanted]
    scale = Scale.quick() if options.quick else Scale.full()
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
        return asyncio.run(_run(chosen, scale, options.folder, options))
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        return asyncio.run(_run(chosen, scale, Path(folder), options))


async def _run(rows: list[Row], scale: Scale, folder: Path, options: argparse.Namespace) -> int:
    failures = misses = 0
    start = time.monotonic()
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} processors, load average {load:.1f} before the first row")
    print(head(), flush=True)
    async with Bench(folder, scale, options.peers_python, options.reference) as bench:
        for row in rows:
            try:
                figures = await row.run(bench)
            except SkipRow as reason:
                print(skipped(row, str(reason)), flush=True)
                continue
            except Exception as error:  # one broken row must not take the others with it
                failures += 1
                traceback.print_exc()
                print(skipped(row, f"failed: {type(error).__name__}: {error}"), flush=True)
                continue
            misses += sum(figure.verdict == "miss" for figure in figures)
            print("\n".join(lines(row, figures)), flush=True)
    took = time.monotonic() - start
    print(f"{len(rows)} rows in {took:.0f} s, {misses} goals missed, {failures} rows failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
