#!POPCORN leaderboard identity
"""A correct first submission. Change what is inside ``custom_kernel``."""

from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    return data.clone()
