"""`kernelcup env`, and `kernelcup run` of CUDA C++ on a machine without a GPU."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from builders import make_report
from kernelcup.cli.app import app
from kernelcup.errors import InvalidValue, LaunchError
from kernelcup.launchers.base import LaunchResult
from kernelcup.launchers.local import compiling
from kernelcup.launchers.local.launcher import LocalLauncher
from kernelcup_harness.build import inspection
from kernelcup_harness.protocol import Reason, Verdict
from kernelcup_harness.protocol.compiled import Compiled, CompiledFor, Diagnostic, KernelResources

Call = Callable[..., Result]
KERNEL = KernelResources(
    name="add(float*)", registers=12, shared_bytes=64, spill_store_bytes=4, spill_load_bytes=8, stack_bytes=0
)
GOOD = Compiled(targets=[CompiledFor(architecture="sm_90a", kernels=[KERNEL], sass="EXIT ;")])
BAD = Compiled(
    error="submission.cu(3): error: nope", diagnostics=[Diagnostic(file="submission.cu", line=3, text="nope")]
)


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "submission.cu").write_text("int custom_kernel;\n")

    def run(*words: str) -> Result:
        environ = {"KERNELCUP_HOME": str(tmp_path / "home"), "CUDA_VISIBLE_DEVICES": ""}
        return CliRunner().invoke(app, list(words), env=environ)

    return run


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch) -> Callable[[Compiled], list[dict[str, Any]]]:
    """Return what sets the compiler's answer; the list gets its arguments."""

    def answer(found: Compiled) -> list[dict[str, Any]]:
        asked: list[dict[str, Any]] = []

        def compile_only(spec: Any, **more: Any) -> Compiled:
            asked.append({**more, "entry": spec.submission.entry, "with": inspection.what_is_compiled(spec)})
            return found

        monkeypatch.setattr(compiling, "compile_only", compile_only)
        return asked

    return answer


def test_what_compiles_and_cannot_run_has_an_exit_code_of_its_own(call: Call, compiles: Any) -> None:
    asked = compiles(GOOD)
    done = call("run", "vectoradd", "submission.cu", "--show", "resources,sass")

    assert done.exit_code == 18, done.output
    assert "sm_90a  add(float*): 12 registers, 64 bytes of shared memory, spills 4 + 8 bytes" in done.output
    assert "EXIT ;" in done.output
    assert done.output.endswith("compiled, not run: no GPU here (sm_90a)\n")
    assert asked[0]["listings"] == ["resources", "sass"]


def test_a_compile_error_is_a_verdict_without_a_gpu_too(call: Call, compiles: Any) -> None:
    compiles(BAD)
    done = call("run", "vectoradd", "submission.cu")

    assert done.exit_code == 11
    assert "submission.cu(3): error: nope" in done.output
    assert "verdict: compile_error" in done.output


@pytest.mark.parametrize(("found", "verdict"), [(GOOD, None), (BAD, "compile_error")])
def test_both_are_one_json_object(call: Call, compiles: Any, found: Compiled, verdict: str | None) -> None:
    compiles(found)
    said = json.loads(call("run", "vectoradd", "submission.cu", "--json").stdout)

    assert (said["verdict"], said["outcome"]) == (verdict, verdict or "compiled, not run: no GPU here")
    assert len(said["compiled"]["targets"]) == (verdict is None)


UNRUN = "compiled, not run: no GPU here (sm_75); it was not linked"


