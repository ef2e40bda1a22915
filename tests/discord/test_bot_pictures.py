"""Rankings as pictures."""

from __future__ import annotations

import io

from PIL import Image

from kernelcup.bot.messages.ranking_image import MOST_ROWS, Row, draw_ranking


def rows(*users: str) -> list[Row]:
    """Return places, each a microsecond slower than the one before."""
    return [
        Row(rank=i, user=user, time=f"{i}.0 µs", score_s=i * 1e-6) for i, user in enumerate(users, start=1)
    ]


def opened(picture: bytes) -> Image.Image:
    """Return a PNG as pixels."""
    image = Image.open(io.BytesIO(picture))
    assert image.format == "PNG"
    return image.convert("RGB")


def test_a_picture_grows_with_the_ranking() -> None:
    small, large = (
        opened(draw_ranking("double", "H100", rows(*users))) for users in (["ada"], ["ada", "bob"])
    )
    assert small.width == large.width
    assert small.height < large.height


def test_what_does_not_fit_is_left_out() -> None:
    full = draw_ranking("double", "H100", rows(*map(str, range(MOST_ROWS))))
    longer = draw_ranking("double", "H100", rows(*map(str, range(MOST_ROWS + 40))))
    assert opened(full).size == opened(longer).size
    assert full != longer  # the footer tells that there are more


def test_nobody_is_ranked_yet() -> None:
    assert opened(draw_ranking("double", "H100", [])).height > 0


def test_the_fastest_has_the_shortest_bar_in_gold() -> None:
    image = opened(draw_ranking("double", "H100", rows("ada", "bob")))
    gold = [image.getpixel((x, y)) for x in (900,) for y in range(image.height)].count((232, 185, 35))
    assert gold > 0
    assert (232, 185, 35) not in [image.getpixel((1300, y)) for y in range(image.height)]


def test_names_of_any_letters_and_length_are_drawn() -> None:
    draw_ranking("double", "H100", rows("日本語", "x" * 500, "a\u202eb\x00\n", "🦆", ""))


def test_equal_scores_of_zero_are_drawn() -> None:
    nothing = [Row(rank=1, user="ada", time="0 s", score_s=0.0)]
    draw_ranking("double", "H100", nothing)
