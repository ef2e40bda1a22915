"""What the seed documents tell people to do, played step by step on a loopback Discord.

``participant`` is the newer generation, ``older`` the one with a single reference file and the runners
in the command. Tests look at what comes out; ``make transcripts`` writes it down.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from discord_loopback import Channel, Interaction, Member, Message
from stage import Stage

import kernelcup.tasks
from builders import make_device
from kernelcup.app.boards.boards import create_board
from kernelcup.tasks.loader import load_task
from kernelcup_harness.protocol import Backend

EXAMPLES = Path(str(kernelcup.tasks.__file__)).parent / "examples"
JUDGED_S = 240.0
"""So long a real evaluation may take on a busy machine."""

GPU_MENU = "Select GPUs for this leaderboard..."
SHOW_MENU = "Select GPUs..."

EMULATED = tuple(
    make_device(name=name, backend=Backend.EMULATED, launcher="local")
    for name in ("T4-emulated", "L4-emulated")
)
RUNNERS = (
    make_device(name="T4", launcher="modal"),
    make_device(name="H100", launcher="modal"),
    make_device(name="MI300", launcher="github"),
)

IDENTITY = b"""\
#!POPCORN leaderboard identity_py
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    return data.clone()
"""
REFERENCE_CODE = b"""\
from typing import List

import torch


def check_implementation(
    custom_output: List[torch.Tensor], ref_output: List[torch.Tensor]
) -> bool:
    return all(torch.equal(a, b) for a, b in zip(custom_output, ref_output))


def generate_input() -> List[torch.Tensor]:
    return [torch.randn(1024, device="cuda")]


def ref_kernel(xs: List[torch.Tensor]) -> List[torch.Tensor]:
    return xs
"""
OLDER_SUBMISSION = b"""\
from typing import List

import torch


def custom_kernel(input: List[torch.Tensor]) -> List[torch.Tensor]:
    return input
"""


@dataclass
class Played:
    """What somebody saw.

    Attributes:
        scenes: Where in the transcript each step begins, by its title.
        answers: The interaction of each step, by the same title.
        threads: The private threads of the submissions, by the same title.
        public: The public thread of the ranked submission.
    """

    who: Member
    scenes: dict[str, int] = field(default_factory=dict)
    answers: dict[str, Interaction] = field(default_factory=dict)
    threads: dict[str, Channel] = field(default_factory=dict)
    public: dict[str, Channel] = field(default_factory=dict)


class Player:
    """Somebody who follows the documents."""

    def __init__(self, stage: Stage, who: Member) -> None:
        self.stage = stage
        self.played = Played(who)

    async def step(
        self,
        title: str,
        command: str,
        options: dict[str, str] | None = None,
        file: tuple[str, bytes] | None = None,
    ) -> Interaction:
        """Give a command."""
        self.played.scenes[title] = len(self.stage.discord.transcript)
        asked = await self.stage.discord.slash(self.played.who, self.stage.room, command, options, file)
        self.played.answers[title] = asked
        return asked

    async def files(self, title: str, command: str, options: dict[str, str], *, last: str) -> None:
        """Give a command, and wait for the last file of the answer."""
        asked = await self.step(title, command, options)
        await self.stage.discord.until(lambda: last in _files(asked), f"{last} of /{command}", 15)

    async def judged(self, title: str, asked: Interaction) -> None:
        """Wait until a submission was judged and everything is told."""
        discord = self.stage.discord

        def told() -> Channel | None:
            known = set(self.played.threads.values())
            for thread in discord.threads(self.stage.room, seen_by=self.played.who):
                fresh = thread.private and thread not in known
                if fresh and any("done: <" in message.content for message in discord.messages(thread)):
                    return thread
            return None

        self.played.threads[title] = await discord.until(told, f"the report of {title}", JUDGED_S)
        known = set(self.played.public.values())
        for thread in discord.threads(self.stage.room):
            if not thread.private and thread not in known:
                self.played.public[title] = thread


async def participant(stage: Stage) -> Played:
    """List, task, template, test, benchmark, ranked on two GPUs through the menu, show, show-personal."""
    now = stage.discord.clock.now()
    devices = [device.name for device in EMULATED]
    create_board(
        stage.db,
        name="identity_py",
        task=load_task(EXAMPLES / "identity"),
        devices=devices,
        creator="grace",
        now=now,
        known_devices=EMULATED,
        deadline=now.replace(year=now.year + 1),
    )
    board = {"leaderboard_name": "identity_py"}
    player = Player(stage, stage.guild.add_member("ada"))
    script = ("submission.py", IDENTITY)
    await (await player.step("List the leaderboards", "leaderboard list")).wait_text("identity")
    await player.files("Get the task", "leaderboard task", board, last="utils.py")
    await player.files(
        "Get a template", "leaderboard template", board | {"lang": "Python"}, last="identity_py.py"
    )

    asked = await player.step("Test a file", "leaderboard submit test", None, script)
    chosen = await asked.choose(GPU_MENU, devices[:1])
    await player.judged("Test a file", chosen)
    asked = await player.step("Benchmark it", "leaderboard submit benchmark", {"gpu": devices[0]}, script)
    await player.judged("Benchmark it", asked)
    asked = await player.step("Submit it to the ranking", "leaderboard submit ranked", None, script)
    chosen = await asked.choose(GPU_MENU, devices)
    await player.judged("Submit it to the ranking", chosen)

    asked = await player.step("Look at the ranking", "leaderboard show", board)
    shown = await asked.choose(SHOW_MENU, devices)
    await stage.discord.until(lambda: len(shown.messages) == len(devices), "both rankings", 15)
    asked = await player.step("Look at your own submissions", "leaderboard show-personal", board)
    await asked.wait_text("ranked", 15)
    return player.played


async def older(stage: Stage) -> tuple[Played, Played]:
    """Create with a single file, reference-code, eval-code, submit modal and github, show."""
    creator = Player(stage, stage.creator())
    asked = await creator.step(
        "Create a leaderboard",
        "leaderboard create",
        {"leaderboard_name": "identity_py", "deadline": "2026-12-24"},
        ("reference_code.py", REFERENCE_CODE),
    )
    chosen = await asked.choose(GPU_MENU, [device.name for device in RUNNERS])
    await chosen.wait_text("was created", 15)

    board = {"leaderboard_name": "identity_py"}
    player = Player(stage, stage.guild.add_member("ada"))
    script = ("identity_submission.py", OLDER_SUBMISSION)
    await player.files(
        "Get the reference code", "leaderboard reference-code", board, last="identity_py_reference.py"
    )
    await player.files("See what judges", "leaderboard eval-code", {"language": "python"}, last="harness.zip")
    asked = await player.step("Submit to Modal's GPUs", "leaderboard submit modal", board, script)
    chosen = await asked.choose(GPU_MENU, ["T4"])
    await player.judged("Submit to Modal's GPUs", chosen)
    asked = await player.step("Submit to GitHub's GPUs", "leaderboard submit github", board, script)
    await player.judged("Submit to GitHub's GPUs", asked)
    asked = await player.step("Look at the ranking", "leaderboard show", board)
    shown = await asked.choose(SHOW_MENU, ["T4", "MI300"])
    await stage.discord.until(lambda: len(shown.messages) == 2, "both rankings", 15)
    player.played.answers["The ranking"] = shown
    return creator.played, player.played


def _files(asked: Interaction) -> dict[str, bytes]:
    return {name: data for message in asked.messages for name, data in message.files.items()}


def whole(messages: list[Message]) -> str:
    """Return all that messages say."""
    return "\n".join(message.text for message in messages)
