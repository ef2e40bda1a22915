"""What operators and participants do at a server from the command line, without its machine."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_cli_commands import Command, command, home
from test_cli_remote import ada, body_of, db_url, judge, server

from builders import NOW, SUBMISSION, make_actor, make_board, make_case, make_report, make_stage, make_task
from kernelcup.app.access import HERE
from kernelcup.app.machines.outages import take_out
from kernelcup.app.people.tokens import create_token, scopes_of
from kernelcup.app.submissions.directives import near_misses, parse_directives, write_directives
from kernelcup.cli import wiring
from kernelcup.cli.credentials import Credentials
from kernelcup.client.core import Request
from kernelcup.client.transport import Client
from kernelcup.domain import Role, TaskForm, Visibility
from kernelcup.engine.database import Database
from kernelcup.errors import UnfitDevice
from kernelcup.launchers.base import LaunchResult
from kernelcup.launchers.local import compiling
from kernelcup.tasks.loader import load_task
from kernelcup.tasks.shipped import shipped_tasks
from kernelcup.tasks.starter import made_template
from kernelcup.tasks.writer import write_task
from kernelcup_harness.protocol import Mode, StageName, Verdict, Work
from kernelcup_harness.protocol.compiled import Compiled, CompiledFor

__all__ = ["ada", "command", "db_url", "home", "server"]

SINGLE = """\
'''Double a vector.'''
import torch

def generate_input() -> torch.Tensor:
    return torch.randn(8, device="cuda")

def ref_kernel(data: torch.Tensor) -> torch.Tensor:
    return data * 2

def check_implementation(user_output, reference_output) -> bool:
    return torch.equal(user_output, reference_output)
"""


@pytest.fixture
def root(db: Database, ada: str, server: str, tmp_path: Path) -> str:
    """An admin who signed in to the server on this machine."""
    actor = make_actor(db, "root", role=Role.ADMIN)
    secret = create_token(db, actor, name="test", scopes=scopes_of(Role.ADMIN), entry=HERE, now=NOW).secret
    Credentials.load({"HOME": str(tmp_path)}).put(server, secret)
    return secret


# ------------------------------------------------------------------------------------------ point 17


def test_a_list_of_users_has_to_be_named_at_a_server(command: Command, root) -> None:
    assert "Name the users" in command("admin", "user", "link").err


def test_devices_are_those_of_the_server(command: Command, root, db, server: str) -> None:
    make_board(db, devices=["H100"])
    command("submit", "kernel.py", "--board", "double", "--no-wait")
    take_out(db, UnfitDevice("GPU 0: used by another", gpus=["0"]), device="H100", now=NOW)
    listed = body_of(command("devices", "--json"))
    assert listed["server"] == server
    assert [(each["name"], each["queued"]) for each in listed["devices"]] == [("H100", 1), ("MI300", 0)]
    assert [each["gpu"] for each in listed["out_of_service"]] == ["0"]
    shown = command("devices").out
    assert f"Devices of {server}" in shown
    assert "Out of service" in shown
    assert "kernelcup devices --local --history" in command("devices", "--history", "2").err


def test_a_participant_sees_the_devices_alone(command: Command, ada, db) -> None:
    take_out(db, UnfitDevice("GPU 0: used by another", gpus=["0"]), device="H100", now=NOW)
    listed = body_of(command("devices", "--json"))
    assert [each["name"] for each in listed["devices"]] == ["H100", "MI300"]
    assert listed["out_of_service"] is None


class Replays:
    """A launcher that notes what it is given, and finds the answer right."""

    def __init__(self) -> None:
        self.specs = []

    def capacity(self, device) -> int:
        return 1

    def run(self, spec, device, **_: object) -> LaunchResult:
        self.specs.append(spec)
        report = make_report(mode=spec.mode, verdict=Verdict.ACCEPTED)
        return LaunchResult(report=report, machine="here", harness_hash="f")


@pytest.fixture
def replays(monkeypatch: pytest.MonkeyPatch) -> Replays:
    """This machine's launcher."""
    launcher = Replays()
    monkeypatch.setattr(wiring, "make_local", lambda *_given: launcher)
    return launcher


def test_a_run_of_the_server_is_repeated_here(command: Command, ada, db, replays: Replays) -> None:
    task = make_task(hidden_tests=[{"size": 31337, "seed": 3}])
    make_board(db, devices=["H100"], task=task)
    command("submit", "kernel.py", "--board", "double", "--no-wait")
    stage = make_stage([make_case(None)], name=StageName.TEST)
    judge(db, make_report(mode=Mode.TEST, stages=[stage], secret_seed="ab" * 32))
    ended = command("replay", "1", "--case", "0", "--device", "emulated", "--json")
    assert ended.code == 0, ended.err
    body = body_of(ended)
    assert (body["run"], body["submission"], body["verdict"]) == (1, 1, "accepted")
    (spec,) = replays.specs
    assert (spec.submission.code, spec.secret_seed) == (SUBMISSION, "ab" * 32)
    assert "31337" not in json.dumps(spec.tests + spec.hidden_tests)


