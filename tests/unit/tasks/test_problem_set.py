from __future__ import annotations

import json
from pathlib import Path

import pytest
from task_builders import files_with, write_task

from kernelcup.errors import InvalidTask, NotFound
from kernelcup.tasks.problem_set import check_path, load_problem_set, survey_problem_set

ENTRY = {"directory": "pmpp/copy", "name": "copy_v2", "deadline": "2026-06-30", "gpus": ["H100", "A100"]}


def write_set(folder, *entries, **keys):
    body = {"name": "Practice", "deadline": "", "description": "", "problems": list(entries), **keys}
    path = folder / "set.yaml"
    path.write_text(json.dumps(body))
    return path


def lines_of(path):
    return [str(problem).replace(f"{path.parent}/", "") for problem in check_path(path)]


def test_a_problem_set_loads_with_its_tasks(tmp_path):
    write_task(tmp_path / "pmpp" / "copy")
    loaded = load_problem_set(write_set(tmp_path, ENTRY, description="Start here."))
    (entry,) = loaded.problems
    assert (loaded.name, loaded.description, loaded.deadline) == ("Practice", "Start here.", "")
    assert (entry.name, entry.directory, entry.deadline) == ("copy_v2", "pmpp/copy", "2026-06-30")
    assert entry.devices == ("H100", "A100")
    assert entry.task.name == "copy"


def test_deadline_and_devices_fall_back_to_set_and_task(tmp_path):
    write_task(tmp_path / "copy", gpus=["B200"])
    path = write_set(tmp_path, {"directory": "copy", "name": "copy"}, deadline="2026-02-14")
    (entry,) = load_problem_set(path).problems
    assert entry.deadline == "2026-02-14"
    assert entry.devices == ("B200",)


def test_the_folder_of_the_set_is_the_root_of_its_tasks(tmp_path):
    (tmp_path / "utils.py").write_text("far = 1\n")
    write_task(tmp_path / "pmpp" / "copy", files=files_with(("utils.py", "../../utils.py")))
    (entry,) = load_problem_set(write_set(tmp_path, ENTRY)).problems
    assert entry.task.sources["utils.py"] == "far = 1\n"


def test_a_task_cannot_reach_beyond_the_set(tmp_path):
    (tmp_path / "utils.py").write_text("far = 1\n")
    write_task(tmp_path / "set" / "copy", files=files_with(("utils.py", "../../utils.py")))
    (line,) = lines_of(write_set(tmp_path / "set", {**ENTRY, "directory": "copy"}))
    assert line.startswith("copy/task.yml:1:")
    assert "leads out of the problem set's root" in line


def test_the_problems_of_the_set_and_of_all_tasks_come_together(tmp_path):
    write_task(tmp_path / "a", lang="rust")
    write_task(tmp_path / "b", benchmarks=[])
    lines = lines_of(
        write_set(
            tmp_path,
            {"directory": "a", "name": "a"},
            {"directory": "b", "name": "a"},
            {"directory": "c", "name": "c"},
            titel="x",
        )
    )
    assert [line.split(":")[0] for line in lines] == ["a/task.yml", "b/task.yml", *["set.yaml"] * 3]
    assert "`a` is the name of problems.0 already" in lines[2]
    assert "problems.2.directory: `c` cannot be used: its `task.yml` does not exist" in lines[3]
    assert "titel: unknown key" in lines[4]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"directory": "../copy"}, "is not plain"),
        ({"directory": "/copy"}, "is absolute"),
        ({"directory": "linked"}, "goes through a link"),
        ({"directory": ""}, "problems.0.directory: must not be empty"),
        ({"deadline": "soon"}, "problems.0.deadline: 'soon' is no date"),
        ({"deadline": "2026-13-01"}, "is no date"),
        ({"gpus": "H100"}, "problems.0.gpus: must be a list, not text"),
        ({"gpu": ["H100"]}, "did you mean `gpus`?"),
    ],
)
def test_a_wrong_entry_is_refused(tmp_path, entry, words):
    (tmp_path / "linked").symlink_to(write_task(tmp_path / "pmpp" / "copy"))
    assert any(words in line for line in lines_of(write_set(tmp_path, {**ENTRY, **entry})))


@pytest.mark.parametrize(
    "deadline", ["2025-11-29 6:59", "2025-10-15 07:00", "2100-12-31", "2026-01-01T12:00:00Z", ""]
)
def test_deadlines_that_exist_in_the_wild_are_taken(tmp_path, deadline):
    write_task(tmp_path / "pmpp" / "copy")
    assert lines_of(write_set(tmp_path, {**ENTRY, "deadline": deadline})) == []


def test_an_unquoted_date_is_a_deadline(tmp_path):
    write_task(tmp_path / "copy")
    path = tmp_path / "set.yaml"
    path.write_text("name: x\nproblems:\n- {directory: copy, name: c, deadline: 2026-06-30}\n")
    assert load_problem_set(path).problems[0].deadline == "2026-06-30"


@pytest.mark.parametrize("text", ["", "[]", "name: x", "name: [", "name: x\nproblems: 3"])
def test_a_file_that_is_no_problem_set_is_refused(tmp_path, text):
    (tmp_path / "set.yaml").write_text(text)
    with pytest.raises(InvalidTask, match=r"set\.yaml:\d+:\d+: "):
        load_problem_set(tmp_path / "set.yaml")


def test_no_file_is_not_found(tmp_path):
    with pytest.raises(NotFound):
        load_problem_set(tmp_path / "set.yaml")


def test_a_survey_tells_good_tasks_from_broken_ones(tmp_path):
    write_task(tmp_path / "pmpp" / "copy")
    write_task(tmp_path / "bad", lang="rust")
    path = write_set(tmp_path, ENTRY, {"directory": "bad", "name": "bad"}, {"name": 3}, "x")
    survey = survey_problem_set(path, shown=Path("sets/set.yaml"))
    assert [entry.name for entry in survey.problem_set.problems] == ["copy_v2"]
    assert [entry.name for entry in survey.broken] == ["bad", "problems.2", "problems.3"]
    assert survey.broken[0].problems[0].file == "sets/bad/task.yml"
    assert {problem.file for problem in survey.broken[1].problems} == {"sets/set.yaml"}


def test_a_survey_of_a_set_that_is_none_is_refused(tmp_path):
    with pytest.raises(InvalidTask, match=r"(?m)^s\.yaml:1:\d+: titel: unknown key"):
        survey_problem_set(write_set(tmp_path, ENTRY, titel="x"), shown=Path("s.yaml"))
