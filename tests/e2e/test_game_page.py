"""The game's page in a real browser: built with Vite, served by the gateway, played in tabs."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest
from playwright.async_api import Browser, Locator, Page, async_playwright, expect

from agent_runtime.local.temporal_server import TemporalServer, free_port
from tests.support import npm
from tests.support.program import Running, running

GAME = Path(__file__).parents[2] / "examples" / "game"
AGENTS = str(GAME / "agents.py")
PHONE = {"width": 390, "height": 844}

# As root the sandbox refuses to start; the rest keeps the browser from calling home.
FLAGS = [
    *(["--no-sandbox"] if os.geteuid() == 0 else []),
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]

expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
async def page_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page as Vite builds it."""
    web = GAME / "web"
    await npm.install(web)
    folder = tmp_path_factory.mktemp("page")
    vite = web / "node_modules" / "vite" / "bin" / "vite.js"
    compiler = web / "node_modules" / "typescript" / "bin" / "tsc"
    await npm.run(npm.need_node(), str(compiler), cwd=web)
    await npm.run(npm.need_node(), str(vite), "build", "--outDir", str(folder), cwd=web)
    return folder


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    """Chromium without a screen."""
    program = npm.need("chromium", "chromium-browser", "google-chrome", package="chromium")
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield launched
        await launched.close()


class Table:
    """One page of the game, as a person sees it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.connection = page.get_by_label("Connection")
        self.headline = page.get_by_label("Game", exact=True)
        self.players = page.get_by_label("Players").get_by_role("listitem")
        self.refusal = page.locator(".refusal")

    def column(self, number: int) -> Locator:
        """Return a column; its label tells whose discs are in it, from the bottom."""
        return self.page.get_by_role("button", name=re.compile(f"^Column {number}:"))

    async def sit_down(self, name: str) -> None:
        """Join under a name."""
        await self.page.get_by_label("Your name").fill(name)
        await self.page.get_by_role("button", name="Sit down").click()
        await expect(self.players.filter(has_text=name)).to_contain_text("you")

    async def drop(self, number: int) -> None:
        """Play a column when it is our turn."""
        await expect(self.headline).to_have_text("Your move")
        await self.column(number).click()

    async def expect_column(self, number: int, discs: str) -> None:
        """Wait until a column holds discs, which is how another player's move arrives."""
        await expect(self.column(number)).to_have_attribute(
            "aria-label", f"Column {number}: {discs}"
        )


@dataclass
class Site:
    """A gateway in a process of its own, the worker behind it, and the browser."""

    browser: Browser
    folder: Path
    page_folder: Path
    place: list[str]
    port: int
    stack: AsyncExitStack
    gateway: Running | None = None

    async def start_gateway(self, *options: str) -> None:
        """Serve the page and the agents, at the same address each time."""
        options += ("--port", str(self.port), "--static", str(self.page_folder))
        self.gateway = await self.stack.enter_async_context(
            running("gateway", AGENTS, *options, *self.place, cwd=self.folder)
        )
        await self.gateway.line_with("READY")

    async def kill_gateway(self) -> None:
        """End the gateway as the kernel would."""
        assert self.gateway is not None
        assert await self.gateway.end(signal.SIGKILL) == -signal.SIGKILL

    async def open(self, query: str = "", *, connection: str = "live") -> Table:
        """Open the page in a browser window of its own, as another person would."""
        context = await self.browser.new_context(viewport=PHONE)  # type: ignore[arg-type]
        self.stack.push_async_callback(context.close)
        page = await context.new_page()
        await page.goto(f"http://127.0.0.1:{self.port}/?room=kitchen{query}")
        table = Table(page)
        await expect(table.connection).to_have_text(connection)
        return table

    async def open_two_players(self) -> tuple[Table, Table]:
        """Open the page twice and let Ada and Bob sit down; Ada begins."""
        ada, bob = await self.open(), await self.open()
        await ada.sit_down("Ada")
        await expect(ada.headline).to_have_text("Waiting for another player")
        await bob.sit_down("Bob")
        return ada, bob


@pytest.fixture
async def site(
    temporal: TemporalServer, browser: Browser, page_folder: Path, tmp_path: Path
) -> AsyncIterator[Site]:
    """The game as it is run: a worker and a gateway, each a process, on data of their own."""
    place = ["--address", temporal.address, "--namespace", "default"]
    place += ["--data-dir", str(tmp_path / "data"), "--task-queue", f"game-{uuid4().hex[:12]}"]
    async with AsyncExitStack() as stack:
        worker = await stack.enter_async_context(running("worker", AGENTS, *place, cwd=tmp_path))
        await worker.line_with("READY")
        site = Site(browser, tmp_path, page_folder, place, free_port(), stack)
        await site.start_gateway()
        yield site


async def test_players_see_each_others_moves_to_the_end_of_a_round(site: Site) -> None:
    """Two tabs play a round; each sees the other's discs, whose turn it is, and the score."""
    ada, bob = await site.open_two_players()

    for discs in ("Ada", "Ada, Ada", "Ada, Ada, Ada"):
        await ada.drop(4)
        await bob.expect_column(4, discs)
        await expect(ada.headline).to_have_text("Bob is to move")
        await bob.drop(5)
        await ada.expect_column(5, discs.replace("Ada", "Bob"))
    await ada.drop(4)

    await expect(ada.headline).to_have_text("You won")
    await expect(bob.headline).to_have_text("Ada won")
    await expect(bob.page.get_by_label("Ada's wins")).to_have_text("1")
    await expect(bob.page.locator(".winning")).to_have_count(4)

    await bob.page.get_by_role("button", name="Play again").click()
    await expect(bob.headline).to_have_text("Your move")
    await ada.expect_column(4, "empty")