# ------------------------------------------------------------------------------------------ point 18


ANY_CASE = make_task().sources["reference.py"].replace("size: int, seed: int", "size: int, seed: int, **_")


def full_task():
    """Return a task whose every key says something else than usual."""
    return make_task(
        description='# Double\n\n  - every element: `x`\n\n# "quoted" #\n',
        sources={"reference.py": ANY_CASE, "eval.py": "print(1)\n", "tools/x.py": "X = 1\r\n"},
        main="eval.py",
        templates={"Python": "pass\n", "C++ inline": "pass # 2\n"},
        tests=[{"size": 16, "seed": 1, "name": "a: b", "flag": True, "some": [1, 2.5e-8, "x\x85"]}],
        benchmarks=[{"size": 1024, "seed": 2}, {"size": 8, "seed": 3}],
        limits=dataclasses.replace(make_task().limits, test_s=7),
        seed=11,
        libraries=["numpy"],
        devices=["H100"],
        near_twins=False,
        aliasing=True,
        waive_nulls={"zeros": "why: because"},
        work=[Work(bytes=2.5e9, written=3.0), Work(flops=1e17, precision="fp16")],
    )


def test_a_task_that_was_written_down_is_loaded_as_it_was(tmp_path: Path) -> None:
    task = full_task()
    assert write_task(task, tmp_path / "double")[0].name == "task.yml"
    loaded = load_task(tmp_path / "double")
    assert loaded == task
    for name, path in shipped_tasks().items():
        shipped = dataclasses.replace(load_task(path), name=name, hidden_tests=[], hidden_benchmarks=[])
        first = write_task(shipped, tmp_path / "shipped" / name)[0]
        again = load_task(first)
        if shipped.form is TaskForm.SINGLE_FILE:
            assert again == dataclasses.replace(shipped, templates={})
        else:
            assert again == shipped


def test_a_task_is_fetched_from_the_server(command: Command, ada, db, tmp_path: Path) -> None:
    task = make_task(hidden_tests=[{"size": 31337}], templates={"Python": "pass\n"})
    make_board(db, name="other", task=task, devices=["H100"])
    fetched = body_of(command("board", "get", "other", "--json"))
    assert fetched["files"][0] == "other/task.yml"
    loaded = load_task(tmp_path / "other")
    assert (loaded.tests, loaded.hidden_tests) == (task.tests, [])
    assert loaded.sources == task.sources
    assert loaded.templates["Python"] == "#!POPCORN leaderboard other\npass\n"
    assert (tmp_path / "other/template_cuda_c.cu").read_text() == loaded.templates["CUDA C++"]
    assert all("31337" not in path.read_text() for path in (tmp_path / "other").iterdir())
    assert "is not empty" in command("board", "get", "other").err
    assert (
        "Next: kernelcup run there there/template_python.py" in command("board", "get", "other", "there").out
    )


def test_hidden_cases_are_left_out_for_everybody(command: Command, root, db) -> None:
    make_board(db, task=make_task(hidden_tests=[{"size": 31337}], hidden_benchmarks=[{"size": 41337}]))
    command("board", "get", "double")
    assert "1337" not in Path("double/task.yml").read_text()


def test_a_closed_leaderboard_hands_nothing_out(command: Command, ada, db) -> None:
    make_board(db, name="secret", visibility=Visibility.CLOSED)
    for words in (("board", "get"), ("board", "template"), ("task", "show"), ("task", "check")):
        ended = command(*words, "secret")
        assert (ended.code, "secret" in ended.err) == (3, True)
    assert not Path("secret").exists()


def test_a_template_in_cuda_is_fetched_from_the_server(command: Command, ada, db) -> None:
    make_board(db)
    text = command("board", "template", "double", "--lang", "cu").out
    assert text.startswith("//!POPCORN leaderboard double\n")
    assert "int custom_kernel(const kc_args *inputs" in text
    assert command("task", "template", "double", "--lang", "CUDA C++").out == text


def test_a_template_is_fetched_from_the_server(command: Command, ada, db) -> None:
    make_board(db, task=make_task(templates={"Python": "one\n", "Triton": "two\n"}))
    assert command("board", "template", "double").out == "#!POPCORN leaderboard double\none\n"
    assert command("board", "template", "double", "-l", "triton").out.endswith("two\n")
    assert "it has Python, Triton" in command("board", "template", "double", "-l", "rust").err


