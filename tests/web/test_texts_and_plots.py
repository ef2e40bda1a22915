"""Texts of others become harmless HTML, points become small pictures."""

from __future__ import annotations

import gzip
import re
from datetime import timedelta
from xml.etree import ElementTree

import pytest

from builders import NOW
from kernelcup.http.pages.boards.plots import Point, Strip, best_over_time, strips
from kernelcup.http.pages.figures import TimeScale, behind_text, bytes_text, speedup_text
from kernelcup.http.pages.texts import LARGEST_COLOURED, MATHML_ATTRIBUTES, code, coloured, markdown
from kernelcup.http.pages.wording import value_text


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[a](javascript:alert(1))",
        "[a](data:text/html;base64,PHN2Zz4=)",
        "![a](https://elsewhere.example/a.png)",
        "```python\n</code></pre><script>alert(1)</script>\n```",
        '```"><script>alert(1)</script>\nx\n```',
        "    </code></pre><script>alert(1)</script>",
        "<https://ok.example/'onmouseover='alert(1)>",
    ],
)
def test_statement_brings_no_script_and_no_picture(text) -> None:
    html = str(markdown(text))
    root = ElementTree.fromstring(f"<div>{html}</div>")
    for each in root.iter():
        assert each.tag not in ("script", "img", "style", "iframe")
        assert not [name for name in each.attrib if name.startswith("on")]
        assert not each.get("href", "").startswith(("javascript:", "data:"))


def test_formulas_become_mathml_without_a_script() -> None:
    html = str(markdown("With $y_{i} = w_k\\, x_{i}$ and\n\n$$\\frac{1}{n}$$\n"))
    root = ElementTree.fromstring(f"<div>{html}</div>")
    inline, block = root.iter("{http://www.w3.org/1998/Math/MathML}math")
    assert (inline.get("display"), block.get("display")) == ("inline", "block")
    assert "".join(inline.itertext()) == "yi=wkxi"
    assert block.find(".//{*}mfrac") is not None


@pytest.mark.parametrize(
    "latex",
    [
        r"\href{javascript:alert(1)}{x}",
        r"\style{color:red}{x}",
        r"\class{banner}{x}",
        r"\text{<script>alert(1)</script>}",
        r"\text{<img src=x onerror=alert(1)>}",
        r"\mathrm{</math><script>alert(1)</script>}",
        r"\color{red}{x}",
        r"x_{&lt;script&gt;}",
    ],
)
def test_a_formula_smuggles_neither_elements_nor_attributes(latex: str) -> None:
    root = ElementTree.fromstring(f"<div>{markdown(f'${latex}$')}</div>")
    math = next(root.iter("{http://www.w3.org/1998/Math/MathML}math"))
    assert all(each.tag.startswith("{http://www.w3.org/1998/Math/MathML}m") for each in math.iter())
    assert {name for each in math.iter() for name in each.attrib} <= MATHML_ATTRIBUTES


@pytest.mark.parametrize("latex", [r"\frac{", "{" * 1500, "x" * 3000])
def test_a_formula_that_cannot_be_read_stays_as_it_is_written(latex: str) -> None:
    assert f"<code>{latex}</code>" in markdown(f"${latex}$")


def test_prices_are_no_formulas() -> None:
    assert "<math" not in markdown("It costs $5 to $10.\n\n`$x$` is code.")


def test_only_figures_of_the_task_are_shown() -> None:
    html = markdown("![of *it*](a.png) ![b](b.png) ![c](https://x.example/c.png)", "/b/x/figures", ["a.png"])
    assert html == '<p><img src="/b/x/figures/a.png" alt="of it" /> b c</p>\n'


def test_headings_of_a_statement_stand_below_the_pages_own() -> None:
    assert "<h2>Task</h2>" in markdown("# Task")
    assert "<h1" not in markdown("# Task\n\nTitle\n=====")


def test_code_keeps_every_character_in_whatever_language() -> None:
    for name in ("a.py", "a.cu", "Triton", "Python", "x.unknown", ""):
        text = "\n\n__global__ void f(int a[2]) {} // <b>&\n\n"
        shown = ElementTree.fromstring(str(code(text, name)))
        assert "".join(shown.itertext()) == text, name


