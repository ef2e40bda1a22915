"""Commands without an evaluation: what they print, to whom, and how they end."""

from __future__ import annotations

import io
import json
import logging
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from builders import SUBMISSION
from kernelcup.app.machines import dispatchers
from kernelcup.app.submissions import withdrawal
from kernelcup.cli import logs, wiring
from kernelcup.cli.entry import execute
from kernelcup.domain import OPERATOR
from kernelcup.errors import StorageUnavailable
from zips import BAD, zipped

CONFIG = """\
[[devices]]
name = "emulated"
backend = "emulated"

[[devices]]
name = "cpu"
backend = "cpu"
"""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def body(self) -> dict[str, Any]:
        """The one object that it printed."""
        assert self.out.count("\n") == 1
        assert self.err == ""
        body = json.loads(self.out)
        assert isinstance(body, dict)
        return body


Command = Callable[..., Ended]


@pytest.fixture
def home(tmp_path: Path, sqlite_template: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data directory of the commands; files that they name lie beside it."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "kernelcup.toml").write_text(CONFIG)
    shutil.copy(sqlite_template, home / "kernelcup.db")
    for name in [name for name in os.environ if name.startswith("KERNELCUP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("KERNELCUP_HOME", str(home))
    monkeypatch.setenv("KERNELCUP_RUNTIME", str(tmp_path / "locks"))
    monkeypatch.setenv("USER", "ada")
    monkeypatch.setenv("LOGNAME", "ada")
    monkeypatch.setattr(logs, "set_up", lambda: None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernel.py").write_text(SUBMISSION)
    return home


HOST_TASK = """\
import torch


def generate_input(size: int = 4, seed: int = 1):
    return torch.ones(size)


def ref_kernel(data):
    return data


def check_implementation(custom_output, ref_output):
    return torch.equal(custom_output, ref_output)
"""
"""A task in one file that needs no GPU."""


@pytest.fixture
def host_task(home: Path) -> str:
    """A task that every device can judge."""
    (home.parent / "host.py").write_text(HOST_TASK)
    return "host.py"


@pytest.fixture
def command(home: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command in this process."""

    def run(*args: str) -> Ended:
        code = execute(args)
        out, err = capsys.readouterr()
        return Ended(code=code, out=out, err=err)

    return run


@pytest.fixture
def board(command: Command) -> str:
    """A leaderboard with one device."""
    assert command("board", "create", "identity").code == 0
    return "identity"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["run"], "Missing argument 'TASK'"),
        (["run", "a", "b", "--seed"], "requires an argument"),
        (["submissions", "show", "abc"], "Invalid value for 'ID'"),
        (["submissions", "show", "9" * 30], "Invalid value for 'ID'"),
        (["watch", "0"], "Invalid value for 'ID'"),
        (["submissions", "list", "--limit", "0"], "Invalid value for '--limit'"),
    ],
)
def test_a_command_line_that_is_wrong_ends_with_2(command: Command, args: list[str], message: str) -> None:
    ended = command(*args)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    if "--seed" not in args:
        error = command(*args, "--json").body["error"]
        assert error["code"] == "usage"
        assert message in error["message"]


@pytest.mark.parametrize(
    ("args", "code", "word", "message"),
    [
        (["run", "identity", "none.py"], 3, "not_found", "none.py: No such file or directory"),
        (["run", "identity", "home"], 3, "wrong_file_type", "kernelcup.db"),
        (["run", "identity", "bad.zip"], 3, "invalid_files", "bad.zip: is not a zip"),
        (["run", "identity", "outside.zip"], 3, "invalid_files", "../evil.py: the name is not plain"),
        (["run", "identity", "empty.py"], 3, "empty_file", "empty"),
        (["run", "identity", "kernel.txt"], 3, "wrong_file_type", "expected a file that ends in .py"),
        (["run", "identity", "unknown.py"], 3, "invalid_directive", "Line 1: unknown directive 'speed'"),
        (["run", "identity", "binary.py"], 3, "not_text", "not UTF-8"),
        (["run", "identity", "huge.py"], 3, "file_too_large", "huge.py"),
        (["run", "kernel.py", "identity"], 3, "invalid_value", "identity a task: the task comes first"),
        (["run", "identity", "x" * 300], 3, "not_found", "File name too long"),
        (
            ["run", "none", "kernel.py"],
            3,
            "not_found",
            "no such folder, file or shipped task (all_gather_matmul, all_reduce",
        ),
        (["run", "home", "kernel.py"], 3, "invalid_task", "home/task.yml:1:1"),
        (["run", "identity", "kernel.py", "--mode", "fast"], 3, "invalid_value", "--mode fast"),
        (["run", "identity", "kernel.py", "--device", "B300"], 3, "invalid_value", "emulated, cpu"),
        (["run", "identity", "kernel.py", "--harness", "x"], 3, "invalid_value", "standard or own"),
        (["run", "identity", "kernel.py", "--harness", "own"], 3, "invalid_value", "no harness of its own"),
        (["run", "identity", "kernel.py", "--seed", "1"], 3, "invalid_value", "64 hex digits"),
        (["run", "identity", "kernel.py", "--trace", "t"], 3, "invalid_value", "--mode profile"),
        (["run", "identity", "kernel.py", "--config", "no.toml"], 4, "config_error", "no.toml"),
        (["submit", "none.py"], 3, "not_found", "none.py"),
        (["submit", "kernel.py"], 3, "leaderboard_needed", "Which leaderboard"),
        (["submit", "kernel.py", "--board", "none"], 3, "not_found", "no leaderboard 'none'"),
        (["submit", "kernel.py", "--mode", "fast"], 3, "invalid_value", "--mode fast"),
        (["board", "show", "none"], 3, "not_found", "no leaderboard 'none'"),
        (["board", "create", "none"], 3, "not_found", "no such folder, file or shipped task"),
        (["board", "create", "identity", "--device", "H9"], 3, "invalid_value", "H9"),
        (["board", "create", "identity", "--name", ""], 3, "invalid_value", "Leaderboard name ''"),
        (["board", "create", "identity", "--name", "api"], 3, "invalid_value", "reserved"),
        (["board", "create", "identity", "--deadline", "soon"], 3, "invalid_value", "YYYY-MM-DD"),
        (["board", "create", "identity", "--deadline", "2001-01-01"], 3, "invalid_value", "already passed"),
        (["standings"], 3, "not_found", "no leaderboard yet"),
        (["standings", "none"], 3, "not_found", "no leaderboard 'none'"),
        (["watch", "1"], 3, "not_found", "no submission 1"),
        (["cancel", "1"], 3, "not_found", "no submission 1"),
        (["submissions", "show", "1"], 3, "not_found", "no submission 1"),
        (["submissions", "list", "--board", "none"], 3, "not_found", "no leaderboard 'none'"),
        (["submissions", "delete", "1"], 3, "not_found", "no submission 1"),
        (["task", "show", "identity", "--file", "x"], 3, "not_found", "it has"),
        (["task", "show", "identity", "--judged-by", "own"], 3, "not_found", "no harness of its own"),
        (["task", "template", "identity", "-l", "cobol"], 3, "not_found", "Python"),
        (["task", "new", "home"], 3, "conflict", "not empty"),
        (["task", "new", "kernel.py/x"], 3, "conflict", "kernel.py/x is a file"),
    ],
)
def test_each_error_has_a_word_an_exit_code_and_a_cause(
    command: Command, home: Path, args: list[str], code: int, word: str, message: str
) -> None:
    (home.parent / "empty.py").write_text(" \n")
    (home.parent / "binary.py").write_bytes(b"\xff\xfe")
    (home.parent / "kernel.txt").write_text(SUBMISSION)
    (home.parent / "unknown.py").write_text("#!POPCORN speed 9\n")
    (home.parent / "huge.py").write_bytes(b"#" * ((1 << 20) + 1))
    (home.parent / "bad.zip").write_bytes(BAD["cut off"][0])
    (home.parent / "outside.zip").write_bytes(BAD["out of the folder"][0])
    ended = command(*args)
    assert (ended.code, ended.out) == (code, "")
    assert ended.err.startswith(f"error ({word}):")
    assert message in ended.err
    as_json = command(*args, "--json")
    assert as_json.code == code
    assert as_json.body["error"]["code"] == word
    assert message in as_json.body["error"]["message"]


def test_what_to_do_next_comes_with_the_error(command: Command) -> None:
    assert command("standings", "none").err.endswith("\nNext: kernelcup board list\n")
    assert command("standings", "none", "--json").body["error"]["next"] == ["kernelcup board list"]


def test_problems_of_a_task_are_listed_one_by_one(command: Command, home: Path) -> None:
    (home.parent / "bad").mkdir()
    (home.parent / "bad/task.yml").write_text("files: 7\nfoo: bar\n")
    error = command("run", "bad", "kernel.py", "--json").body["error"]
    assert {problem["key"] for problem in error["problems"]} >= {"files", "foo"}
    ended = command("task", "check", "bad")
    assert ended.code == 3
    assert "bad/task.yml:2:1: foo: unknown key" in ended.out
    assert command("task", "check", "bad", "--json").body["problems"] == error["problems"]


@pytest.mark.parametrize(
    ("code", "word"),
    [
        ("#!POPCORN leaderboard other\n", "conflicting_leaderboards"),
        ("#!POPCORN leaderboard\n", "invalid_directive"),
        ("#!POPCORN speed 9\n", "invalid_directive"),
        ("#!POPCORN gpus H100\n", "unknown_device"),
    ],
)
def test_directives_that_do_not_fit_are_refused(
    command: Command, board: str, home: Path, code: str, word: str
) -> None:
    (home.parent / "kernel.py").write_text(code + SUBMISSION)
    args = ("submit", "kernel.py", "--board", board, "--no-wait", "--json")
    assert command(*args).body["error"]["code"] == word


def test_a_folder_by_start_does_not_hide_the_task_of_its_name(
    command: Command, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home.parent)
    assert command("board", "create", "identity").code == 0
    assert command("start", "identity").code == 0
    assert wiring.task_path("identity") == Path("identity/task")
    assert command("task", "show", "identity").code == 0


def test_a_directive_names_leaderboard_and_device(command: Command, home: Path, host_task: str) -> None:
    for name in ("one", "two"):
        command("board", "create", host_task, "--name", name, "-d", "CPU", "-d", "emulated")
    (home.parent / "kernel.py").write_text("#!POPCORN leaderboard two\n#!POPCORN gpus cpu\n" + SUBMISSION)
    body = command("submit", "kernel.py", "--no-wait", "--json").body
    assert (body["leaderboard"], [job["device"] for job in body["jobs"]]) == ("two", ["cpu"])


def test_several_devices_need_a_choice(command: Command, host_task: str) -> None:
    command("board", "create", host_task, "-d", "cpu", "-d", "emulated")
    ended = command("submit", "kernel.py", "--no-wait")
    assert ended.err.startswith("error (device_needed): Which device?")
    assert "--device" in ended.err


def test_a_leaderboard_is_closed_before_it_opens(command: Command) -> None:
    opens = ("--opens", "2999-01-01", "--deadline", "2999-01-02 9:30 Europe/Paris")
    made = command("board", "create", "identity", *opens)
    assert "Its owner is ada; choose another owner with --user NAME." in made.out
    assert "opens 2999-01-01 00:00:00 UTC" in made.out
    assert "closes 2999-01-02 08:30:00 UTC" in made.out
    assert command("submit", "kernel.py", "--no-wait", "--json").body["error"]["code"] == "not_open_yet"


def test_who_makes_a_leaderboard_and_who_submits_to_it_hear_that_code_is_shown(command: Command) -> None:
    made = command("board", "create", "identity", "--deadline", "2999-01-02")
    rule = "The code of ranked results is shown to all who see the leaderboard after the deadline."
    assert f"{rule} --code never keeps it to its authors." in made.out
    assert rule in command("board", "show", "identity").out
    assert rule in command("submit", "kernel.py", "--no-wait").out
    assert rule not in command("submit", "kernel.py", "--mode", "test", "--no-wait").out
    command("board", "update", "identity", "--code", "never", "--yes")
    assert rule not in command("submit", "kernel.py", "--no-wait").out


def test_a_leaderboards_name_is_taken_once_in_any_case(command: Command, board: str) -> None:
    for name in (board, board.upper()):
        ended = command("board", "create", "softmax", "--name", name)
        assert (ended.code, ended.err.split(":")[0]) == (3, "error (conflict)")


def test_a_queued_submission_is_listed_shown_and_cancelled(command: Command, board: str, home: Path) -> None:
    ended = command("submit", "kernel.py", "--no-wait")
    assert (ended.code, ended.err) == (0, "")
    waits = "number 1 in the queue (no machine with emulated is connected)"
    assert ended.out.startswith(
        f"submission 1 to identity (emulated)\nemulated: {waits}\nNext: kernelcup watch 1"
    )
    assert "#1" in command("submissions", "list").out
    assert waits in command("submissions", "show", "1").out
    assert command("submissions", "show", "1", "--code").out == SUBMISSION
    assert command("submissions", "show", "1", "--code", "--json").body["files"] == {"kernel.py": SUBMISSION}
    assert command("submissions", "list", "--user", "nobody").out == "No submission matches.\n"

    ended = command("cancel", "1", "--user", "grace")
    assert (ended.code, ended.err.split(":")[0]) == (3, "error (forbidden)")
    assert command("cancel", "1").out == "1 job of submission 1 cancelled\n"
    assert command("cancel", "1").out == "0 jobs of submission 1 cancelled\n"
    shown = command("submissions", "show", "1")
    assert (shown.code, "cancelled by ada" in shown.out) == (7, True)
    assert command("watch", "1").code == 7


def test_where_nobody_can_be_asked_nothing_is_deleted(
    command: Command, board: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command("submit", "kernel.py", "--no-wait")
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert "confirm with --confirm identity" in command("board", "delete", board).err
    assert "confirm with --yes" in command("submissions", "delete", "1").err
    assert "nothing was deleted" in command("board", "delete", board, "--confirm", "other").err
    assert command("submissions", "delete", "1", "--yes").out == "submission 1 is deleted\n"
    assert command("board", "delete", board, "--confirm", board).code == 0


def test_a_file_name_is_only_text(
    command: Command, board: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # wide enough that the name is not broken
    (home.parent / "[red]\x1b[31m é.py").write_text(SUBMISSION)
    assert command("submit", "[red]\x1b[31m é.py", "--no-wait").code == 0
    assert "[red]\\x1b[31m é.py" in command("submissions", "list").out
    name = os.fsdecode(b"\xff.py")
    shutil.copy("kernel.py", name)
    assert command("submit", name, "--no-wait", "--json").body["file_name"] == "\ufffd.py"


def test_empty_lists_say_how_to_begin(command: Command) -> None:
    assert "kernelcup board create TASK" in command("board", "list").out
    assert "kernelcup submit FILE" in command("submissions", "list").out
    assert command("board", "list", "--json").body == {"leaderboards": []}


def test_a_task_is_shown_with_its_cases_as_reports_number_them(command: Command) -> None:
    out = command("task", "show", "vectoradd").out
    assert "\ntests: \n  0  size=1, seed=4242\n" in out
    assert "judged by: standard harness" in out
    assert (
        "answers: in the form of the reference's (lengths, keys, nesting, shapes, devices; a list may be"
        in out
    )
    assert command("task", "show", "vectoradd", "--json").body["name"] == "vectoradd"


def test_all_code_that_judges_can_be_read(command: Command) -> None:
    files = command("task", "show", "vectoradd", "--harness", "--json").body["files"]
    assert {"kernelcup_harness/judge/main.py", "kernelcup_harness/run/runner.py"} <= set(files)
    assert command("task", "show", "vectoradd", "--harness").out.startswith("# ==== how_it_is_judged.py")
    assert "def generate_input" in command("task", "show", "vectoradd", "--file", "reference.py").out


def test_a_template_is_printed_as_it_is(command: Command) -> None:
    text = command("task", "template", "identity").out
    assert "def custom_kernel" in text
    assert command("task", "template", "identity", "--json").body["files"] == {"Python": text}


def test_a_problem_set_is_checked_as_a_whole(command: Command) -> None:
    place = Path(__file__).parents[2] / "judged/contract/contract.yaml"
    ended = command("task", "check", str(place))
    assert (ended.code, ended.out) == (0, f"{place}: no problems\n")


def test_a_database_that_is_none_is_no_bug(command: Command, home: Path) -> None:
    (home / "kernelcup.db").write_bytes(b"no database" * 1000)
    ended = command("board", "list")
    assert (ended.code, ended.err.split(":")[0]) == (5, "error (storage_unavailable)")
    assert "BROKEN   database" in command("doctor").out


def test_a_data_directory_that_cannot_be_made_is_named(
    command: Command, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELCUP_HOME", str(home / "kernelcup.db/below"))
    ended = command("board", "list")
    assert ended.code == 4
    assert "kernelcup.db/below" in ended.err


def test_a_device_of_another_machine_cannot_be_run_on(command: Command, home: Path) -> None:
    (home / "kernelcup.toml").write_text('[[devices]]\nname = "H100"\nbackend = "cuda"\nlauncher = "slurm"\n')
    assert "none of its devices is on this machine" in command("run", "identity", "kernel.py").err
    command("board", "create", "identity")
    ended = command("submit", "kernel.py")
    assert (ended.code, "no launcher 'slurm'" in ended.err) == (4, True)
    assert command("submissions", "list", "--json").body == {"submissions": []}


@pytest.mark.parametrize(
    ("device", "told"),
    [
        (
            'name = "H100"\nbackend = "cuda"\nlauncher = "slurm"\n',
            "device H100: no launcher 'slurm', only 'agent', 'github', 'local', 'modal', 'ray'",
        ),
        ('name = "T4"\nbackend = "cuda"\n', "device T4: this machine has no GPU"),
    ],
)
def test_what_serve_refuses_the_checks_refuse(
    command: Command, home: Path, monkeypatch: pytest.MonkeyPatch, device: str, told: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr("kernelcup.config.settings.shows_gpu", lambda: False, raising=False)
    (home / "kernelcup.toml").write_text(f"{CONFIG}\n[[devices]]\n{device}")
    for args in (["serve", "--until-idle"], ["config", "check"]):
        ended = command(*args)
        assert (ended.code, told in ended.err) == (4, True)
    ended = command("doctor")
    assert (ended.code, f"{told}" in ended.out) == (4, True)
    assert command("config", "check", "--no-judge").code == 0


def test_the_check_of_the_configuration_makes_no_database(command: Command, home: Path) -> None:
    (home / "kernelcup.db").unlink()
    ended = command("config", "check", "--no-judge")
    assert (ended.code, "database.state: does not exist yet" in ended.out) == (0, True)
    assert not (home / "kernelcup.db").exists()


def test_the_check_of_a_server_without_providers_names_links_and_codes(command: Command, home: Path) -> None:
    (home / "kernelcup.toml").write_text(f'{CONFIG}\n[server]\nhost = "0.0.0.0"\n')
    ended = command("config", "check", "--no-judge")
    assert "people sign in with links (`kernelcup admin user link`) and invite codes" in ended.out + ended.err


def test_the_check_of_the_configuration_asks_the_database(command: Command, home: Path) -> None:
    assert "database.state: answers, up to date" in command("config", "check", "--no-judge").out
    (home / "kernelcup.db").write_bytes(b"no database at all" * 100)
    ended = command("config", "check", "--no-judge")
    assert (ended.code, "error (storage_unavailable)" in ended.err) == (5, True)


def test_the_check_of_the_configuration_misses_torch(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelcup.launchers.local.launcher.find_spec", lambda _: None)
    ended = command("config", "check")
    assert (ended.code, "pip install torch" in ended.err) == (4, True)


def test_a_gpu_is_seen_by_its_device_nodes(tmp_path: Path) -> None:
    from kernelcup.config.local_devices import shows_gpu

    (tmp_path / "nvidiactl").touch()
    assert not shows_gpu(tmp_path)
    (tmp_path / "nvidia0").touch()
    assert shows_gpu(tmp_path)


def test_without_torch_nothing_is_accepted_that_should_be_judged_here(
    command: Command, board: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelcup.launchers.local.launcher.find_spec", lambda _: None)
    for args in (["submit", "kernel.py"], ["run", "identity", "kernel.py"], ["serve"]):
        ended = command(*args)
        assert (ended.code, "pip install torch" in ended.err) == (4, True)
    assert command("submissions", "list", "--json").body == {"submissions": []}


def test_the_demo_touches_no_other_database(command: Command, home: Path) -> None:
    ended = command("demo", "--directory", str(home))
    assert (ended.code, "not a demo's" in ended.err) == (3, True)


def test_an_idle_server_ends_when_asked_to(command: Command) -> None:
    assert command("serve", "--until-idle").out.startswith("serving emulated, cpu from sqlite:///")


def test_the_doctor_looks_on_when_the_configuration_is_broken(command: Command) -> None:
    ended = command("doctor", "--config", "none.toml")
    assert ended.code == 4
    assert "BROKEN   config" in ended.out
    assert "python" in ended.out


def test_the_doctor_finds_nothing_missing_where_we_test(command: Command) -> None:
    body = command("doctor", "--json").body
    assert {finding["state"] for finding in body["findings"] if finding["needed"]} == {"ok"}


def test_a_bug_is_told_without_its_traceback(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiring, "task_path", lambda _: 1 / 0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ended = command("task", "show", "identity")
    assert (ended.code, ended.err.count("\n")) == (1, 1)
    (crash,) = tmp_path.glob("kernelcup-crash-*.txt")
    assert str(crash) in ended.err
    assert "ZeroDivisionError" in crash.read_text()


@pytest.mark.parametrize(
    ("error", "code", "word"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (OSError(28, "No space left on device", "/data/x"), 8, "system_error"),
        (StorageUnavailable("database: locked"), 5, "storage_unavailable"),
    ],
)
def test_what_happens_from_outside_is_told_in_a_line(
    command: Command, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, word: str
) -> None:
    def fail(_: str) -> None:
        raise error

    monkeypatch.setattr(wiring, "task_path", fail)
    ended = command("task", "show", "identity")
    assert (ended.code, ended.out, ended.err.count("\n")) == (code, "", 1)
    assert ended.err.startswith(f"error ({word}): ")
    assert command("task", "show", "identity", "--json").body["error"]["code"] == word


def record(error: Exception) -> logging.LogRecord:
    """Return what a part below would log."""
    message = ("job %d: this should not happen", (7,))
    return logging.LogRecord(
        "kernelcup", logging.ERROR, "x.py", 1, *message, exc_info=(type(error), error, None)
    )


def test_a_log_line_names_an_error_without_its_traceback() -> None:
    line = logs.OneLine().format(record(StorageUnavailable("locked \x1b")))
    assert line == "ERROR: job 7: this should not happen: locked \\x1b"


def test_a_log_line_of_a_bug_names_the_file_with_the_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    line = logs.OneLine().format(record(ValueError("no")))
    (crash,) = tmp_path.glob("kernelcup-crash-*.txt")
    assert line == f"ERROR: job 7: this should not happen: ValueError: no (details: {crash})"


@pytest.mark.jobs
def test_a_folder_and_a_zip_are_judged_and_stored(command: Command, home: Path, host_task: str) -> None:
    """The processor judges them really: no fake."""
    folder = home.parent / "mine"
    folder.mkdir()
    texts = {
        "submission.py": "from helper import same as custom_kernel\n",
        "helper.py": "def same(data):\n    return data\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (home.parent / "mine.zip").write_bytes(zipped(dict(texts)))
    for given in ("mine", "mine.zip"):
        ended = command("run", host_task, given, "-d", "cpu", "--json")
        assert (ended.code, ended.body["verdict"]) == (0, "accepted"), ended
    command("board", "create", host_task, "--name", "both", "-d", "cpu")
    assert command("submit", "mine", "--no-wait").code == 0
    shown = command("submissions", "show", "1", "--code", "--json").body
    assert (shown["entry"], shown["files"]) == ("submission.py", texts)
    assert "# ---- helper.py\n" in command("submissions", "show", "1", "--code").out


@pytest.mark.parametrize("leaves", [False, True])
def test_a_submission_here_is_judged_by_the_running_server(
    command: Command, board: str, monkeypatch: pytest.MonkeyPatch, leaves: bool
) -> None:
    settings = wiring.load_config(None)
    monkeypatch.setattr(wiring, "tell_wait", lambda *_: None)

    def judged_here(*_: object) -> None:
        raise StorageUnavailable("judged by the command")

    def work(_s: float) -> None:
        with wiring.open_database(settings) as db:
            if leaves:
                dispatchers.check_out(db, "serve")
            else:
                withdrawal.cancel_submission(db, 1, by=OPERATOR, now=datetime.now(UTC))

    monkeypatch.setattr(wiring, "make_dispatcher", judged_here)
    monkeypatch.setattr("kernelcup.cli.backend.local.time.sleep", work)
    with wiring.open_database(settings) as db:
        dispatchers.check_in(
            db,
            owner="serve",
            devices=settings.devices,
            started_at=datetime.now(UTC),
            draining=False,
            now=datetime.now(UTC),
        )
    with wiring.saying_address(settings, "http://127.0.0.1:8000"):
        ended = command("submit", "kernel.py", "--board", board)
    assert ended.code == (5 if leaves else 7)
    assert ("judged by the command" in ended.err) is leaves


def test_a_misspelt_variable_is_named_once_on_standard_error(command, monkeypatch) -> None:
    logs.warn_once.cache_clear()
    monkeypatch.setenv("KERNELCUP_PRT", "9000")
    ended = command("board", "list", "--json")
    assert (ended.code, json.loads(ended.out)) == (0, {"leaderboards": []})
    told = "warning: KERNELCUP_PRT is no setting and is ignored; did you mean KERNELCUP_PORT?\n"
    assert ended.err == told
    assert command("board", "list").err == ""
