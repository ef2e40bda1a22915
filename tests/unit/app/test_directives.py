from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelcup.app.submissions.directives import Directives, parse_directives
from kernelcup.errors import InvalidDirective


@pytest.mark.parametrize(
    "code",
    [
        "#!POPCORN leaderboard double\n#!POPCORN gpus H100 A100\nimport torch\n",
        "//!POPCORN leaderboard double\n//!POPCORN gpu H100 A100\n#include <cuda.h>\n",
        "#!popcorn LEADERBOARD double\r\n#!Popcorn Gpu H100, A100\r\n\r\nimport torch\r\n",
        "#!/usr/bin/env python\n# mine\n#!POPCORN leaderboard double\n#\n#!POPCORN gpus H100 A100\n",
        "\ufeff#!POPCORN leaderboard double\n#!POPCORN\tgpus  H100   A100",
        "#!POPCORN leaderboard double\n#!POPCORN leaderboard Double\n#!POPCORN gpu H100 A100\n",
    ],
)
def test_directives_are_read_from_the_first_comments(code: str) -> None:
    assert parse_directives(code) == Directives(leaderboard="double", devices=("H100", "A100"))


@pytest.mark.parametrize(
    "code",
    [
        "import torch\n#!POPCORN leaderboard double\n",
        "# mine\n\n#!POPCORN leaderboard double\n",
        "\n#!POPCORN leaderboard double\n",
        "#!POPCORNS leaderboard double\n",
        "# POPCORN leaderboard double\n",
        "#!/usr/bin/env python\n",
        "",
    ],
)
def test_what_is_no_directive_at_the_top_is_passed_over(code: str) -> None:
    assert parse_directives(code) == Directives()


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("#!POPCORN", "Line 1: expected `leaderboard NAME`"),
        ("# mine\n#!POPCORN leaderboard\n", "Line 2: leaderboard needs a name"),
        ("#!POPCORN gpus\n", "Line 1: gpus needs a name"),
        ("#!POPCORN gpus ,\n", "Line 1: gpus needs a name"),
        ("#!POPCORN speed fast\n", "Line 1: unknown directive 'speed'"),
        ("#!POPCORN leaderboard a b\n", "Line 1: a submission goes to one leaderboard, not 2"),
        ("#!POPCORN leaderboard a\n#!POPCORN leaderboard b\n", "Line 2: leaderboard is given twice"),
        ("#!POPCORN gpu A100\n#\n#!POPCORN gpus H100\n", "Line 3: gpu is given twice"),
    ],
)
def test_a_directive_that_makes_no_sense_is_refused_with_its_line(code: str, text: str) -> None:
    with pytest.raises(InvalidDirective) as caught:
        parse_directives(code)
    assert text in str(caught.value)


@given(st.text(alphabet="#/!POPCORNgpu leaderboard\n\r\t,x"))
def test_no_text_breaks_the_reader(code: str) -> None:
    with suppress(InvalidDirective):
        parse_directives(code)
