"""How the GPUs of a host reach each other, as ``nvidia-smi topo -m`` says. Without torch."""

from __future__ import annotations

import itertools
import re
import subprocess
from collections.abc import Mapping
from contextlib import suppress

COMMAND = ("nvidia-smi", "topo", "-m")
PATIENCE_S = 10.0
FORMATTING = re.compile(r"\x1b\[[0-9;]*m")
NVLINK, PCIE = re.compile(r"NV\d+"), "PCIe"

Links = Mapping[tuple[int, int], str]
"""What lies between two GPUs, the smaller number first: ``NV18`` for 18 links of NVLink, or ``PCIe``."""


class Topology:
    """Asks ``nvidia-smi``, which the constructor starts."""

    def __init__(self) -> None:
        self._asked: subprocess.Popen[bytes] | None = None
        with suppress(OSError):
            self._asked = subprocess.Popen(
                COMMAND, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )

    def links(self) -> Links:
        """Return what lies between each two GPUs; empty where that cannot be said."""
        if self._asked is None:
            return {}
        with self._asked as asked:
            try:
                text, _ = asked.communicate(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                asked.kill()
                return {}
        return links_in(text.decode(errors="replace")) if asked.returncode == 0 else {}


def links_in(text: str) -> Links:
    """Return the links that a matrix of ``nvidia-smi topo -m`` names; empty for any other text."""
    lines = (FORMATTING.sub("", line).split() for line in text.splitlines())
    rows = {int(words[0][3:]): words[1:] for words in lines if words and re.fullmatch(r"GPU\d+", words[0])}
    # The line of the columns begins with the name of a GPU too.
    rows = {number: row for number, row in rows.items() if "X" in row}
    pairs = itertools.combinations(sorted(rows), 2)
    order = sorted(rows)
    found = {(a, b): rows[a][order.index(b)] for a, b in pairs if len(rows[a]) > order.index(b)}
    return {pair: kind if NVLINK.fullmatch(kind) else PCIE for pair, kind in found.items()}


def summary(links: Links) -> str:
    """Return the kinds of links, those between most GPUs first: ``NV18``, or ``NV12, PCIe``; empty without any."""
    kinds = list(links.values())
    return ", ".join(sorted(set(kinds), key=lambda kind: (-kinds.count(kind), kind)))


def described(links: Links) -> str:
    """Return how many GPUs reach each other, and by what; empty where there are not several."""
    count = len({gpu for pair in links for gpu in pair})
    return f"{count} GPUs reach each other: {summary(links)}" if links else ""
