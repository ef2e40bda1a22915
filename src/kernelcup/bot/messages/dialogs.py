"""Questions with buttons: nothing happens before confirmation."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import discord
from discord import ui

from kernelcup.bot.messages import replies, texts

logger = logging.getLogger(__name__)

MOST_OPTIONS = 25
ANSWER_IN_S = 600.0

Act = Callable[[discord.Interaction], Awaitable[str]]
"""Carries out the action in question, and returns the message about it."""


class Question(replies.View):
    """A view that removes its buttons when there is no answer.

    Args:
        asked: The interaction that leads to the question, already acknowledged.
        unanswered: Text that replaces an unanswered question; default: the question stays.
    """

    def __init__(self, asked: discord.Interaction, unanswered: str | None = None) -> None:
        super().__init__(asked.user.id, timeout=ANSWER_IN_S)
        self._asked = asked
        self._unanswered = unanswered
        self._message: discord.Message | None = None
        self._busy = False

    async def ask(self, text: str, files: Sequence[texts.Attached] = ()) -> None:
        """Ask, visible only to the person."""
        *before, last = texts.pack([text, *files])
        for each in before:
            await replies.answer(self._asked, each.text, files=each.files)
        self._message = await self._asked.followup.send(
            last.text, files=replies.as_files(last.files), view=self, ephemeral=True, wait=True
        )

    async def replace(self, text: str) -> None:
        """Ask in place of the current answer."""
        self._message = await self._asked.edit_original_response(content=text, view=self)

    async def on_timeout(self) -> None:
        """Remove buttons that no longer work."""
        if self._message is None:
            return
        try:
            if self._unanswered is None:
                await self._message.edit(view=None)
            else:
                await self._message.edit(content=self._unanswered, view=None)
        except discord.HTTPException as error:
            logger.info("buttons of an old question stay: %s", error)

    async def settle(self, interaction: discord.Interaction, text: str) -> None:
        """Replace the question with the outcome."""
        self.stop()
        await replies.replace(interaction, text)

    async def once(self, interaction: discord.Interaction, work: Callable[[], Awaitable[None]]) -> None:
        """Run work that a second press does not repeat; after a failure the person can try again."""
        if self._busy:
            await interaction.response.defer()
            return
        self._busy = True
        try:
            await work()
        finally:
            self._busy = False


class Confirm(Question):
    """Yes or no.

    Args:
        asked: The interaction that leads to the question.
        yes: Label of the confirming button.
        act: The action to confirm.
        no: Label of the other button.
        kept: Message if nothing is done.
    """

    def __init__(
        self,
        asked: discord.Interaction,
        yes: str,
        act: Act,
        *,
        no: str = "Cancel",
        kept: str = "Nothing was changed.",
    ) -> None:
        super().__init__(asked)
        self._act = act
        self._kept = kept
        agree: ui.Button[Any] = ui.Button(label=texts.title(yes, 80), style=discord.ButtonStyle.danger)
        agree.callback = self._agree  # type: ignore[method-assign]
        refuse: ui.Button[Any] = ui.Button(label=no, style=discord.ButtonStyle.secondary)
        refuse.callback = self._refuse  # type: ignore[method-assign]
        self.add_item(agree)
        self.add_item(refuse)

    async def _agree(self, interaction: discord.Interaction) -> None:
        async def work() -> None:
            await interaction.response.defer()
            await self.settle(interaction, await self._act(interaction))

        await self.once(interaction, work)

    async def _refuse(self, interaction: discord.Interaction) -> None:
        await interaction.response.defer()
        await self.settle(interaction, self._kept)


Chosen = Callable[[discord.Interaction, list[str]], Awaitable[None]]


class Menu(Question):
    """A menu of texts, with pages if there are more than Discord shows at a time.

    Args:
        asked: The interaction that leads to the menu.
        placeholder: The menu's caption.
        options: The choices.
        chosen: Handles a choice and acknowledges the interaction.
        several: Whether more than one can be chosen. With several pages, a button ends the choice.
        unanswered: Text that replaces an unused menu; default: the menu stays.
        notes: What stands below some of the options.
    """

    def __init__(
        self,
        asked: discord.Interaction,
        placeholder: str,
        options: Sequence[str],
        chosen: Chosen,
        *,
        several: bool = False,
        unanswered: str | None = None,
        notes: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(asked, unanswered)
        self._notes = notes or {}
        self._placeholder, self._options = placeholder, list(options)
        self._chosen, self._several = chosen, several
        self._page, self._picked = 0, set[str]()
        self._menu: ui.Select[Any] = ui.Select()
        self._menu.callback = self._choose  # type: ignore[method-assign]
        self.add_item(self._menu)
        self._back = self._button("◀", self._turn_back)
        self._on = self._button("▶", self._turn_on)
        self._done = self._button("Done", self._finish, discord.ButtonStyle.primary)
        if self._pages > 1:
            for button in (self._back, self._on, *([self._done] if several else [])):
                self.add_item(button)
        self._draw()

    @property
    def _pages(self) -> int:
        return -(-len(self._options) // MOST_OPTIONS)

    @property
    def _shown(self) -> list[str]:
        start = self._page * MOST_OPTIONS
        return self._options[start : start + MOST_OPTIONS]

    @property
    def _gathers(self) -> bool:
        return self._several and self._pages > 1

    def _draw(self) -> None:
        page = f" ({self._page + 1}/{self._pages})" if self._pages > 1 else ""
        self._menu.placeholder = f"{self._placeholder}{page}"
        self._menu.min_values = 0 if self._gathers else 1
        self._menu.max_values = len(self._shown) if self._several else 1
        self._menu.options = [
            discord.SelectOption(
                label=texts.title(each),
                value=each,
                description=texts.title(self._notes[each]) if each in self._notes else None,
                default=each in self._picked,
            )
            for each in self._shown
        ]
        self._back.disabled, self._on.disabled = self._page == 0, self._page >= self._pages - 1
        self._done.disabled = not self._picked
        self._done.label = f"Done: {len(self._picked)} chosen"

    async def _choose(self, interaction: discord.Interaction) -> None:
        values = list(self._menu.values)
        if self._gathers:
            self._picked = self._picked - set(self._shown) | set(values)
            await self._redraw(interaction)
        else:
            await self.once(interaction, lambda: self._chosen(interaction, values))

    async def _finish(self, interaction: discord.Interaction) -> None:
        values = [each for each in self._options if each in self._picked]
        await self.once(interaction, lambda: self._chosen(interaction, values))

    async def _turn_back(self, interaction: discord.Interaction) -> None:
        self._page = max(self._page - 1, 0)
        await self._redraw(interaction)

    async def _turn_on(self, interaction: discord.Interaction) -> None:
        self._page = min(self._page + 1, self._pages - 1)
        await self._redraw(interaction)

    async def _redraw(self, interaction: discord.Interaction) -> None:
        self._draw()
        await interaction.response.edit_message(view=self)

    @staticmethod
    def _button(
        label: str,
        press: Callable[[discord.Interaction], Awaitable[None]],
        style: discord.ButtonStyle = discord.ButtonStyle.secondary,
    ) -> ui.Button[Any]:
        button: ui.Button[Any] = ui.Button(label=label, style=style)
        button.callback = press  # type: ignore[method-assign, assignment]
        return button


class TypedName(replies.Form):
    """A form that requires a name to be typed before anything happens."""

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
        """Carry out the action if the name is right."""
        if self._typed.value.strip() != self._name:
            await replies.answer(
                interaction,
                f"You typed {texts.code(self._typed.value)}, but the leaderboard is {texts.code(self._name)}. "
                "Nothing was deleted.",
            )
            return
        await self._act(interaction)