def test_long_code_has_one_colour() -> None:
    assert "<span" not in coloured("x = 1\n" * LARGEST_COLOURED, "a.py")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"size": 16, "seed": 1}, "size 16, seed 1"),
        (
            {"settings": {"deadline": [None, "2026-12-01"]}, "force": False},
            "settings deadline (none, 2026-12-01), force no",
        ),
        (["H100"], "H100"),
        ([], "none"),
    ],
)
def test_data_are_words_for_people(value, text) -> None:
    assert value_text(value) == text


def test_times_of_a_column_have_one_unit_and_as_many_decimals() -> None:
    scale = TimeScale.of([27.0249e-6, 108.5e-6, None])
    assert (scale.text(27.0249e-6), scale.text(108.5e-6), scale.unit) == ("27.02", "108.50", "µs")
    assert scale.within(27.02e-6, 26.97e-6, 27.07e-6) == "± 0.05"
    assert scale.within(27.0245e-6, 27.024e-6, 27.025e-6) == "± <0.01"
    assert scale.within(27.02e-6, None, 1.0) == ""
    assert scale.within(27.02e-6, 20e-6, 68e-6) == "20.00 to 68.00"
    assert TimeScale.of([]).text(None) == "–"
    assert TimeScale.of([2.5e-9]).unit == "ns"


def test_behind_and_speedup_stay_short() -> None:
    assert (behind_text(1.0, 1.0), behind_text(1.025, 1.0), behind_text(470.0, 1.0)) == ("", "+2.5 %", "470×")
    assert (speedup_text(4.016), speedup_text(1234.0), speedup_text(None)) == ("4.02×", "1234×", "")
    assert (bytes_text(12), bytes_text(6200), bytes_text(2_500_000)) == ("12 bytes", "6.2 kB", "2.5 MB")


def points(count):
    """Return as many personal bests, of which every tenth is the best so far."""
    return [
        Point(
            at=NOW + timedelta(hours=number),
            seconds=1e-3 / (1 + number) if number % 10 == 0 else 2e-3,
            name=f"user<{number}>",
        )
        for number in range(count)
    ]


def test_plot_shows_every_improvement_and_names_it() -> None:
    root = ElementTree.fromstring(str(best_over_time(points(100))))
    titles = [each.text for each in root.iter() if each.tag == "title"]
    assert len(titles) == 10
    assert titles[0] == "1 ms, user<0>, 1 Jun 2026, 12:00 UTC"
    assert root.get("aria-label", "").endswith("10 improvements")


def test_plot_of_what_was_slower_than_before_has_no_improvement() -> None:
    plot = best_over_time(points(5), before_s=1e-6)
    assert "0 improvements" in plot
    assert 'class="step"' in plot


def test_plot_of_a_thousand_points_is_small_and_inside_its_frame() -> None:
    plot = str(best_over_time(points(1000), width=640, height=260))
    assert len(gzip.compress(plot.encode())) < 20_000
    for x, y in re.findall(r'cx="([-\d.]+)" cy="([-\d.]+)"', plot):
        assert 0 <= float(x) <= 640
        assert 0 <= float(y) <= 260


def test_plot_of_one_point_and_of_none_is_drawn() -> None:
    assert ElementTree.fromstring(str(best_over_time(points(1)))).get("role") == "img"
    assert best_over_time([]) == ""
    assert strips([Strip(name="ada", seconds=[])]) == ""


def test_strips_have_a_row_for_each_user_and_mark_the_best() -> None:
    rows = [Strip(name="ada", seconds=[2e-6, 1e-6]), Strip(name="a" * 30, seconds=[3e-6], own=True)]
    root = ElementTree.fromstring(str(strips(rows)))
    kinds = [each.get("class") for each in root.iter() if each.tag == "circle"]
    assert kinds == ["ghost", "mark", "mark own"]
    assert any((each.text or "").endswith("…") for each in root.iter() if each.tag == "text")


def test_a_very_long_text_is_shown_as_it_is() -> None:
    assert markdown("*a* <b" * 20_000).startswith("<pre>*a* &lt;b")
    assert "<em>a</em>" in markdown("*a* " + "b" * 99_000)
