"""What to profile, as the API takes it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from kernelcup_harness.protocol import ProfileOptions, Sections


class ProfileIn(BaseModel):
    """What to profile, in mode ``profile``."""

    model_config = ConfigDict(extra="forbid")

    benchmark: int | None = Field(default=None, ge=0, description="Index; default: the last one.")
    kernel: str = Field(default="", max_length=200, description="A regular expression of kernel names.")
    launches: int = Field(default=0, ge=0, le=100_000, description="Most launches; 0 for all of the call.")
    sections: Sections = Sections.FULL

    def options(self) -> ProfileOptions:
        """Return it as the harness takes it."""
        return ProfileOptions(**self.model_dump())
