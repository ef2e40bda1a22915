from __future__ import annotations

import pytest

from builders import REFERENCE, make_task
from kernelcup.app.boards import task_diff
from kernelcup.app.boards.task_diff import compare
from kernelcup.domain import StageLimits


def test_equal_tasks_have_no_differences() -> None:
    changes = compare(make_task(), make_task(name="another"))
    assert changes == task_diff.TaskChanges(settings={}, files=(), cases=(), hidden={}, reasons=())


def test_a_changed_file_is_shown_with_its_lines() -> None:
    changes = compare(
        make_task(), make_task(sources={"reference.py": REFERENCE + "x = 1\n", "new.py": "a\nb\n"})
    )
    new, changed = changes.files
    assert (new.name, new.kind, new.added, new.removed) == ("new.py", "added", 2, 0)
    assert (changed.name, changed.kind, changed.added, changed.removed) == ("reference.py", "changed", 1, 0)
    assert changed.diff.endswith("+x = 1")
    assert changes.reasons == ("new.py was added", "reference.py was changed")


def test_a_removed_file_is_shown() -> None:
    old = make_task(sources={"reference.py": REFERENCE, "utils.py": "x\n"})
    (gone,) = compare(old, make_task()).files
    assert (gone.name, gone.kind, gone.removed) == ("utils.py", "removed", 1)


def test_long_files_are_counted_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_diff, "LONGEST_DIFF_LINES", 3)
    (change,) = compare(make_task(), make_task(sources={"reference.py": "a\nb\nc\nd\n"})).files
    assert (change.added, change.diff) == (4, "")


def test_statement_templates_limits_and_proposed_devices_leave_results_comparable() -> None:
    new = make_task(
        description="Twice.", templates={"Python": "x"}, limits=StageLimits(test_s=9), devices=["H100"]
    )
    changes = compare(make_task(), new)
    assert [change.name for change in changes.files] == ["description", "template Python"]
    assert changes.settings == {"limits": (StageLimits(), StageLimits(test_s=9)), "devices": ([], ["H100"])}
    assert changes.reasons == ()


def test_cases_are_matched_so_that_only_real_changes_show() -> None:
    old = make_task(tests=[{"size": 1}, {"size": 2}, {"size": 3}])
    new = make_task(tests=[{"size": 1}, {"size": 20}, {"size": 3}, {"size": 4}])
    changed, added = compare(old, new).cases
    assert (changed.group, changed.kind, changed.old, changed.new) == (
        "tests",
        "changed",
        {"size": 2},
        {"size": 20},
    )
    assert (added.kind, added.old, added.new) == ("added", None, {"size": 4})
    assert [change.kind for change in compare(new, old).cases] == ["changed", "removed"]
    assert compare(old, new).reasons == ("tests changed",)


def test_a_flag_is_not_the_number_one() -> None:
    (change,) = compare(make_task(tests=[{"x": 1}]), make_task(tests=[{"x": True}])).cases
    assert change.kind == "changed"


def test_hidden_cases_are_numbers_only() -> None:
    changes = compare(make_task(), make_task(hidden_tests=[{"size": 4242, "seed": 1}]))
    assert changes.hidden == {"hidden_tests": (0, 1)}
    assert "4242" not in repr(changes)
    assert changes.reasons == ("hidden tests changed",)
