"""Texts that others wrote."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from kernelcup.cli.show.output import LONGEST_LINE, plain, shortened


def test_control_characters_become_visible() -> None:
    assert plain("\x1b[31mred\x07\x00") == "\\x1b[31mred\\x07\\x00"
    assert plain("\x9b2J\u202eabc\u2066") == "\\x9b2J\\u202eabc\\u2066"


def test_what_people_write_stays_as_it_is() -> None:
    assert plain("é漢字🙂\tα [red]\nnext") == "é漢字🙂\tα [red]\nnext"


def test_a_carriage_return_begins_a_line() -> None:
    assert plain("1%\r2%\r\ndone") == "1%\n2%\ndone"


def test_a_long_text_keeps_its_beginning_and_its_end() -> None:
    text = "\n".join(str(number) for number in range(100))
    assert shortened(text, first=2, last=1).split("\n") == [
        "0",
        "1",
        "[97 lines left out; --json has all that is stored]",
        "99",
    ]
    assert shortened(text, first=0, last=100) == text
    assert shortened(text, first=0, last=1).endswith("stored]\n99")


def test_a_long_line_is_cut() -> None:
    assert shortened("x" * (LONGEST_LINE + 5), first=1, last=1) == "x" * LONGEST_LINE + " [5 more]"


SERVERS = """
import kernelcup.bot.app, kernelcup.cli.admin.tree
kernelcup.bot.app.default_modules(), kernelcup.cli.admin.tree.commands()
code = execute(["standings", "double", "--gpu", "cpu", "--server", "http://127.0.0.1:9"])
assert code == 5, code
"""


@pytest.mark.parametrize(
    ("code", "spared"),
    [
        (
            "execute(['--help'])",
            r"discord|fastapi|httpx|pydantic|rich|sqlalchemy|kernelcup\.client",
        ),
        (
            "import kernelcup.cli.backend.local",
            r"alembic|discord|fastapi|jinja2|ruamel|kernelcup\.tasks\.manifest\.schema",
        ),
        (SERVERS, r"fastapi|sqlalchemy|kernelcup\.tables|kernelcup\.app\..*\.queries\.."),
        (
            "import kernelcup.cli.operate.serve, kernelcup.http.app",
            r"kernelcup_harness\.(judge|core|run|contestant)",
        ),
    ],
    ids=["help", "database", "server, bot", "serve --no-judge"],
)
@pytest.mark.dear("each is a process of its own, as what is loaded is a process's")
def test_a_command_loads_nothing_that_it_does_not_use(code: str, spared: str) -> None:
    code = f"import sys; from kernelcup.cli.entry import execute\n{code}\nprint('loaded', *sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = run.stdout.rpartition("loaded")[2].split()
    assert [name for name in loaded if re.match(rf"(torch|numpy|{spared})\b", name)] == []