async def test_refused_moves_are_told_to_who_made_them(site: Site) -> None:
    """Out of turn, without a seat and in a full column: each is refused with its reason."""
    ada, bob = await site.open_two_players()
    third = await site.open()
    await expect(third.page.get_by_role("button", name="Sit down")).to_have_count(0)

    await bob.column(1).click()
    await expect(bob.refusal).to_have_text("Refused: It is Ada's turn")
    await third.column(1).click()
    await expect(third.refusal).to_have_text("Refused: You have no seat at this table")
    await expect(ada.refusal).to_have_text("")

    for _ in range(3):
        await ada.drop(1)
        await bob.drop(1)
    await ada.drop(1)
    await expect(ada.refusal).to_have_text("Refused: Column 1 is full")
    await third.expect_column(1, "Ada, Bob, Ada, Bob, Ada, Bob")


async def test_a_spectator_sees_all_and_can_move_nothing(site: Site) -> None:
    """With `watch` in the address the connection is read-only, and is told so."""
    ada, bob = await site.open_two_players()
    watcher = await site.open("&watch=1")
    await expect(watcher.page.get_by_text("you are watching")).to_be_visible()

    await ada.drop(3)
    await watcher.expect_column(3, "Ada")
    await watcher.column(3).click()
    await expect(watcher.refusal).to_have_text("Refused: Connection is readonly")

    await bob.drop(3)
    await watcher.expect_column(3, "Ada, Bob")


async def test_a_name_that_is_refused_is_taken_back(site: Site) -> None:
    """The page sets the state itself to rename; the validator lets it, or the old name returns."""
    ada, bob = await site.open_two_players()

    async def rename(name: str) -> None:
        await bob.page.get_by_role("button", name="you · rename").click()
        await bob.page.get_by_label("Your name").fill(name)
        await bob.page.get_by_role("button", name="Rename", exact=True).click()

    await rename("Ada")
    await expect(bob.refusal).to_have_text("Refused: State update rejected")
    await expect(bob.players.nth(1)).to_contain_text("Bob")
    await rename("Eve")
    await expect(ada.players.nth(1)).to_contain_text("Eve")
    await expect(bob.refusal).to_have_text("")


async def test_pages_come_back_when_the_gateway_was_killed(site: Site) -> None:
    """The pages say that they are cut off, connect again by themselves, and the round goes on."""
    ada, bob = await site.open_two_players()
    watcher = await site.open("&watch=1")
    await ada.drop(4)
    await bob.expect_column(4, "Ada")

    await site.kill_gateway()
    for table in (ada, bob, watcher):
        await expect(table.connection).to_have_text("reconnecting")
        await expect(table.column(4)).to_be_disabled()
    await site.start_gateway()
    for table in (ada, bob, watcher):
        await expect(table.connection).to_have_text("live")

    await bob.drop(4)
    for table in (ada, watcher):
        await table.expect_column(4, "Ada, Bob")
    await watcher.column(4).click()
    await expect(watcher.refusal).to_have_text("Refused: Connection is readonly")


async def test_a_page_without_the_token_says_what_to_do(site: Site) -> None:
    """Nobody is let in without the token; with a read-only one there is only watching."""
    await site.kill_gateway()
    tokens = site.folder / "tokens"
    tokens.write_text("full of-those-who-play\nreadonly of-those-who-watch\n")
    await site.start_gateway("--token-file", str(tokens))

    stranger = await site.open(connection="connecting")
    await expect(stranger.page.get_by_role("alert")).to_contain_text("No connection yet")
    player = await site.open("&token=of-those-who-play")
    await player.sit_down("Ada")
    watcher = await site.open("&token=of-those-who-watch")
    await watcher.column(1).click()

    await expect(watcher.refusal).to_have_text("Refused: Connection is readonly")
    await expect(watcher.players.nth(0)).to_contain_text("Ada")
    link = watcher.page.get_by_role("link", name="Watch")
    await expect(link).to_have_attribute("href", "?room=kitchen&watch=1&token=of-those-who-watch")


async def test_a_reloaded_page_has_its_seat_still(site: Site) -> None:
    """Who reloads the page is the same player, and who leaves makes room for another."""
    ada, bob = await site.open_two_players()

    await ada.page.reload()
    await ada.drop(2)
    await bob.expect_column(2, "Ada")

    await ada.page.get_by_role("button", name="Leave the table").click()
    await expect(bob.headline).to_have_text("Waiting for another player")
    await ada.sit_down("Cy")
    await expect(bob.headline).to_have_text("Your move")


async def test_the_page_fits_a_phone(site: Site) -> None:
    """Nothing sticks out to the side, columns are as wide as a finger, and nothing is logged."""
    ada, bob = await site.open_two_players()
    complaints: list[str] = []
    bob.page.on("console", lambda message: complaints.append(message.text))
    bob.page.on("pageerror", lambda error: complaints.append(str(error)))
    await bob.page.reload()
    await ada.drop(7)
    await bob.expect_column(7, "Ada")

    box = await bob.column(7).bounding_box()
    width = await bob.page.evaluate("document.documentElement.scrollWidth")

    assert box is not None
    assert width == PHONE["width"]
    assert box["width"] >= 44
    assert complaints == []
