"""Commands that show leaderboards, rankings, tasks and submissions."""

from __future__ import annotations

import asyncio
import io
import zipfile
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import discord
from discord import ui

from kernelcup.app.courses import joining
from kernelcup.app.submissions import withdrawal
from kernelcup.bot.api import Person
from kernelcup.bot.commands import rankings
from kernelcup.bot.commands.autocomplete import is_over, visible_boards
from kernelcup.bot.context import Parts
from kernelcup.bot.delivery.progress_message import MODES, Live, render
from kernelcup.bot.messages import boards as boards_text
from kernelcup.bot.messages import replies, reports, texts
from kernelcup.bot.messages.dialogs import Menu
from kernelcup.bot.messages.replies import answer, think, who
from kernelcup.bot.messages.texts import Attached
from kernelcup.client.requests import path_of
from kernelcup.domain import RankedBy
from kernelcup.errors import InvalidValue, NotFound, UserError
from kernelcup.reporting.phrases import CORRECT, plural, rank_text, score_value
from kernelcup.reporting.words import outcome_text

BOARDS_A_PAGE = 5
MOST_AT_ONCE = 10
PERSONAL_SHOWN = 15
MOST_FILES = 40
"""Files of a task that are sent; the web has all."""


async def list_boards(interaction: discord.Interaction, parts: Parts) -> None:
    """Show the leaderboards that the person may see, open ones first."""
    await think(interaction)
    found = sorted(await visible_boards(parts.api, who(interaction)), key=is_over)
    pager = BoardPages(interaction, parts, found)
    await answer(interaction, embed=pager.embed(), view=pager if pager.pages > 1 else None)


async def show(
    interaction: discord.Interaction, parts: Parts, board: str, *, gpu: str | None, image: bool
) -> None:
    """Show rankings; a menu asks which if a leaderboard has several."""
    await think(interaction)
    shown = await parts.api.get(path_of("leaderboards", board), who(interaction))
    devices = list(shown["devices"])
    if gpu:
        devices = _chosen(gpu, devices, board)
    elif len(devices) > 1:

        async def chosen(pressed: discord.Interaction, wanted: list[str]) -> None:
            await think(pressed)
            await _rankings(pressed, parts, shown, wanted, image=image)

        menu = Menu(interaction, "Select GPUs...", devices, chosen, several=True)
        await menu.ask(f"{texts.code(shown['name'])}: which rankings?")
        return
    await _rankings(interaction, parts, shown, devices, image=image)


async def _rankings(
    interaction: discord.Interaction,
    parts: Parts,
    board: dict[str, Any],
    devices: Sequence[str],
    *,
    image: bool,
) -> None:
    await rankings.show(interaction, parts, board, devices[:MOST_AT_ONCE], picture=image)
    if len(devices) > MOST_AT_ONCE:
        await answer(interaction, f"These are {MOST_AT_ONCE} of {len(devices)}; name the others with `gpu`.")


async def show_personal(interaction: discord.Interaction, parts: Parts, board: str) -> None:
    """Show the person's own submissions to a leaderboard, and their place on each device."""
    await think(interaction)
    person = who(interaction)
    shown = await parts.api.get(path_of("leaderboards", board), person)
    name = shown["name"]
    page = await parts.api.get("/submissions", person, user="me", leaderboard=name, limit=PERSONAL_SHOWN)
    lines = []
    if shown["freeze_at"] is not None:
        path = path_of("leaderboards", name, "standings", shown["devices"][0])
        since = (await parts.api.get(path, person, limit=1))["frozen_since"]
        lines.append(rankings.frozen_note(since, own=True))
    for device in shown["devices"]:
        mine = await parts.api.get(path_of("leaderboards", name, "standings", device, "me"), person)
        if mine is not None:
            rank = rank_text(mine["rank"], tied=mine["tied"])
            time = CORRECT if mine["ranked_by"] == RankedBy.CORRECTNESS else reports.score_text(mine)
            lines.append(f"**{texts.plain(device)}**: rank {rank}, {time}")
    table = [_personal_line(each, job) for each in page["items"] for job in each["jobs"]]
    if not table:
        await answer(interaction, f"You have not submitted anything to {texts.code(name)} yet.")
        return
    head = f"### Your submissions to {texts.code(name)}"
    newest = "Newest first:" if any(lines) else ""
    await answer(interaction, "\n".join(each for each in [head, *lines, newest, *table] if each))


