"""The kept binaries that a job was given: which of them can be replayed, and what becomes of each."""

from __future__ import annotations

import dataclasses

from kernelcup_harness.core.plan import captures, meets_hidden
from kernelcup_harness.protocol import BinaryUse, Finding, JobSpec, KeptBinary
from kernelcup_harness.wire.job_messages import BinaryRefused

WRONG = "it answers a new input wrongly"
SUBMISSION, RIVAL = SIDES = ("submission", "rival")


class Binaries:
    """The binaries of one job, until the job is judged with those that can be replayed.

    Args:
        spec: The job as it came.
        device: This machine's device and driver, empty if they are not known.
    """

    def __init__(self, spec: JobSpec, device: str) -> None:
        self.spec = spec
        """The job without the binaries whose code has to be judged."""
        self.uses: list[BinaryUse] = []
        """Those that are not replayed."""
        self.finding: Finding | None = None
        """Set if the submission's own binary answered new inputs wrongly."""
        for side in SIDES:
            binary = self._of(side)
            if binary is not None and (why := trouble(spec, binary, device)):
                self._drop(side, binary, why)

    def refuse(self, refused: BinaryRefused) -> None:
        """Have the code of a side judged, since its binary cannot be replayed."""
        binary = self._of(refused.side)
        assert binary is not None
        if refused.wrong and refused.side == SUBMISSION:
            text = f"the binary of run {binary.run} cannot be trusted: {refused.why}"
            self.finding = Finding(code="binary_wrong", text=text)
        # What the rival has answered is not for the other side.
        self._drop(refused.side, binary, WRONG if refused.wrong else refused.why)

    def used(self, *, dueled: bool) -> list[BinaryUse]:
        """Return what became of each, at the end of the job."""
        left = [(side, binary) for side in SIDES if (binary := self._of(side)) is not None]
        none = "" if dueled else "no duel was held"
        return self.uses + [
            BinaryUse(side=side, run=binary.run, why=none if side == RIVAL else "") for side, binary in left
        ]

    def _of(self, side: str) -> KeptBinary | None:
        return self.spec.binary if side == SUBMISSION else self.spec.rival_binary

    def _drop(self, side: str, binary: KeptBinary, why: str) -> None:
        self.uses.append(BinaryUse(side=side, run=binary.run, why=why))
        if side == SUBMISSION:
            self.spec = dataclasses.replace(self.spec, binary=None)
        else:
            self.spec = dataclasses.replace(self.spec, rival_binary=None)


def trouble(spec: JobSpec, binary: KeptBinary, device: str) -> str:
    """Return why a binary cannot be replayed in a job, empty if it may be."""
    if binary.why:
        return binary.why
    if not captures(spec):
        return "calls are replayed on a GPU only"
    if not device or binary.device != device:  # two that are not known need not be alike
        return f"that run was on {binary.device or 'an unknown device'}, and this is {device or 'not known'}"
    return "calls of hidden cases are not kept" if meets_hidden(spec) else ""
