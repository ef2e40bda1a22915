"""Exit codes: one table for all commands."""

from __future__ import annotations

import re

import pytest

from kernelcup import errors
from kernelcup.cli import exit_codes
from kernelcup.cli.entry import execute
from kernelcup.domain import JobState
from kernelcup.errors import KernelCupError, Problem
from kernelcup_harness.protocol import Verdict


def kinds(base: type[KernelCupError] = KernelCupError) -> list[type[KernelCupError]]:
    """Return all our errors but the root."""
    below = [each for each in base.__subclasses__() if each.__module__ == errors.__name__]
    return [*below, *(deeper for each in below for deeper in kinds(each))]


@pytest.mark.parametrize("words", [(), ("board",)])
def test_a_group_without_a_command_shows_its_help_and_succeeds(words, capsys) -> None:
    assert execute(words) == 0
    out, err = capsys.readouterr()
    assert out.startswith("Usage: kernelcup")
    assert err == ""


def test_the_help_has_groups_whole_summaries_and_all_exit_codes(capsys) -> None:
    execute(["--help"])
    out = capsys.readouterr().out
    places = [out.index(f"\n{title}:\n") for title in ("Compete", "Author", "Administer", "Operate")]
    assert places == sorted(places)
    assert "..." not in out.partition("Compete:")[2]
    listed = {int(code) for code in re.findall(r"^  (\d+) ", out, re.MULTILINE)}
    numbers = {value for name, value in vars(exit_codes).items() if name.isupper() and type(value) is int}
    assert listed == numbers | set(exit_codes.VERDICTS.values())


def test_values_have_the_usual_words(capsys) -> None:
    execute(["watch", "--help"])
    out = capsys.readouterr().out
    assert "watch [OPTIONS] ID\n" in out
    assert "--config FILE" in out
    assert "<int" not in out


def test_every_verdict_has_a_code_of_its_own() -> None:
    assert set(exit_codes.VERDICTS) == set(Verdict)
    assert len(set(exit_codes.VERDICTS.values())) == len(Verdict)
    assert exit_codes.VERDICTS[Verdict.ACCEPTED] == 0


def test_no_code_of_a_verdict_is_that_of_an_error() -> None:
    others = {code for _, code, _ in exit_codes.ERRORS} | {
        exit_codes.USAGE,
        exit_codes.CANCELLED,
        exit_codes.SYSTEM_ERROR,
    }
    assert not others & set(exit_codes.VERDICTS.values())


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_every_error_has_an_exit_code_and_a_stable_word(kind: type[KernelCupError]) -> None:
    made = {
        errors.InvalidTask: lambda: errors.InvalidTask([Problem(file="task.yml", text="no")]),
        errors.RateLimited: lambda: errors.RateLimited("no", retry_after_s=1),
        errors.Overloaded: lambda: errors.Overloaded("no", retry_after_s=1),
    }
    error = made.get(kind, lambda: kind("no"))()
    assert exit_codes.of_error(error) != exit_codes.OK
    assert exit_codes.of_error(error) != exit_codes.BUG or not isinstance(error, errors.UserError)
    assert exit_codes.error_code(error).replace("_", "").isalpha()


def test_of_several_jobs_the_first_failure_counts() -> None:
    done, cancelled = JobState.DONE, JobState.CANCELLED
    assert exit_codes.of_jobs([(done, Verdict.ACCEPTED), (done, Verdict.WRONG_ANSWER)]) == 10
    assert exit_codes.of_jobs([(cancelled, None), (done, Verdict.COMPILE_ERROR)]) == 11
    assert exit_codes.of_jobs([(done, Verdict.ACCEPTED), (cancelled, None)]) == exit_codes.CANCELLED
    assert exit_codes.of_jobs([(JobState.QUEUED, None), (done, Verdict.ACCEPTED)]) == exit_codes.OK
