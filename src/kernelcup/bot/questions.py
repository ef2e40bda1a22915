"""Questions with buttons: nothing happens before somebody says yes."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import discord
from discord import ui

from kernelcup.bot import replies, texts

logger = logging.getLogger(__name__)

MOST_OPTIONS = 25
ANSWER_IN_S = 600.0

Act = Callable[[discord.Interaction], Awaitable[str]]
"""Does what was asked about, and returns what to say of it."""


class Question(replies.View):
    """A view that takes its buttons away when nobody answers.

    Args:
        asked: The interaction that leads to the question; it is acknowledged already.
    """

    def __init__(self, asked: discord.Interaction) -> None:
        super().__init__(asked.user.id, timeout=ANSWER_IN_S)
        self._asked = asked
        self._message: discord.WebhookMessage | None = None

    async def ask(self, text: str, files: Sequence[texts.Attached] = ()) -> None:
        """Ask, to the person only."""
        *before, last = texts.pack([text, *files])
        for each in before:
            await replies.answer(self._asked, each.text, files=each.files)
        self._message = await self._asked.followup.send(
            last.text, files=replies.as_files(last.files), view=self, ephemeral=True, wait=True
        )

    async def on_timeout(self) -> None:
        """Leave no button that does nothing."""
        if self._message is None:
            return
        try:
            await self._message.edit(view=None)
        except discord.HTTPException as error:
            logger.info("buttons of an old question stay: %s", error)

    async def settle(self, interaction: discord.Interaction, text: str) -> None:
        """Put the outcome in the question's place."""
        self.stop()
        first, *rest = texts.pack([text])
        await interaction.edit_original_response(content=first.text, view=None)
        for each in rest:
            await replies.answer(interaction, each.text)


class Confirm(Question):
    """Yes or no.

    Args:
        asked: The interaction that leads to the question.
        yes: The label of the button that does it.
        act: What is done then.
        no: The label of the other button.
        kept: What is said when nothing is done.
    """

    def __init__(
        self,
        asked: discord.Interaction,
        yes: str,
        act: Act,
        *,
        no: str = "Leave it",
        kept: str = "Nothing was changed.",
    ) -> None:
        super().__init__(asked)
        self._act = act
        self._kept = kept
        self._busy = False
        agree: ui.Button[Any] = ui.Button(label=texts.title(yes, 80), style=discord.ButtonStyle.danger)
        agree.callback = self._agree  # type: ignore[method-assign]
        refuse: ui.Button[Any] = ui.Button(label=no, style=discord.ButtonStyle.secondary)
        refuse.callback = self._refuse  # type: ignore[method-assign]
        self.add_item(agree)
        self.add_item(refuse)

    async def _agree(self, interaction: discord.Interaction) -> None:
        await interaction.response.defer()
        if self._busy:
            return  # pressed twice
        self._busy = True
        try:
            await self.settle(interaction, await self._act(interaction))
        finally:
            self._busy = False

    async def _refuse(self, interaction: discord.Interaction) -> None:
        await interaction.response.defer()
        await self.settle(interaction, self._kept)


Chosen = Callable[[discord.Interaction, list[str]], Awaitable[None]]


class Menu(Question):
    """A menu of texts, of which at most 25 fit.

    Args:
        asked: The interaction that leads to the menu.
        placeholder: What it is about.
        options: What can be chosen.
        chosen: What to do with a choice; it acknowledges the interaction.
        several: Whether more than one can be chosen.
    """

    def __init__(
        self,
        asked: discord.Interaction,
        placeholder: str,
        options: Sequence[str],
        chosen: Chosen,
        *,
        several: bool = False,
    ) -> None:
        super().__init__(asked)
        shown = options[:MOST_OPTIONS]
        self._chosen = chosen
        self._menu: ui.Select[Any] = ui.Select(
            placeholder=placeholder,
            max_values=len(shown) if several else 1,
            options=[discord.SelectOption(label=texts.title(each), value=each) for each in shown],
        )
        self._menu.callback = self._choose  # type: ignore[method-assign]
        self.add_item(self._menu)

    async def _choose(self, interaction: discord.Interaction) -> None:
        await self._chosen(interaction, list(self._menu.values))


class TypedName(replies.Form):
    """A form that wants a name typed before anything happens."""

    def __init__(self, title: str, name: str, act: Callable[[discord.Interaction], Awaitable[None]]) -> None:
        super().__init__(title=texts.title(title, 45))
        self._name = name
        self._act = act
        self._typed: ui.TextInput[Any] = ui.TextInput(
            label="Type the name of the leaderboard",
            placeholder=texts.title(name),
            custom_id="name",
            max_length=100,
        )
        self.add_item(self._typed)

    async def on_submit(self, interaction: discord.Interaction) -> None:
        """Do it if the name is right."""
        if self._typed.value.strip() != self._name:
            await replies.answer(
                interaction,
                f"You typed {texts.code(self._typed.value)}, and the leaderboard is {texts.code(self._name)}. "
                "Nothing was deleted.",
            )
            return
        await self._act(interaction)
