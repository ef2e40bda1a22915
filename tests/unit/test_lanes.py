"""Each test runs in a lane, and none that runs a whole job gets into the first one unseen."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import chain, combinations
from pathlib import Path
from types import SimpleNamespace

import pytest

from lanes import Lane, Watch, runs_in

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("job", "browser", "double", "fuzz", "sample")
EVERY = [
    frozenset(each)
    for each in chain.from_iterable(combinations(KINDS, count) for count in range(len(KINDS) + 1))
]
# It starts the harness, which refuses the option before it imports anything.
HARNESS = [sys.executable, "-P", "-m", "kernelcup_harness", "--no-such-option"]


@pytest.mark.parametrize("marks", EVERY, ids=lambda marks: "-".join(sorted(marks)) or "none")
def test_each_test_runs_in_one_lane_and_a_property_in_the_longer_one_at_least(marks: frozenset[str]) -> None:
    lanes = {lane for lane in Lane if runs_in(lane, marks)}
    assert len(lanes) == 1 or (len(lanes) == 2 and "fuzz" in marks)
    assert Lane.JOBS in lanes or "fuzz" not in marks


def test_what_a_test_reaches_is_seen_through_its_helpers_and_fixtures() -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests/harness/test_harness_own.py"]
    done = subprocess.run(
        [*command, "--lane", "test"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert "::test_the_environment_of_the_harness_has_no_secret" in done  # a sample
    assert "::test_too_long_results_end_the_run" not in done  # by a function of its module
    assert "::test_the_arguments_are_mode_and_case_file" not in done  # by a fixture
    assert "::test_outputs_are_put_together" in done


def marked(*names: str) -> SimpleNamespace:
    """Stand in for a test with these marks."""
    return SimpleNamespace(nodeid="a test", get_closest_marker=lambda name: name if name in names else None)


def start() -> None:
    subprocess.run(HARNESS, capture_output=True, check=False)


def start_in_a_copy() -> None:
    if (pid := os.fork()) == 0:
        start()
        os._exit(0)
    os.waitpid(pid, 0)


@pytest.mark.job
@pytest.mark.sample
@pytest.mark.parametrize("start", [start, start_in_a_copy])
def test_a_test_that_starts_the_harness_and_is_not_marked_fails(start, monkeypatch) -> None:
    watch = Watch()
    watch.begin(monkeypatch)
    start()
    with pytest.raises(pytest.fail.Exception, match="a test starts the harness"):
        watch.check(marked("sample"))
    watch.next()
    watch.check(marked())  # the next test has started nothing
    start()
    watch.check(marked("job"))


def test_a_description_of_the_machine_is_no_job(monkeypatch) -> None:
    watch = Watch()
    watch.begin(monkeypatch)
    subprocess.run([*HARNESS, "--describe"], capture_output=True, check=False)
    watch.check(marked())
