"""Node's packages for tests, installed beside the `package.json` that names them."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest

NODE = (20, 19)
_OPTIONS = ("--legacy-peer-deps", "--no-package-lock", "--ignore-scripts", "--no-audit")


def need(*names: str, package: str) -> str:
    """Return the path of the first program that there is.

    Without any, the test is skipped on a developer's machine, and fails where CI is set.
    """
    for name in names:
        if found := shutil.which(name):
            return found
    missing(f"{names[0]} is not there; on Debian: apt-get install {package}")


def need_node() -> str:
    """Return the path of Node, of a version that the builds can use, as `need` does."""
    node = need("node", package="nodejs")
    printed = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    version = tuple(int(part) for part in printed.strip().lstrip("v").split(".")[:2])
    if version < NODE:
        missing(f"Node {printed.strip()} is too old; {NODE[0]}.{NODE[1]} or later is needed")
    return node


def missing(reason: str) -> NoReturn:
    """Skip the test for want of a program, or fail it where CI is set."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


async def install(folder: Path) -> None:
    """Install the packages of a folder, unless they are there already."""
    need_node()
    npm = need("npm", package="npm")
    stamp = folder / "node_modules" / ".installed"
    wanted = hashlib.sha256((folder / "package.json").read_bytes()).hexdigest()
    if not stamp.is_file() or stamp.read_text() != wanted:
        await run(npm, "install", *_OPTIONS, cwd=folder)
        stamp.write_text(wanted)


async def run(program: str, *arguments: str, cwd: Path) -> str:
    """Run a program to its end and return what it printed."""
    process = await asyncio.create_subprocess_exec(
        program,
        *arguments,
        cwd=cwd,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, output.decode()[-3000:]
    return output.decode()
