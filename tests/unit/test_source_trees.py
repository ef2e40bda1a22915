"""The files of a submission, as a job carries them."""

from __future__ import annotations

from typing import Any

import pytest

from builders import make_spec
from kernelcup_harness.protocol import (
    JobSpec,
    ProtocolError,
    SourceTree,
    check_spec,
    from_json,
    to_json,
)

TWO = {"submission.py": "import helper\n", "helper.py": "x = 1\n"}


def read(tree: Any, **changes: Any) -> JobSpec:
    spec = from_json(JobSpec, {**to_json(make_spec()), "submission": tree, **changes})
    check_spec(spec)
    return spec


def test_a_job_carries_several_files() -> None:
    spec = read({"entry": "submission.py", "files": TWO})
    assert (spec.submission.code, spec.submission.text) == (
        "import helper\n",
        "# ---- submission.py\nimport helper\n\n# ---- helper.py\nx = 1\n",
    )


@pytest.mark.parametrize(
    ("tree", "fault"),
    [
        ("a text", "expected an object"),
        ({"entry": "a.py", "files": {"a.py": ""}, "name": "a"}, "unknown key"),
        ({"entry": "a.py", "files": {"b.py": ""}}, "the entry is not among the files"),
        ({"entry": "/a.py", "files": {"/a.py": ""}}, "plain relative path"),
        ({"entry": "a.py", "files": {"a.py": "", "": ""}}, "plain relative path"),
        ({"entry": "a.py", "files": {"a.py": "", "b/../c.py": ""}}, "plain relative path"),
        ({"entry": "a.py", "files": {"a.py": "", "a.py/b.py": ""}}, "both a file and a folder"),
        ({"entry": "a.py", "files": {"a.py": "", "reference.py": ""}}, "'reference', too"),
        # Python prefers the folder to the file of the same name.
        ({"entry": "a.py", "files": {"a.py": "", "reference/__init__.py": ""}}, "'reference', too"),
        ({"entry": "a.py", "files": {"a.py": "", "b.py": "\ud800"}}, "UTF-8"),
    ],
)
def test_a_job_whose_submission_cannot_lie_beside_the_task_is_refused(tree: Any, fault: str) -> None:
    for changes in ({"submission": tree}, {"rival": tree}):
        with pytest.raises(ProtocolError, match=fault):
            read(
                **{
                    "tree": to_json(SourceTree.of("")),
                    **({"tree": tree} if "submission" in changes else changes),
                }
            )