def test_a_file_is_judged_here_against_a_leaderboard(command: Command, ada, db, replays: Replays) -> None:
    make_board(db, task=make_task(hidden_tests=[{"size": 31337}]))
    ended = command("run", "double", "kernel.py", "--device", "emulated", "--mode", "ranked", "--json")
    assert ended.code == 0, ended.err
    (spec,) = replays.specs
    assert (spec.tests, spec.hidden_tests) == (make_task().tests, [])


def test_a_leaderboards_task_is_shown_and_checked(command: Command, ada, db) -> None:
    make_board(db)
    shown = command("task", "show", "double")
    assert "Double every element." in shown.out
    assert "def ref_kernel" in command("task", "show", "double", "--file", "reference.py").out
    checked = command("task", "check", "double", "--no-run")
    assert (checked.code, "no problems" in checked.out) == (0, True)


def test_cuda_is_compiled_for_the_devices_of_the_leaderboard_and_of_its_task(
    command: Command, ada, db, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []

    def compile_only(_spec: object, *, architectures: tuple[str, ...], **_more: object) -> Compiled:
        asked.append(architectures)
        return Compiled(targets=[CompiledFor(architecture=each) for each in architectures])

    monkeypatch.setattr(compiling, "compile_only", compile_only)
    make_board(db, task=make_task(devices=["T4", "H100"]))
    (tmp_path / "a.cu").write_text("int custom_kernel;\n")

    done = command("run", "double", str(tmp_path / "a.cu"), "--device", "emulated")

    assert asked == [("sm_90a", "sm_75")]
    assert "compiled, not run: no GPU here (sm_90a, sm_75)" in done.out


def test_a_leaderboard_of_this_machine_is_shown(command: Command) -> None:
    command("board", "create", "identity", "--name", "mine")
    assert "mine" in body_of(command("task", "show", "mine", "--json"))["name"]
    assert "no leaderboard of this machine's database" in command("task", "show", "yours").err


def test_a_name_that_means_two_things_is_told_apart(command: Command, ada, db) -> None:
    make_board(db, name="identity")
    shipped = command("task", "show", "identity")
    assert "for the leaderboard's task give board:identity" in shipped.err
    assert "Double every element." in command("task", "show", "board:identity").out
    assert "Double every element." not in shipped.out


def test_to_look_for_a_task_makes_no_database(command: Command, home: Path) -> None:
    (home / "kernelcup.db").unlink()
    ended = command("task", "show", "vectoradds")
    assert (ended.code, "no such folder, file or shipped task (all_gather_matmul" in ended.err) == (3, True)
    assert not (home / "kernelcup.db").exists()


def test_tasks_are_listed(command: Command) -> None:
    listed = command("task", "list", "--json").body["tasks"]
    assert {each["name"]: each["title"] for each in listed}["vectoradd"] == "Vector addition"
    shown = command("task", "list").out
    assert all(name in shown for name in shipped_tasks())


# ------------------------------------------------------------------------------------------ point 19


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("#!POPCORN leaderboard vectoradd\nx = 1\n", "#!POPCORN leaderboard mine\nx = 1\n"),
        ("x = 1\n", "#!POPCORN leaderboard mine\nx = 1\n"),
        ("#!/usr/bin/env python\n# a\nx", "#!/usr/bin/env python\n#!POPCORN leaderboard mine\n# a\nx"),
        (
            "#!POPCORN leaderboard vectoradd\n#!POPCORN gpus H100 T4\nx",
            "#!POPCORN leaderboard mine\n#!POPCORN gpus H100\nx",
        ),
        ("#!POPCORN gpus T4\n#!POPCORN speed 9\nx", "#!POPCORN leaderboard mine\nx"),
    ],
)
def test_a_template_gets_the_leaderboards_directive(text: str, wanted: str) -> None:
    written = write_directives(text, "mine", ["h100", "cpu"])
    assert written == wanted
    assert parse_directives(written).leaderboard == "mine"
    assert near_misses(written) == []


def test_a_template_of_another_name_is_taken(command: Command, ada, db, tmp_path: Path) -> None:
    text = "#!POPCORN leaderboard double\n#!POPCORN gpus T4\n" + SUBMISSION
    make_board(db, name="other", task=make_task(templates={"Python": text}), devices=["H100"])
    (tmp_path / "mine.py").write_text(command("board", "template", "other").out)
    ended = command("submit", "mine.py", "--no-wait")
    assert (ended.code, "submission 1 to other (H100)" in ended.out) == (0, True), ended.err
    shown = body_of(command("board", "show", "other", "--json"))["task"]["templates"]["Python"]
    assert shown == (tmp_path / "mine.py").read_text()


