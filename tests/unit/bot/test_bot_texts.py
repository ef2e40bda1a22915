"""Texts for Discord: whatever people wrote does nothing."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelcup.bot.messages import boards, texts

HOSTILE = [
    "@everyone",
    "@here",
    "<@123>",
    "<@&123>",
    "<#123>",
    "[click](https://evil.example)",
    "https://evil.example",
    "HTTP://evil.example",
    "www.evil.example",
    "discord.gg/abc",
    "discord.com/invite/abc",
    "**bold** __under__ ~~gone~~ ||spoiler||",
    "# heading",
    "> quote",
    "- list",
    "1. list",
    "```code```",
    "`code`",
    "<t:0:R>",
    ":smile:",
    "\u202eturned",
    "a\nb",
    "\\",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_in_a_sentence_is_markdown_a_mention_or_a_link(text: str) -> None:
    shown = texts.plain(text)
    bare = re.sub(r"\\.", "", shown)
    assert not re.search(r"[*_~|`<>\[\]#]", bare)
    assert "@everyone" not in shown
    assert "@here" not in shown
    assert "://" not in shown
    assert not re.search(r"(?i)www\.|discord\.(gg|com)", shown)
    assert "\n" not in shown
    assert "\u202e" not in shown


@pytest.mark.parametrize("text", HOSTILE)
def test_what_people_read_is_what_was_written(text: str) -> None:
    read = re.sub(r"\\(.)", r"\1", texts.plain(text)).replace(texts.NOTHING, "")
    assert read == texts.one_line(text)


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_ends_inline_code(text: str) -> None:
    shown = texts.code(text)
    assert shown.count("`") == 2
    assert "\n" not in shown


@given(st.text(max_size=1500), st.integers(min_value=200, max_value=500))
def test_code_is_split_without_losing_a_line_or_breaking_a_block(text: str, room: int) -> None:
    parts = texts.split_code(text, room=room, language="py")
    inside = []
    for part in parts:
        assert len(part) <= room
        assert part.count("```") == 2
        inside.append(part.removeprefix("```py\n").removesuffix("\n```"))
    assert "".join("".join(inside).split("\n")) == "".join(texts.fenced(text).split("\n"))


@given(st.lists(st.text(max_size=1500), max_size=6))
def test_messages_fit(blocks: list[str]) -> None:
    for message in texts.pack([texts.plain_lines(each) for each in blocks]):
        assert 0 < len(message.text) <= texts.LONGEST_MESSAGE


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (r"For $y_{i} = \sum_{k=-r}^{r} w_k\, x_{i+k}$.", "For yᵢ = ∑ₖ₌₋ᵣʳ wₖ xᵢ₊ₖ."),
        (r"$$\mathrm{softmax}(x)_i = \frac{e^{x_i}}{n}$$", "softmax(x)ᵢ = (e^{xᵢ})/(n)"),
        ("It costs $5 to $10.", "It costs $5 to $10."),
    ],
)
def test_formulas_are_readable_text(text: str, shown: str) -> None:
    assert texts.formulas(text) == shown
    assert boards.description_text(text) == texts.plain_lines(shown)


def test_a_long_log_is_a_file_and_its_end_is_shown() -> None:
    (message,) = texts.pack([texts.Log("stderr.txt", "x\n" * 5000 + "the end")])
    assert [each.name for each in message.files] == ["stderr.txt"]
    assert "the end" in message.text


def test_a_message_has_ten_files_at_most() -> None:
    files = [texts.Attached(f"{number}.txt", b"x") for number in range(23)]
    assert [len(each.files) for each in texts.pack(files)] == [10, 10, 3]


def test_a_file_that_is_too_large_is_named_only() -> None:
    (message,) = texts.pack([texts.Attached("big.bin", bytes(texts.LARGEST_FILE + 1))])
    assert not message.files
    assert "`big.bin` is too large" in message.text


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("../../etc/passwd", "etc_passwd"),
        ("a b.py", "a_b.py"),
        ("__init__.py", "__init__.py"),
        ("…", "file.txt"),
    ],
)
def test_names_of_files_are_harmless(name: str, safe: str) -> None:
    assert texts.file_name(name) == safe
