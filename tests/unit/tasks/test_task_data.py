"""Binary files of a task: by hash part of it, within a size, for its own code alone."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile

import pytest
from task_builders import DROP, problems_of, task_files, task_yml, write_task, write_zip

from kernelcup.app.boards.task_diff import compare
from kernelcup.domain import Task
from kernelcup.tasks import writer
from kernelcup.tasks.job_spec import build_job_spec
from kernelcup.tasks.loader import load_task
from kernelcup_harness.protocol import Backend, JobSpec, Mode, ProtocolError, SourceTree, dumps, loads
from kernelcup_harness.protocol.spec import check_spec

WEIGHTS = bytes(range(256)) * 4
DATA = ["weights.npy", "graphs/ring.bin"]
FILES = {"weights.npy": WEIGHTS, "graphs/ring.bin": b"\x00\xff"}
MIB = 1 << 20


def loaded(folder, **changed: bytes) -> Task:
    return load_task(write_task(folder, extra=FILES | changed, data=DATA))


def job(task: Task) -> JobSpec:
    submission = SourceTree.of("def custom_kernel(data): ...\n", "submission.py")
    return build_job_spec(task, job_id="1", submission=submission, mode=Mode.TEST, backend=Backend.CPU)


def test_data_files_are_part_of_the_task_and_go_along_with_its_jobs(tmp_path):
    task = loaded(tmp_path / "t")
    assert {name: base64.b64decode(text) for name, text in task.data.items()} == FILES
    assert task.data_sums()["weights.npy"] == (1024, hashlib.sha256(WEIGHTS).hexdigest())
    assert job(task).data == task.data
    assert loads(JobSpec, dumps(job(task))) == job(task)
    assert Task.from_json(task.to_json()) == task


def test_other_bytes_make_another_version_whose_results_do_not_rank_with_the_old_ones(tmp_path):
    old, new = loaded(tmp_path / "a"), loaded(tmp_path / "b", **{"weights.npy": b"other"})
    assert old.content_hash == loaded(tmp_path / "c").content_hash != new.content_hash
    assert old.judging(old.harness) != new.judging(new.harness)
    found = compare(old, new)
    assert found.reasons == ("weights.npy was changed",)
    assert "5 bytes, sha256" in found.files[0].diff


def test_a_zip_brings_its_data_files(tmp_path):
    zipped = {**task_files(data=DATA), **FILES}
    assert load_task(write_zip(tmp_path / "t.zip", zipped)).data == loaded(tmp_path / "t").data


def test_a_written_task_is_the_same_task(tmp_path):
    task = loaded(tmp_path / "t")
    writer.write_task(task, tmp_path / "again")
    assert (tmp_path / "again/weights.npy").read_bytes() == WEIGHTS
    assert load_task(tmp_path / "again").data == task.data
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in writer.files_of(task).items():
            archive.writestr(name, content)
    assert zipfile.ZipFile(buffer).read("graphs/ring.bin") == b"\x00\xff"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (["none.npy"], "data.0: `none.npy` does not exist"),
        (["weights.npy", "../x.npy"], "data.1: `../x.npy` is not plain"),
        (["/etc/passwd"], "data.0: `/etc/passwd` is absolute"),
        (["reference.py"], "data.0: `reference.py` is the name of another file of the task"),
        (["weights.npy", "weights.npy"], "data.1: `weights.npy` is the name of another file of the task"),
        (["large.npy"], "data.0: `large.npy` is larger than 5 MiB"),
        (["a.npy", "b.npy"], "data: is larger than 8 MiB together"),
        ("weights.npy", "data: must be a list"),
        ([{"name": "weights.npy"}], "data.0: must be text"),
    ],
)
def test_a_data_file_that_is_missing_or_too_large_is_one_of_the_problems(tmp_path, data, words):
    sizes = {"large.npy": 5 * MIB + 1, "a.npy": 5 * MIB, "b.npy": 3 * MIB + 1}
    wanted = {name: bytes(size) for name, size in sizes.items() if name in data}
    lines = problems_of(write_task(tmp_path / "bad", extra=FILES | wanted, data=data))
    assert any(words in line for line in lines), lines
    assert all(line.startswith("task.yml:1:") for line in lines)


def test_a_link_is_not_followed(tmp_path):
    folder = write_task(tmp_path / "bad", data=["secret.npy"])
    (folder / "secret.npy").symlink_to("/etc/hostname")
    assert any("links are not followed" in line for line in problems_of(folder))


def test_a_binary_file_among_the_files_is_told_where_it_belongs(tmp_path):
    files = [
        {"name": "submission.py", "source": "@SUBMISSION@"},
        {"name": "reference.py", "source": "reference.py"},
        {"name": "weights.npy", "source": "weights.npy"},
    ]
    yml = task_yml(files=files, templates=DROP)
    (line,) = problems_of(write_task(tmp_path / "bad", yml, FILES))
    assert line.endswith("only UTF-8 text is allowed; other files belong into `data`")


@pytest.mark.parametrize("name", ["reference.py", "../x", "reference.py/x"])
def test_a_job_with_a_data_file_in_the_place_of_another_is_refused(tmp_path, name):
    spec = job(loaded(tmp_path / "t"))
    spec.data[name] = ""
    with pytest.raises(ProtocolError):
        check_spec(spec)
