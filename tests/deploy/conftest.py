"""The images of ``deploy/``, for all tests."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping

import pytest
from images import make_images
from roots import Image


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Image]]:
    """All images by the names that compose files use: Dockerfiles, and images of others."""
    if os.geteuid() != 0:
        pytest.skip("roots need root's rights")
    if missing := [each for each in ("mmdebstrap", "bwrap", "ip", "nsenter") if shutil.which(each) is None]:
        pytest.skip(f"without {', '.join(missing)}")
    folder = tmp_path_factory.mktemp("roots")
    yield make_images(folder)
    subprocess.run(["rm", "-rf", folder], check=True)
