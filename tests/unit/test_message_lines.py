"""Messages of errors: how many faults they have, and how much of what they quote."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from fastapi.exceptions import RequestValidationError

from kernelcup.app.submissions.directives import near_misses
from kernelcup.clean_text import listed
from kernelcup.cli import entry
from kernelcup.errors import ConfigError, InvalidTask, InvalidValue, Problem
from kernelcup.http.errors import body_of, invalid_text


@pytest.mark.parametrize("kind", [InvalidValue, ConfigError])
def test_a_message_ends_after_ten_faults_and_says_how_many_more(kind) -> None:
    faults = [f"line {number}: wrong" for number in range(1234)]
    for given in (faults, "\n".join(faults)):
        assert str(kind(given)).split("\n") == [*faults[:10], "and 1,224 more"]
    assert str(kind(faults[:10])).split("\n") == faults[:10]


def test_what_is_quoted_is_cut_in_its_middle() -> None:
    text = str(InvalidValue(f"Name '{'é' * 1_000_000}': expected letters."))
    assert len(text.encode()) <= 3000
    assert text.startswith("Name 'éé")
    assert text.endswith("éé': expected letters.")
    assert str(InvalidValue("x" * 3000)) == "x" * 3000


def test_a_client_says_of_a_cut_message_what_the_server_said() -> None:
    told = listed([str(number) + "x\x1b" * 9000 for number in range(40)])
    assert str(InvalidValue(told)) == told
    assert told.endswith("\nand 30 more")


def test_a_fault_is_one_line() -> None:
    assert listed(["a\nb\u2028c\rd"]) == "a b c d"


def test_a_server_sends_ten_problems_and_the_own_machine_all(capsys) -> None:
    problems = [Problem(file="task.yml", line=number, key="k" * 9000, text="bad") for number in range(1, 51)]
    error = InvalidTask(problems)
    body = body_of(error)
    assert [each["line"] for each in body["problems"]] == list(range(1, 11))
    assert len(json.dumps(body)) < 8000
    assert body["message"].endswith("\nand 40 more")
    entry.tell(error, error.code, str(error), as_json=True)
    assert json.loads(capsys.readouterr().out)["error"]["problems"] == list(map(asdict, problems))


def test_warnings_of_a_submission_end_after_ten() -> None:
    found = near_misses("# popcorn gpu X\n" * 60_000)
    assert len(found) == 11
    assert found[-1] == "and 59,990 more"


def test_what_a_machine_sends_is_quoted_in_part() -> None:
    error = RequestValidationError([{"loc": ("body", "k" * 9000), "msg": f"no report: {'é' * 9000}"}] * 40)
    assert len(invalid_text(error).encode()) < 5000
    assert invalid_text(error).endswith("; and 30 more")
