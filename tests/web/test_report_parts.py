"""Parts of reports: maps of wrong elements, samples, progress, differences of texts."""

from __future__ import annotations

import dataclasses
import math
import re

import pytest
import reports

from kernelcup.http.pages.submissions import difference, report_plots, report_words
from kernelcup.reporting.insights import lessons
from kernelcup.reporting.phrases import MINUS
from kernelcup_harness.protocol import Difference, Mismatch, StageName, Timing


def mismatch(**overrides):
    values = {"where": "output", "wrong": 2, "total": 6, "largest_error": None, "first": [], "rule": "any"}
    return Mismatch(**(values | overrides))


def test_map_is_darker_where_more_elements_are_wrong() -> None:
    drawn = report_plots.error_map(mismatch(shape=[2, 3], tiles=[[0, 1, 0], [0, 50, 1000]], total=9000))
    assert drawn.count('class="right"') == 3
    assert [drawn.count(f'class="bad{shade}"') for shade in (1, 2, 3, 4)] == [1, 0, 1, 1]
    assert "3 of 6 parts of the tensor have wrong elements" in drawn


@pytest.mark.parametrize("tiles", [[], [[0, 0]], [[]]])
def test_no_map_is_drawn_of_nothing(tiles) -> None:
    assert report_plots.error_map(mismatch(tiles=tiles)) == ""


def test_map_of_one_dimension_is_read_row_by_row() -> None:
    tiles = [[0] * 48 for _ in range(24)]
    row = mismatch(shape=[1_000_000], total=1_000_000, tiles=tiles)
    assert "1,000,000 elements in 1,152 parts, row by row" in report_plots.map_caption(row)
    cube = mismatch(shape=[4, 24, 48], total=4608, tiles=tiles)
    assert "4 × 24 × 48, in 24 × 48 parts; the last" in report_plots.map_caption(cube)


def element(*position: int) -> Difference:
    return Difference(position=list(position), expected="1.5", actual="0")


def drawn(found: report_words.CloseUp | None) -> list[str]:
    """Return a close-up as text: x is wrong, . is right, ? is not known."""
    assert found is not None
    letters = {"wrong": "x", "right": ".", "unknown": "?"}
    return [f"{row.index}|" + "".join(letters[cell.kind.value] for cell in row.cells) for row in found.rows]


def test_close_up_shows_the_first_wrong_elements_among_their_neighbours() -> None:
    case = next(each for stage in reports.wrong().stages for each in stage.cases if each.mismatch is not None)
    found = report_words.close_up(case.mismatch)
    assert drawn(found) == ["995|........", "996|........", "997|........", "998|........", "999|..xxxxx?"]
    assert found is not None
    assert found.columns == tuple(range(982, 990))
    assert found.has_unknown


def test_close_up_of_few_wrong_elements_knows_that_all_others_are_right() -> None:
    few = mismatch(
        shape=[3, 50, 100],
        total=15_000,
        wrong=2,
        tiles=[[0, 2]],
        first=[element(1, 49, 0), element(2, 0, 1)],
    )
    found = report_words.close_up(few)
    assert drawn(found) == [
        "1, 48|........",
        "1, 49|x.......",
        "2, 0|.x......",
        "2, 1|........",
        "2, 2|........",
    ]
    assert found is not None
    assert not found.has_unknown


def test_close_up_of_one_dimension_is_a_row_within_its_ends() -> None:
    last = mismatch(shape=[5000], total=5000, wrong=1, tiles=[[0, 1]], first=[element(4999)])
    assert drawn(report_words.close_up(last)) == ["|.......x"]


@pytest.mark.parametrize(
    "other",
    [
        {"first": []},
        {"tiles": []},
        {"tiles": [[1] * 100] * 150},
        {"shape": []},
        {"shape": [150]},
        {"first": [element(1, 100)]},
        {"first": [element(-1, 0)]},
    ],
)
def test_no_close_up_where_the_map_shows_elements_or_a_report_makes_no_sense(other) -> None:
    values = {"shape": [150, 100], "total": 15_000, "tiles": [[0, 2]], "first": [element(1, 1)]}
    assert report_words.close_up(mismatch(**values)) is not None
    assert report_words.close_up(mismatch(**(values | other))) is None


def test_samples_far_from_the_mean_stay_at_the_end_of_the_scale() -> None:
    timing = Timing(samples_ns=[1000.0] * 30 + [9000.0])
    drawn = report_plots.samples(timing, 0.01)
    assert drawn.count('class="ghost far"') == 1
    places = [float(each) for each in re.findall(r'cx="([\d.]+)"', drawn)]
    assert 0 <= min(places) <= max(places) <= 150


@pytest.mark.parametrize("samples", [[], [0.0], [math.nan], [math.inf]])
def test_samples_that_are_no_times_are_not_drawn(samples) -> None:
    timing = Timing(samples_ns=samples)
    assert report_plots.samples(timing, report_plots.reach_of([timing])) == ""


def test_cells_of_very_many_cases_are_few() -> None:
    assert report_plots.cells(500, 1000).count("<rect") == report_plots.LIVE_CELLS
    assert report_plots.cells(500, 1000).count('class="mark"') == report_plots.LIVE_CELLS // 2
    assert report_plots.cells(0, 0) == ""


def test_difference_of_long_files_is_not_made() -> None:
    assert difference.lines("a\n" * 3001, "b", "k.py") is None


def test_difference_of_equal_files_is_empty() -> None:
    assert difference.lines(reports.CODE, reports.CODE, "k.py") == []


def test_difference_escapes_and_numbers_its_lines() -> None:
    found = difference.lines("a = 1\nb = '<b>'\n", "a = 1\nb = '<i>'\nc = 2\n", "k.py")
    assert found is not None
    assert [(each.kind, each.old, each.new) for each in found] == [
        ("gap", None, None),
        ("same", 1, 1),
        ("out", 2, None),
        ("in", None, 2),
        ("in", None, 3),
    ]
    assert "&lt;i&gt;" in found[3].text
    assert "<i>" not in found[3].text


def test_change_within_the_intervals_is_not_sure() -> None:
    first, near, far = (
        lessons(reports.ranked(factor=each), StageName.RANKED)[1] for each in (1, 1.0005, 0.9)
    )
    assert not difference.is_sure(first, near)
    assert difference.is_sure(first, far)
    assert difference.change_text(first, far) == f"{MINUS}10.0 %"
    assert difference.change_text(first, None) == ""


def test_case_is_headed_by_its_parameters_where_all_have_the_same_few() -> None:
    cases = reports.tests(2)
    keys = report_words.shared_keys(cases)
    assert keys == ("height", "width")
    assert report_words.case_text(cases[1], keys) == "17 × 33"
    other = dataclasses.replace(cases[1], parameters={"n": 1})
    assert report_words.shared_keys([*cases, other]) == ()
    assert report_words.case_text(other) == "n 1"
