"""What people handed in, for the managers of a leaderboard."""

from __future__ import annotations

import io
import zipfile

import pytest

from builders import NOW, SUBMISSION, make_actor, make_board, make_task
from hand_judging import Judging
from kernelcup.app.courses import class_list
from kernelcup.app.results import handed_in
from kernelcup.domain import OPERATOR, Role, Visibility
from kernelcup.errors import Forbidden
from kernelcup_harness.protocol import SourceTree

LOOP = """\
import torch


def custom_kernel(data):
    total = torch.zeros_like(data)
    for step in range(4):  # in four steps
        total = total + data[step] * 2.5
    return total
"""
RENAMED = """\
import torch
def custom_kernel(x):
    '''My own idea.'''
    acc = torch.zeros_like(x)
    for i in range(4):
        acc = acc + x[i] * 2.5
    return acc
"""
CHANGED = RENAMED.replace("    return acc", "    print(acc)\n    return acc")
OTHER = """\
from math import prod


class Holder:
    sizes = {"a": 1, "b": [2, 3]}


def custom_kernel(data):
    if prod(Holder.sizes["b"]) > 7 and not data.is_cuda:
        raise RuntimeError("no")
    return data.clone().mul_(2)
"""


@pytest.fixture
def judging(db, clock) -> Judging:
    make_board(db, task=make_task(templates={"Python": SUBMISSION}))
    return Judging(db, clock)


def hand_in(judging: Judging, **texts: str) -> None:
    for user, text in texts.items():
        judging.judge(1000, user, content=text.encode())


def test_equal_files_come_first_and_renamed_ones_are_as_much_alike(judging) -> None:
    hand_in(judging, ada=LOOP, bob=LOOP, eve=RENAMED, dan=CHANGED, flo=OTHER, gus=SUBMISSION, hal=SUBMISSION)
    found = handed_in.likeness(judging.db, OPERATOR, "double")
    told = {(each.first.user, each.second.user): (each.percent, each.is_same_text) for each in found.pairs}
    assert told["ada", "bob"] == (100, True)
    assert told["ada", "eve"] == told["bob", "eve"] == (100, False)
    assert 80 <= told["dan", "eve"][0] < 100
    assert not {"flo", "gus", "hal"} & {
        name for pair in told for name in pair
    }  # the last two sent the template
    assert [each.percent for each in found.pairs] == sorted(
        (each.percent for each in found.pairs), reverse=True
    )
    exact = handed_in.likeness(judging.db, OPERATOR, "double", least=100)
    assert ("dan", "eve") not in {(each.first.user, each.second.user) for each in exact.pairs}


def test_one_persons_own_files_are_no_pair(judging) -> None:
    hand_in(judging, ada=LOOP)
    hand_in(judging, ada=RENAMED)
    assert handed_in.likeness(judging.db, OPERATOR, "double").pairs == ()


def test_cuda_inside_of_python_is_compared_as_code() -> None:
    one, other = (
        SourceTree.of(f'SOURCE = """\n__global__ void {name}(float* x) {{ {note}x[0] = 2; }}\n"""\n', "a.py")
        for name, note in (("gray", ""), ("mine", "/* all mine */ "))
    )
    assert handed_in.tokens(one) == handed_in.tokens(other)


def test_the_zip_has_bests_and_lasts_by_label(db, clock) -> None:
    make_board(db, visibility=Visibility.CLOSED)
    judging = Judging(db, clock)
    make_actor(db, "ada")
    class_list.import_members(db, OPERATOR, "double", "user,label\nada,s/123\n", now=NOW)
    hand_in(judging, ada=LOOP, bob=OTHER)
    hand_in(judging, ada=RENAMED)
    archive = handed_in.code_zip(db, OPERATOR, "double")
    with zipfile.ZipFile(io.BytesIO(b"".join(archive.parts))) as found:
        names = sorted(found.namelist())
        assert found.read("s_123/best-H100-1/kernel.py").decode() == LOOP
    assert names == [
        "bob/best-H100-2/kernel.py",
        "bob/last-2/kernel.py",
        "s_123/best-H100-1/kernel.py",
        "s_123/last-3/kernel.py",
    ]


def test_only_managers_see_what_people_handed_in(judging) -> None:
    ada = make_actor(judging.db, "ada", role=Role.PARTICIPANT)
    for call in (handed_in.likeness, handed_in.code_zip):
        with pytest.raises(Forbidden):
            call(judging.db, ada, "double")