def test_a_single_file_board_has_a_template(command: Command, ada, db, tmp_path: Path) -> None:
    (tmp_path / "single.py").write_text(SINGLE)
    make_board(db, name="single", task=load_task(tmp_path / "single.py"))
    text = command("board", "template", "single").out
    assert text.startswith("#!POPCORN leaderboard single\n")
    assert "def custom_kernel(data: torch.Tensor) -> torch.Tensor:" in text
    compile(text, "template", "exec")
    assert "Python" in command("board", "show", "single").out


def test_a_made_template_leaves_out_types_of_the_task(tmp_path: Path) -> None:
    source = SINGLE.replace("data: torch.Tensor) -> torch.Tensor", "data: Vectors) -> list[torch.Tensor]")
    (tmp_path / "single.py").write_text(source)
    text = made_template(load_task(tmp_path / "single.py"))
    assert text is not None
    assert "def custom_kernel(data) -> list[torch.Tensor]:" in text


MISSES = [
    ("# POPCORN leaderboard x\n", "line 1: not a directive; write `#!POPCORN leaderboard x`"),
    ("#POPCORN gpu H100\n", "line 1: not a directive; write `#!POPCORN gpu H100`"),
    ("# !popcorn: leaderboard x\n", "line 1: not a directive; write `#!POPCORN leaderboard x`"),
    ("// POPCORN gpus A B\n", "line 1: not a directive; write `//!POPCORN gpus A B`"),
    ("import torch\n#!POPCORN leaderboard x\n", "line 2: ignored; directives belong at the top"),
]


@pytest.mark.parametrize(("text", "told"), MISSES)
def test_a_near_miss_is_told_by_run(
    command: Command, replays: Replays, tmp_path: Path, text: str, told: str
) -> None:
    (tmp_path / "kernel.py").write_text(text + SUBMISSION)
    ended = command("run", "identity", "kernel.py", "--device", "emulated")
    assert f"warning: {told}" in ended.err


def test_a_directive_that_no_leaderboard_takes_is_refused_by_run(command: Command, tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text("#!POPCORN leaderbord x\n" + SUBMISSION)
    ended = command("run", "identity", "kernel.py", "--device", "emulated")
    assert (ended.code, "Line 1: unknown directive 'leaderbord'" in ended.err) == (3, True)


def test_a_near_miss_is_told_by_submit(command: Command, ada, db, tmp_path: Path) -> None:
    text, told = MISSES[0]
    make_board(db)
    (tmp_path / "kernel.py").write_text(text + SUBMISSION)
    ended = command("submit", "kernel.py", "--no-wait")
    assert f"warning: {told}" in ended.err


@pytest.mark.parametrize(
    "text", ["# popcorn is good\n", "#!POPCORN leaderboard x\n", "# a POPCORN leaderboard\n"]
)
def test_other_comments_are_left_alone(text: str) -> None:
    assert near_misses(text) == []


@pytest.fixture
def lies(ada, db, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[Any], None]], None]:
    """Have the server at which ada is signed in change its answers at a path."""
    make_board(db, devices=["H100"], task=make_task(templates={"Python": SUBMISSION}))
    real = Client.send

    def install(ending: str, change: Callable[[Any], None]) -> None:
        def send(self: Client, asked: Request, *more: Any) -> Any:
            body = real(self, asked, *more)
            if asked.path.endswith(ending):
                change(body)
            return body

        monkeypatch.setattr(Client, "send", send)

    return install


ODD_NAMES = ("{outside}", "../evil.py", "a/../../evil.py", "C:\\evil.py", "", ".")


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_name_from_a_server_never_leads_out_of_the_folder(
    command: Command, lies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    inner, outside = tmp_path / "inner", tmp_path / "evil.py"
    inner.mkdir()
    monkeypatch.chdir(inner)
    outside.write_text("mine")
    odd = name.format(outside=outside)
    ways = [
        ("/brief", lambda body: body["files"].update(Python=odd)),
        ("/brief", lambda body: body.update(leaderboard=odd)),
        ("/definition", lambda body: body["task"]["sources"].update({odd: "x"})),
        ("/definition", lambda body: body["task"]["data"].update({odd: ""})),
        ("/definition", lambda body: body["task"]["figures"].update({odd: ""})),
        ("/definition", lambda body: body["task"].update(name=odd)),
        ("/definition", lambda body: body["task"].update(submission_name=odd)),
    ]
    for place, (ending, change) in enumerate(ways):
        lies(ending, change)
        assert command("start", "double").code != 0, place
        assert list(inner.iterdir()) == [], place
    assert outside.read_text() == "mine"


def test_a_folder_to_compete_from_has_the_servers_names(
    command: Command, lies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lies("/definition", lambda body: body["task"]["sources"].update({"include/deep/x.h": "x"}))
    assert command("start", "double").code == 0
    assert (tmp_path / "double/submission.py").read_text().endswith(SUBMISSION)
    assert (tmp_path / "double/task/include/deep/x.h").read_text() == "x"
