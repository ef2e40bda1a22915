"""A competition from the first file to the standings, and what each verdict and error exits with."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from cup import COMMAND, Cup

EXCEPTION = (
    'import sys\nprint("[red]hello[/] \\x1b[31m")\ndef custom_kernel(data):\n    raise ValueError("[/] é")\n'
)

COMMANDS = (
    "run;submit;watch;cancel;standings;serve;demo;doctor;task;task check;task new;task show;task template;"
    "board;board create;board list;board show;board delete;"
    "submissions;submissions list;submissions show;submissions delete"
).split(";")


@pytest.mark.dear("judges a submission in the processes of a real run")
def test_a_whole_competition(cup: Cup) -> None:
    files = cup.json("task", "new", "double")["files"]
    assert "double/solutions/correct.py" in files
    assert cup.json("task", "check", "double", "--no-run")["problems"] == []
    board = cup.json("board", "create", "double", "--deadline", "2999-12-31 23:59 +01:00", "--no-run")
    assert (board["name"], board["devices"]) == ("double", ["emulated"])
    assert board["deadline"] == "2999-12-31T22:59:00+00:00"

    done = cup("submit", "double/solutions/correct.py", "--user", "grace")
    assert "grace on emulated: rank 1" in done.stdout
    assert "ranked: 2 of 2 cases passed" in done.stdout
    assert "accepted  ranked 2/2" in done.stderr
    (place,) = cup.json("standings")["standings"]["emulated"]
    assert (place["rank"], place["user"], place["submission"]) == (1, "grace", 1)
    assert place["comparable"] is False
    assert place["score_s"] > 0
    assert "grace" in cup("standings", "double").stdout
    (listed,) = cup.json("submissions", "list")["submissions"]
    assert (listed["user"], listed["jobs"][0]["verdict"]) == ("grace", "accepted")
    assert cup.json("submissions", "delete", "1", "--yes") == {"deleted": 1}
    assert cup.json("board", "delete", "double", "--confirm", "double") == {"deleted": "double"}
    assert cup.json("submissions", "list") == {"submissions": []}


@pytest.mark.jobs
def test_a_wrong_answer_has_a_code_of_its_own_and_says_what_is_wrong(cup: Cup) -> None:
    cup("board", "create", "identity")
    wrong = cup.json(
        "submit", cup.write("wrong.py", "def custom_kernel(data):\n    return data + 1\n"), code=10
    )
    (job,) = wrong["jobs"]
    assert (wrong["id"], wrong["user"], job["state"], job["verdict"]) == (1, "ada", "done", "wrong_answer")
    assert job["report"]["stages"][-1]["cases"][0]["mismatch"]["wrong"] > 0
    assert "elements are wrong" in cup("submissions", "show", "1", code=10).stdout


@pytest.mark.jobs
def test_nothing_that_a_submission_writes_commands_the_terminal(cup: Cup) -> None:
    done = cup("run", "identity", cup.write("[red].py", EXCEPTION), code=12)
    assert "\x1b" not in done.stdout + done.stderr
    assert "ValueError: [/] é" in done.stdout
    assert "[red]hello[/] \\x1b[31m" in done.stdout
    assert "Repeat it: kernelcup run identity '[red].py' --mode test --device emulated" in done.stdout


@pytest.mark.jobs
def test_a_run_imports_no_torch_into_the_control_plane(cup: Cup) -> None:
    file = cup.write("same.py", "def custom_kernel(data):\n    return data.clone()\n")
    trace = cup.folder / "trace.json"
    options = ["--mode", "profile", "--trace", str(trace), "--seed", "7" * 64, "--json"]
    script = "import sys\nfrom kernelcup.cli.entry import execute\nassert execute(sys.argv[1:]) == 0\n"
    script += "assert not {'torch', 'numpy', 'triton'} & set(sys.modules)\n"
    command = [sys.executable, "-c", script, "run", "identity", file, *options]
    done = subprocess.run(
        command, cwd=cup.folder, env=cup.environ, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    body = json.loads(done.stdout)
    assert body["verdict"] == "accepted"
    assert body["report"]["secret_seed"] == "7" * 64
    cases = body["report"]["stages"][-1]["cases"]
    traces = [trace] if len(cases) == 1 else [cup.folder / f"trace-{case['index']}.json" for case in cases]
    assert all("traceEvents" in json.loads(path.read_text()) for path in traces)


def test_help_imports_nothing_heavy(cup: Cup) -> None:
    heavy = {"torch", "numpy", "sqlalchemy", "alembic", "rich", "ruamel.yaml", "structlog"}
    # For the help of a command with options, typer itself imports pydantic.
    parts = [([["--help"]], heavy | {"pydantic"}), ([[*each.split(), "--help"] for each in COMMANDS], heavy)]
    script = "import sys\nfrom kernelcup.cli.entry import execute\n" + "".join(
        f"assert not any(map(execute, {commands!r}))\nassert not {modules!r} & set(sys.modules)\n"
        for commands, modules in parts
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=cup.environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Usage: kernelcup ") == 1 + len(COMMANDS)


@pytest.mark.jobs
def test_a_reader_that_has_enough_is_no_error(cup: Cup) -> None:
    with subprocess.Popen(
        [COMMAND, "task", "show", "vectoradd", "--harness"],
        env=cup.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


@pytest.mark.jobs
def test_two_submissions_at_the_same_time_are_both_judged(cup: Cup) -> None:
    cup("board", "create", "identity")
    file = cup.write("same.py", "def custom_kernel(data):\n    return data.clone()\n")
    args = ("submit", file, "--mode", "test", "--json")
    with cup.started(*args) as first, cup.started(*args) as second:
        bodies = [json.loads(process.communicate()[0]) for process in (first, second)]
        assert (first.returncode, second.returncode) == (0, 0)
    assert sorted(body["id"] for body in bodies) == [1, 2]
    assert [body["jobs"][0]["attempt"] for body in bodies] == [1, 1]


FORGETS = """\
seen = []


def custom_kernel(data):
    seen.append(data.float().mean().item())
    wrong = len(seen) > 6
    return data.clone() + wrong
"""


@pytest.mark.jobs
def test_the_sample_on_which_a_ranked_run_failed_is_repeated_from_its_seed(cup: Cup) -> None:
    cup("board", "create", "identity")
    file = cup.write("forgets.py", FORGETS)
    body = cup.json("submit", file, "--mode", "ranked", code=10)
    job = body["jobs"][0]
    (failed,) = [case for case in job["report"]["stages"][-1]["cases"] if case["failed_on"]]
    shown = cup("submissions", "show", str(body["id"]), code=10).stdout
    command = f"kernelcup replay {job['run']} --stage ranked --case {failed['index']}"
    assert command in shown
    # Alone in its process the sample is the first call, which this submission gets right.
    replayed = cup.json(*command.split()[1:])
    assert replayed["replay"]["sample"] == failed["failed_on"]
    assert [stage["name"] for stage in replayed["report"]["stages"]] == ["import", "ranked"]
    assert replayed["report"]["seed_commitment"] == job["report"]["seed_commitment"]
    assert "accepted" in cup("replay", str(job["run"]), "--case", "0", "--input", "2").stdout
