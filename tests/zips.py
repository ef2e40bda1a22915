"""Zips of submissions: good ones, and those that every door must refuse."""

from __future__ import annotations

import io
import stat
import warnings
import zipfile

from kernelcup import errors

MAIN = "import helper\n\n\ndef custom_kernel(data):\n    return helper.double(data)\n"
HELPER = "def double(data):\n    return data * 2\n"
TWO = {"submission.py": MAIN, "helper.py": HELPER}


def zipped(files: dict[str, str | bytes], *, mode: int = 0, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a zip of files as they are named."""
    return zipped_pairs(list(files.items()), mode=mode, method=method)


def zipped_pairs(
    files: list[tuple[str, str | bytes]], *, mode: int = 0, method: int = zipfile.ZIP_DEFLATED
) -> bytes:
    """Return a zip whose names may be double, with a mode of Unix for each file."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, text in files:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, text, method)
    return target.getvalue()


def with_name(name: bytes) -> bytes:
    """Return a zip with a name that no library writes."""
    return zipped({"x" * len(name): "", "submission.py": MAIN}).replace(b"x" * len(name), name)


BAD: dict[str, tuple[bytes, type[errors.UserError]]] = {
    "not a zip": (b"PK\x03\x04 nothing more", errors.InvalidFiles),
    "cut off": (zipped(TWO)[:-30], errors.InvalidFiles),
    "a bomb": (zipped({"submission.py": b"#" * (8 << 20)}), errors.FileTooLarge),
    "many bombs": (zipped({f"f{i}.py": b"#" * (300 << 10) for i in range(4)}), errors.FileTooLarge),
    "many entries": (zipped({f"f{i}.py": "" for i in range(1001)}), errors.InvalidFiles),
    "out of the folder": (zipped({**TWO, "../evil.py": ""}), errors.InvalidFiles),
    "absolute": (zipped({**TWO, "/etc/evil.py": ""}), errors.InvalidFiles),
    "of another system": (with_name(b"C:\\evil.py"), errors.InvalidFiles),
    "NUL in a name": (with_name(b"a\0.py"), errors.InvalidFiles),
    "a link": (zipped({**TWO, "link.py": "/etc/passwd"}, mode=stat.S_IFLNK | 0o777), errors.InvalidFiles),
    "twice": (zipped_pairs([("submission.py", MAIN), ("submission.py", HELPER)]), errors.InvalidFiles),
    "upper and lower case": (zipped({**TWO, "Helper.py": HELPER}), errors.InvalidFiles),
    "file and folder": (zipped({**TWO, "helper.py/a.py": ""}), errors.InvalidFiles),
    "another kind": (zipped({**TWO, "weights.bin": "x"}), errors.WrongFileType),
    "not UTF-8": (zipped({**TWO, "a.h": b"\xff\xfe"}), errors.NotText),
    "NUL in a text": (zipped({**TWO, "a.h": b"x\0"}), errors.NotText),
    "no file": (zipped({}), errors.EmptyFile),
    "only hidden files": (zipped({".git/config.py": "x", "__MACOSX/a.py": "x"}), errors.EmptyFile),
    "only empty files": (zipped({"submission.py": " \n"}), errors.EmptyFile),
    "no entry": (zipped({"a.py": "x = 1\n", "b.py": "x = 1\n"}), errors.EntryNeeded),
    "an entry that is not there": (
        zipped({**TWO, "a.py": "#!POPCORN entry b.py\n"}),
        errors.InvalidDirective,
    ),
    "two entries": (
        zipped({"a.py": "#!POPCORN entry a.py\n", "b.cu": "//!POPCORN entry b.cu\n"}),
        errors.InvalidDirective,
    ),
}
"""What is wrong, to the zip and its refusal."""
