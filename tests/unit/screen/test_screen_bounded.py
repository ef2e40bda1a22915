"""The screen in a process of its own."""

from __future__ import annotations

from kernelcup.screen.bounded import BoundedScreen
from kernelcup.screen.run import screen
from kernelcup.services.submissions.screening import is_native

CHEAT = "import sys\nsys._getframe(1)\n# \u2014 \U0001f600\nexec('x')\n"


def test_a_process_of_its_own_finds_the_same() -> None:
    look = BoundedScreen(is_native)
    assert look("kernel.py", CHEAT) == screen(CHEAT)
    native = "int f() { return fork(); }"
    assert look("kernel.cu", native) == screen(native, is_native=True)


def test_a_look_that_takes_too_long_is_ended_and_says_so() -> None:
    found = BoundedScreen(is_native, limit_s=0.001)("kernel.py", CHEAT)
    assert found.tags == ("no_answer",)
    assert found.findings[0].explanation == "The screen had not ended after 0.001 s."


def test_a_look_that_takes_too_much_memory_is_ended_and_says_so() -> None:
    found = BoundedScreen(is_native, memory_bytes=1 << 20)("kernel.py", "x = 1\n" * 150_000)
    assert found.tags == ("no_answer",)


class Opinion:
    """A second opinion."""

    name = "other 1"

    def findings(self, text: str) -> list:
        """Find nothing."""
        return []


def test_a_second_opinion_is_asked_as_well() -> None:
    look = BoundedScreen(is_native, second_opinion=Opinion())
    assert look("kernel.py", "x = 1").rules_version.endswith(", other 1")
