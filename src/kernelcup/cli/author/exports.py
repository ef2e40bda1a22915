"""Words of ``kernelcup board export``: files of a leaderboard and which are alike, its open data, its winners."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from kernelcup.app.results import dataset, handed_in, winners
from kernelcup.cli.compete.account import write_archive
from kernelcup.cli.operations import Answer, commands_of, say
from kernelcup.reporting.phrases import plural

commands = partial(commands_of, "board export")


def written_as(ending: str) -> Callable[[Answer], dict[str, object]]:
    """Return what writes an archive to a file in the current folder, named after the leaderboard."""
    return lambda answer: write_archive(f"{answer.given['board']}-{ending}.zip", answer.value)


def said_as(ending: str) -> Callable[[Answer], str]:
    """Return what writes an archive likewise and says so."""
    return lambda answer: "{file}: {bytes:,} bytes".format(**written_as(ending)(answer))


def pair_lines(answer: Answer) -> Iterable[str]:
    """Return a line for each pair of files that are alike."""
    for pair in answer.value.pairs:
        alike = "same text" if pair.is_same_text else f"{pair.percent:.0f} %"
        one, other = (f"{each.label or each.user} #{each.submission}" for each in (pair.first, pair.second))
        yield f"{alike:>9}  {one}  {other}"
    yield f"{plural(answer.value.compared, 'file')} compared. A hint to look, never a verdict."


say(handed_in.code_zip, said_as("code"), written_as("code"))
say(dataset.export_dataset, said_as("dataset"), written_as("dataset"))
say(winners.export_winners, said_as("winners"), written_as("winners"))
say(handed_in.likeness, pair_lines)
