"""Leaderboards in C++ and CUDA C++: which flags they may give, whose code judges, and what submissions see."""

from __future__ import annotations

from pathlib import Path

import pytest
from task_builders import write_task

from kernelcup.domain import Task
from kernelcup.tasks.job_spec import build_job_spec
from kernelcup.tasks.loader import load_task
from kernelcup.tasks.manifest.c_interface import flag_fault
from kernelcup_harness.protocol import Backend, HarnessKind, JobSpec, Mode, SourceTree

REFERENCE = """\
#include "secret.h"
#include "shape.h"
int generate_input(const kc_case *parameters, uint64_t seed, kc_args *inputs, kc_context *context) { return 0; }
int ref_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) { return 0; }
"""
ALLOWED = (
    "-O3 -lineinfo -G -use_fast_math --use_fast_math -std=c++17 -std=c++20 -Wall -Wno-unused -DTILE=16 -UNDEBUG "
    "-maxrregcount=64 --expt-relaxed-constexpr -Xptxas=-v,-O3 --ptxas-options=-v -ftz=true -Xcompiler=-fopenmp,-O2 "
    "-fno-math-errno -march=native -fopenmp -rdc=true"
).split()
REFUSED = (
    "-fplugin=evil.so -fplugin-arg-x=1 -specs=x -wrapper=sh -ccbin=/tmp/cc -B/tmp -Wl,-rpath,/x -Wp,-MD,/x -lcuda "
    "-L/usr/lib -I/etc -include=/etc/passwd -o=/tmp/x -arch=sm_80 --options-file=x -optf=x -Xcompiler=-fplugin=x "
    "-Xlinker=-T/x -save-temps --keep -MD -dumpbase -fdump-tree-all -fprofile-use=/x -@x -x -E -S"
).split()


@pytest.mark.parametrize("flag", ALLOWED)
def test_a_usual_flag_is_allowed(flag: str) -> None:
    assert flag_fault(flag) is None


@pytest.mark.parametrize("flag", REFUSED)
def test_a_flag_that_reads_loads_or_writes_is_refused_by_name(flag: str) -> None:
    assert (flag_fault(flag) or "").startswith(f"`{flag.removeprefix('-Xcompiler=')}` ")


def made(folder: Path, sources: dict[str, str], config: dict[str, object], *lent: str) -> Task:
    """Load a CUDA task with these files, and with the names of lent ones."""
    names = [*sources, *lent]
    listed = [{"name": name, "source": name} for name in names]
    listed.append({"name": "submission.cu", "source": "@SUBMISSION@"})
    return load_task(
        write_task(folder, extra=sources, lang="cu", files=listed, config=config, templates={}, tests=[])
    )


def spec_of(task: Task) -> JobSpec:
    submission = SourceTree.of("", "mine.cu")
    return build_job_spec(task, job_id="a", submission=submission, mode=Mode.TEST, backend=Backend.CUDA)


def test_a_submission_sees_no_header_that_only_the_judged_files_include(tmp_path: Path) -> None:
    sources = {
        "reference.cu": REFERENCE,
        "more.cu": '#include "deep/more.h"\n',
        "secret.h": "",
        "shape.h": "",
        "deep/more.h": "",
        "tools.cuh": '#include "shape.h"\n',
    }
    task = made(tmp_path / "a", sources, {"sources": ["reference.cu", "more.cu", "submission.cu"]})
    spec = spec_of(task)
    assert task.harness is HarnessKind.STANDARD
    assert spec.private_files == ["deep/more.h", "more.cu", "reference.cu", "secret.h"]
    assert spec.cuda.sources == ["more.cu"]
    assert spec.reference_module == "reference.cu"


def test_a_harness_that_a_task_ships_judges_unless_the_standard_one_is_chosen(tmp_path: Path) -> None:
    sources = {
        "reference.cu": REFERENCE,
        "secret.h": "",
        "shape.h": "",
        "eval.cu": "int main() { return 0; }\n",
    }
    config: dict[str, object] = {"sources": ["eval.cu", "submission.cu"]}
    own = made(tmp_path / "a", sources, config)
    assert (own.harness, own.main, spec_of(own).cuda.sources) == (
        HarnessKind.OWN,
        "eval.cu",
        ["submission.cu"],
    )
    standard = load_task(tmp_path / "a", harness=HarnessKind.STANDARD)
    assert (standard.harness, spec_of(standard).cuda.sources) == (HarnessKind.STANDARD, [])


def test_a_lent_harness_judges_what_has_no_functions_for_ours(tmp_path: Path) -> None:
    sources = {"reference.cuh": "static void check_implementation(TestReporter &);\n", "task.h": ""}
    task = made(tmp_path / "a", sources, {"sources": ["eval.cu", "submission.cu"]}, "eval.cu", "utils.h")
    assert (task.harness, task.main) == (HarnessKind.OWN, "eval.cu")
    assert "POPCORN_FD" in task.sources["eval.cu"]
    assert "class TestReporter" in task.sources["utils.h"]
