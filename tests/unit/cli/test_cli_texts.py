"""Texts that others wrote."""

from __future__ import annotations

import subprocess
import sys

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


def test_a_command_on_the_database_loads_no_library_that_it_does_not_use() -> None:
    code = "import sys, kernelcup.cli.app, kernelcup.cli.backend.local; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {
        "alembic",
        "discord",
        "fastapi",
        "jinja2",
        "kernelcup.tasks.manifest.schema",
        "ruamel.yaml",
        "torch",
    }
    assert heavy & set(run.stdout.split()) == set()


def test_who_asks_a_server_loads_neither_the_storage_nor_its_library() -> None:
    """Of a command at a server that does not answer, of all operations with their commands, and of the bot."""
    code = (
        "import sys, kernelcup.bot.app, kernelcup.cli.admin.tree as tree, kernelcup.cli.entry as cli\n"
        "kernelcup.bot.app.default_modules(), tree.commands()\n"
        "code = cli.execute(['standings', 'double', '--gpu', 'cpu', '--server', 'http://127.0.0.1:9'])\n"
        "print(code, *sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    code_of_it, *loaded = run.stdout.split()
    assert code_of_it == "5", run.stderr
    assert {each for each in loaded if each.startswith(("sqlalchemy", "kernelcup.tables"))} == set()
    assert {each for each in loaded if each.startswith("kernelcup.app") and ".queries." in each} == set()