async def task(interaction: discord.Interaction, parts: Parts, board: str) -> None:
    """Send a task's statement and files."""
    await think(interaction)
    shown = await _definition(parts, who(interaction), board)
    sources = sorted(shown["sources"].items())
    files = [Attached(_flat_name(name), text.encode()) for name, text in sources[:MOST_FILES]]
    title = f"### Task of {texts.code(board)}"
    head = f"{title}\n{texts.plain_lines(texts.formulas(shown['description']), 1500)}"
    left = len(sources) - MOST_FILES
    more = f"\n{left} more files are on the web." if left > 0 else ""
    await answer(interaction, head + more, files=files)


async def reference_code(interaction: discord.Interaction, parts: Parts, board: str) -> None:
    """Send the file with the reference of a task."""
    await think(interaction)
    sources = (await _definition(parts, who(interaction), board))["sources"]
    found = [name for name in sources if name.rpartition("/")[2].startswith("reference")]
    if not found:
        raise NotFound(
            f"The task has no file of that name; /leaderboard task gives all: {', '.join(sorted(sources))}"
        )
    prefix = texts.file_name(board)
    files = [Attached(f"{prefix}_{_flat_name(name)}", sources[name].encode()) for name in found]
    await answer(interaction, f"The reference of {texts.code(board)}:", files=files)


async def eval_code(interaction: discord.Interaction, parts: Parts, language: str, board: str | None) -> None:
    """Send the judging code: of the given leaderboard, else of any with our harness in that language."""
    await think(interaction)
    person = who(interaction)
    if board is not None:
        found = await parts.api.get(path_of("leaderboards", board, "harness"), person)
    else:
        found = await parts.api.get("/harness", person, language="cu" if language == "cuda" else "py")
    first = found[0]
    attached = [Attached(_flat_name(first["name"]), first["text"].encode())]
    text = (
        f"The judging code of {texts.code(board)}"
        if board is not None
        else f"What judges {language} submissions"
    )
    if len(found) > 1:
        packed = await asyncio.to_thread(_zipped, {each["name"]: each["text"] for each in found})
        attached.append(Attached("harness.zip", packed))
        text += f": read {texts.code(first['name'])} first; all {len(found)} files are in {texts.code('harness.zip')}"
    await answer(interaction, f"{text}.", files=attached)


async def template(interaction: discord.Interaction, parts: Parts, board: str, lang: str | None) -> None:
    """Send a template, with the directive that names the leaderboard."""
    await think(interaction)
    person = who(interaction)
    shown = await parts.api.get(path_of("leaderboards", board), person)
    about = await _definition(parts, person, board)
    wanted = (lang or "").lower()  # "CUDA" and "cu" are enough for "CUDA C++"
    text = next((text for name, text in about["templates"].items() if name.lower().startswith(wanted)), None)
    if text is None:
        raise NotFound(
            f"{board} has no template for {lang!r}; it has {', '.join(about['templates']) or 'none'}."
        )
    file = boards_text.template_file(shown, about, text)
    await answer(interaction, f"Start from this for {texts.code(shown['name'])}:", files=[file])


async def get_submission(interaction: discord.Interaction, parts: Parts, number: int) -> None:
    """Show a submission with its reports and its code, as far as the person may see them."""
    await think(interaction)
    person = who(interaction)
    shown = await parts.api.get(f"/submissions/{number}", person)
    url = f"{parts.config.public_url}/s/{number}"
    text = render(shown, Live.of(shown, {}), url)
    when = boards_text.stamp(shown["created_at"])
    files = []
    try:
        code = await parts.api.get(f"/submissions/{number}/code", person)
        files.append(code_file(code))
    except UserError as error:
        text += f"\n-# {texts.plain(error)}"
    author = texts.code(shown["shown_name"] or shown["user"])
    await answer(interaction, f"{text}\nby {author}, {when}", files=files)
    for job in shown["jobs"]:
        if job["run"] is not None:
            for each in reports.private_report(job, url):
                await answer(interaction, each.text, files=each.files)


async def cancel(interaction: discord.Interaction, parts: Parts, number: int) -> None:
    """Cancel the unfinished jobs of a submission."""
    await think(interaction)
    done = await parts.api.call(withdrawal.cancel_submission, who(interaction), submission_id=number)
    count = done.cancelled_jobs
    text = f"🚫 Cancelled {plural(count, 'job')} of submission #{number}."
    await answer(interaction, text if count else f"Submission #{number} had no unfinished jobs to cancel.")