@pytest.mark.parametrize("as_json", [False, True])
def test_inline_cuda_that_compiles_and_cannot_run_ends_as_a_file_does(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    (tmp_path / "a.py").write_text("def custom_kernel(data): ...\n")
    report = make_report(
        verdict=Verdict.RUNTIME_ERROR, reason=Reason.IMPORT, message=f"Traceback\nImportError: {UNRUN}\n"
    )
    asked: list[Any] = []

    def launch(self: LocalLauncher, *_given: Any, **_more: Any) -> LaunchResult:
        asked.append(self._environ[compiling.COMPILE_FOR])
        return LaunchResult(report=report, machine="here", harness_hash="")

    monkeypatch.setattr(LocalLauncher, "run", launch)
    done = call("run", "vectoradd", "a.py", "--device", "emulated", *(["--json"] if as_json else []))

    assert done.exit_code == 18, done.output
    assert asked == ["9.0a;8.0;8.9;7.5"]
    said = done.stdout.splitlines()[-1]
    assert (json.loads(said)["message"] if as_json else said) == UNRUN


def test_a_machine_without_a_compiler_says_so(call: Call, compiles: Any) -> None:
    compiles(Compiled(trouble="submission.cu needs nvcc"))
    error = call("run", "vectoradd", "submission.cu").exception
    assert isinstance(error, LaunchError)
    assert str(error) == "submission.cu needs nvcc"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("submission.cu", "--show", "sas"), "--show sas: expected"),
        (("a.py", "--show", "sass"), "only CUDA C++"),
    ],
)
def test_what_cannot_be_shown_is_refused(call: Call, words: tuple[str, ...], said: str) -> None:
    Path("a.py").write_text("def custom_kernel(data):\n    return data\n")
    error = call("run", "vectoradd", *words).exception
    assert isinstance(error, InvalidValue)
    assert said in str(error)


def test_an_environment_is_made_listed_exported_and_seen_by_the_doctor(call: Call) -> None:
    Path("plain.toml").write_text('flags = ["-lineinfo"]\n')

    assert "Next: a task.yml with `environment: plain`" in call("env", "build", "plain").output
    (listed,) = json.loads(call("env", "list", "--json").stdout)["environments"]
    assert listed["name"] == "plain"
    assert call("env", "export", "plain").output == 'flags = ["-lineinfo"]\n'
    assert f"default (what pip brought), plain {listed['hash'][:12]}" in call("doctor").output


def test_an_environment_that_is_not_there_is_not_exported(call: Call) -> None:
    error = call("env", "export", "plain").exception
    assert isinstance(error, InvalidValue)
    assert "no environment 'plain'" in str(error)
    assert "none but the default one" in call("env", "list").output


def test_a_cuda_task_is_checked_without_a_gpu_by_compiling_its_files(call: Call, compiles: Any) -> None:
    asked = compiles(GOOD)
    done = call("task", "check", "vectoradd_cuda")

    assert done.exit_code == 0, done.output
    assert "reference.cu: compiled, not run: no GPU here; template CUDA: compiled" in done.output
    leaderboards = {each["entry"] for each in asked if "KERNELCUP_CUDA_LEADERBOARD" in each["with"][1]}
    assert leaderboards == {"reference.cu"}
    assert "submission.cu" in {each["entry"] for each in asked}


def test_a_reference_that_does_not_compile_is_a_problem_with_its_line(call: Call, compiles: Any) -> None:
    compiles(BAD)
    done = call("task", "check", "vectoradd_cuda")

    assert done.exit_code == 3
    assert "reference.cu:3:1: reference.cu: submission.cu(3): error: nope" in done.output


def test_what_this_machine_lacks_for_compiling_is_no_problem_of_the_task(call: Call, compiles: Any) -> None:
    compiles(Compiled(trouble="the default environment lacks the library 'cublas'"))
    done = call("task", "check", "matmul_cuda")

    assert done.exit_code == 0, done.output
    assert "reference.cu: not decided here: the default environment lacks the library 'cublas'" in done.output


def test_a_harness_of_the_tasks_own_is_compiled_with_the_submission(call: Call, compiles: Any) -> None:
    asked = compiles(GOOD)
    done = call("run", "identity_cuda", "submission.cu")

    assert done.exit_code == 18, done.output
    entry, variables, hidden = asked[0]["with"]
    assert (entry, variables["KERNELCUP_CUDA_PROGRAM"], hidden) == ("eval.cu", "1", ())
