"""Jobs in an environment of the machine: its packages are there, its hash is in the report."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

import pytest
from harness_runs import quick_spec, run

from kernelcup_harness.isolation import environments, sandbox
from kernelcup_harness.protocol import Reason, Verdict

pytestmark = pytest.mark.jobs

USES = """
import kc_demo

def custom_kernel(data):
    print("answer=" + str(kc_demo.ANSWER))
    return data + data
"""
CHANGES = USES.replace(
    "import kc_demo", "import kc_demo, pathlib\npathlib.Path(kc_demo.__file__).write_text('')"
)


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """A machine with one environment; return its variables."""
    folder = tmp_path / "environments/demo"
    (folder / environments.SITE).mkdir(parents=True)
    (folder / environments.SITE / "kc_demo.py").write_text("ANSWER = 42\n")
    (folder / environments.MANIFEST).write_text(json.dumps({"hash": "ab" * 32, "include": [], "flags": []}))
    return {environments.VARIABLE: str(tmp_path / "environments")}


def test_a_submission_imports_what_its_environment_has_and_the_report_names_it(
    machine: dict[str, str],
) -> None:
    found = run(quick_spec(USES, environment="demo"), machine)

    assert found.report.verdict is Verdict.ACCEPTED, found.report.message
    assert "answer=42" in found.report.stdout.text
    named = found.report.environment["environment"]
    assert (named["name"], named["hash"]) == ("demo", "ab" * 32)
    assert f"torch {metadata.version('torch')}" in named["packages"].split(", ")


def test_a_job_without_an_environment_does_not_see_one_and_names_the_default(machine: dict[str, str]) -> None:
    found = run(quick_spec(USES), machine)

    assert "kc_demo" in found.report.message
    named = found.report.environment["environment"]
    assert (named["name"], len(named["hash"])) == ("default", 64)


@pytest.mark.skipif(not sandbox.is_there(), reason="no sandbox")
def test_a_submission_cannot_change_its_environment(machine: dict[str, str]) -> None:
    found = run(quick_spec(CHANGES, environment="demo"), machine)

    assert found.report.verdict is not Verdict.ACCEPTED
    assert "Read-only file system" in found.report.message or "Permission denied" in found.report.message


def test_a_job_for_an_environment_that_this_machine_lacks_is_the_machines_failure(
    machine: dict[str, str],
) -> None:
    found = run(quick_spec(USES, environment="other"), machine)

    assert (found.report.verdict, found.report.reason) == (Verdict.INTERNAL_ERROR, Reason.MACHINE)
    assert "no environment 'other'" in found.report.message
    assert found.report.environment["environment"] == {"name": "other"}
