"""Rankings in messages: pages with buttons, and pictures. The buttons survive a restart."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, Self

import discord
from discord import ui

from kernelcup.bot.api import Person
from kernelcup.bot.commands import groups
from kernelcup.bot.context import Parts
from kernelcup.bot.messages import boards, ranking_image, replies, texts
from kernelcup.client.requests import path_of
from kernelcup.domain import RankedBy
from kernelcup.errors import KernelCupError, UnknownDevice
from kernelcup.reporting.phrases import frozen_text, place_time

Json = Mapping[str, Any]


def register(tree: groups.Tree, _: Parts) -> None:
    """Handle the buttons of messages from before a restart."""
    tree.client.add_dynamic_items(PageButton, PictureButton)


async def show(
    interaction: discord.Interaction,
    parts: Parts,
    board: Json,
    devices: Sequence[str],
    *,
    picture: bool = False,
) -> None:
    """Answer with a leaderboard's rankings, one message for each device."""
    for device in devices:
        if picture:
            await _answer_picture(interaction, parts, str(board["name"]), device)
            continue
        embed, view = await page(parts, replies.who(interaction), board, device, 0)
        await replies.answer(interaction, embed=embed, view=view)


async def page(
    parts: Parts, who: Person, board: Json, device: str, offset: int
) -> tuple[discord.Embed, ui.View]:
    """Return a page of a ranking with its buttons."""
    name = str(board["name"])
    found = await _standings(parts, who, name, device, offset, boards.PAGE)
    link = f"{parts.config.public_url}/b/{name}"
    frozen = frozen_note(found["frozen_since"])
    embed = boards.ranking_embed(
        name,
        device,
        found["items"],
        offset=offset,
        link=link,
        frozen=frozen,
        unranked=found["unranked"],
        practice=found["practice"],
        waiting=found["waiting"],
        final=found["final"],
    )
    number = board["devices"].index(device)
    view = ui.View(timeout=None)
    if offset > 0 or found["next"] is not None:
        before, after = max(0, offset - boards.PAGE), offset + boards.PAGE
        view.add_item(PageButton("◀", name, number, before, disabled=offset == 0))
        view.add_item(PageButton("▶", name, number, after, disabled=found["next"] is None))
    view.add_item(PictureButton(name, number))
    return embed, view


def frozen_note(since: str | None, *, own: bool = False) -> str:
    """Return a note that the standings are frozen, empty if they are live."""
    if since is None:
        return ""
    moment = datetime.fromisoformat(since)
    return frozen_text(moment, "yours is") if own else frozen_text(moment)


async def _standings(parts: Parts, who: Person, board: str, device: str, offset: int, limit: int) -> Json:
    path = path_of("leaderboards", board, "standings", device)
    found: Json = await parts.api.get(path, who, after=offset, limit=limit)
    return found


async def _answer_picture(interaction: discord.Interaction, parts: Parts, board: str, device: str) -> None:
    found = await _standings(parts, replies.who(interaction), board, device, 0, ranking_image.MOST_ROWS)
    more = found["next"] is not None
    pictures = []
    by_class = groupby(found["items"], key=lambda place: place["host_class"])
    for host_class, places in [(each, list(part)) for each, part in by_class] or [("", [])]:
        rows = [
            ranking_image.Row(
                rank=place["rank"],
                tied=place["tied"],
                user=place["shown_name"] or place["user"],
                time=place_time(place["score_s"], place["ranked_by"], place.get("speedup")),
                score_s=0.0 if place["ranked_by"] == RankedBy.CORRECTNESS else place["score_s"],
            )
            for place in places
        ]
        where = f"{device}, {host_class}" if host_class else device
        drawn = await asyncio.to_thread(ranking_image.draw_ranking, board, where, rows, more=more)
        pictures.append(texts.Attached(texts.file_name(f"{board}-{device}.png"), drawn))
    about = f"{texts.code(board)} on {texts.code(device)}"
    if frozen := frozen_note(found["frozen_since"]):
        about += f"\n{frozen}"
    await replies.answer(interaction, about, files=pictures)


async def _board_and_device(parts: Parts, who: Person, name: str, number: int) -> tuple[Json, str]:
    board: Json = await parts.api.get(path_of("leaderboards", name), who)
    if number >= len(board["devices"]):
        raise UnknownDevice(f"{name} has other GPUs now; ask for its rankings again.")
    return board, str(board["devices"][number])


class PageButton(
    ui.DynamicItem[ui.Button[Any]],
    template=r"kc:page:(?P<way>[<>]):(?P<number>\d{1,4}):(?P<offset>\d{1,9}):(?P<board>.{1,64})",
):
    """Shows another page of a ranking; the id has room for the longest leaderboard name."""

    def __init__(self, label: str, board: str, number: int, offset: int, *, disabled: bool = False) -> None:
        self._board, self._number, self._offset = board, number, offset
        way = "<" if label == "◀" else ">"
        button: ui.Button[Any] = ui.Button(
            label=label,
            style=discord.ButtonStyle.secondary,
            custom_id=f"kc:page:{way}:{number}:{offset}:{board}",
            disabled=disabled,
        )
        super().__init__(button)

    @classmethod
    async def from_custom_id(cls, _: Any, __: ui.Item[Any], match: re.Match[str], /) -> Self:
        """Return the button that was pressed."""
        label = "◀" if match["way"] == "<" else "▶"
        return cls(label, match["board"], int(match["number"]), int(match["offset"]))

    async def callback(self, interaction: discord.Interaction[Any]) -> None:
        """Show the page in the same message."""
        parts: Parts = interaction.client.parts
        await interaction.response.defer()
        try:
            who = replies.who(interaction)
            board, device = await _board_and_device(parts, who, self._board, self._number)
            embed, view = await page(parts, who, board, device, self._offset)
            await interaction.edit_original_response(embed=embed, view=view)
        except (KernelCupError, discord.HTTPException) as error:
            await replies.answer_error(interaction, error)


class PictureButton(
    ui.DynamicItem[ui.Button[Any]], template=r"kc:picture:(?P<number>\d{1,4}):(?P<board>.{1,64})"
):
    """Draws a ranking."""

    def __init__(self, board: str, number: int) -> None:
        self._board, self._number = board, number
        button: ui.Button[Any] = ui.Button(
            label="As a picture",
            style=discord.ButtonStyle.secondary,
            custom_id=f"kc:picture:{number}:{board}",
        )
        super().__init__(button)

    @classmethod
    async def from_custom_id(cls, _: Any, __: ui.Item[Any], match: re.Match[str], /) -> Self:
        """Return the button that was pressed."""
        return cls(match["board"], int(match["number"]))

    async def callback(self, interaction: discord.Interaction[Any]) -> None:
        """Answer with the picture, visible only to the person."""
        parts: Parts = interaction.client.parts
        await replies.think(interaction)
        try:
            who = replies.who(interaction)
            board, device = await _board_and_device(parts, who, self._board, self._number)
            await _answer_picture(interaction, parts, str(board["name"]), device)
        except (KernelCupError, discord.HTTPException) as error:
            await replies.answer_error(interaction, error)