def code_file(code: dict[str, Any]) -> Attached:
    """Return a submission's code: one file as it is, several as a zip."""
    if len(code["files"]) == 1:
        return Attached(texts.file_name(code["entry"]), code["files"][code["entry"]].encode())
    return Attached(f"submission-{code['submission']}.zip", _zipped(code["files"]))


async def join(interaction: discord.Interaction, parts: Parts, code: str) -> None:
    """Make the person a member of the code's leaderboards."""
    await think(interaction)
    joined = await parts.api.call(joining.join, who(interaction), code=code)
    names = ", ".join(map(texts.code, joined.leaderboards))
    await answer(interaction, f"🎟️ You are now a member of {names}.")


def help_text(interaction: discord.Interaction, parts: Parts) -> str:
    where = parts.guilds.submissions(interaction.guild_id or 0)
    place = f"\nSubmit in <#{where}>." if where is not None else ""
    text = resources.files(__package__).joinpath("help.md").read_text("utf-8").rstrip()
    return f"{text}{place}\nOn the web: <{parts.config.public_url}>"


class BoardPages(replies.View):
    """The list of leaderboards, in pages."""

    def __init__(self, asked: discord.Interaction, parts: Parts, boards: Sequence[dict[str, Any]]) -> None:
        super().__init__(asked.user.id)
        self._parts, self._boards, self._page = parts, boards, 0
        self._settle()

    @property
    def pages(self) -> int:
        """Return the number of pages."""
        return max(1, -(-len(self._boards) // BOARDS_A_PAGE))

    def embed(self) -> discord.Embed:
        embed = discord.Embed(title="Leaderboards", colour=boards_text.ACCENT)
        start = self._page * BOARDS_A_PAGE
        for board in self._boards[start : start + BOARDS_A_PAGE]:
            mark = "🏁 " if is_over(board) else ""
            value = f"{boards_text.deadline_text(board)}\n{boards_text.devices_text(board['devices'])}"
            embed.add_field(name=mark + texts.plain(board["name"], 120), value=value[:1024], inline=False)
        if not self._boards:
            embed.description = "There are no leaderboards yet."
        embed.set_footer(text=f"Page {self._page + 1}/{self.pages}")
        return embed

    @ui.button(label="◀", custom_id="boards-back")
    async def back(self, interaction: discord.Interaction, _: ui.Button[BoardPages]) -> None:
        """Show the previous page."""
        await self._turn(interaction, -1)

    @ui.button(label="▶", custom_id="boards-on")
    async def on(self, interaction: discord.Interaction, _: ui.Button[BoardPages]) -> None:
        """Show the next page."""
        await self._turn(interaction, 1)

    async def _turn(self, interaction: discord.Interaction, by: int) -> None:
        self._page = min(max(self._page + by, 0), self.pages - 1)
        self._settle()
        await interaction.response.edit_message(embed=self.embed(), view=self)

    def _settle(self) -> None:
        self.back.disabled, self.on.disabled = self._page == 0, self._page == self.pages - 1


def _chosen(gpu: str, devices: Sequence[str], board: str) -> list[str]:
    known = {name.lower(): name for name in devices}
    wanted = [name.strip() for name in gpu.split(",") if name.strip()]
    if unknown := [name for name in wanted if name.lower() not in known]:
        raise InvalidValue(f"{board} has no GPU {', '.join(unknown)}; it has {', '.join(devices)}.")
    return [known[name.lower()] for name in wanted]


def _personal_line(submission: dict[str, Any], job: dict[str, Any]) -> str:
    outcome = outcome_text(job["state"], job["verdict"])
    if outcome == "accepted" and job["score_s"] is not None:
        outcome = f"**{score_value(job['score_s'], job.get('speedup'))}**"
    mode = MODES.get(submission["mode"], submission["mode"])
    when, name = boards_text.stamp(submission["created_at"]), texts.code(submission["file_name"], 40)
    return f"#{submission['id']} {mode} on {texts.plain(job['device'])}: {outcome} · {when} · {name}"


def _flat_name(path: str) -> str:
    """Return the name of an attachment, which has no folder: the rooms of our harness stay in it."""
    return path.removeprefix("kernelcup_harness/").replace("/", "_")


async def _definition(parts: Parts, person: Person, board: str) -> Any:
    return (await parts.api.get(path_of("leaderboards", board, "task", "definition"), person))["task"]


def _zipped(files: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()
