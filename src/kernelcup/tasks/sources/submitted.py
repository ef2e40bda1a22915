"""The files of a submission: from one text, a folder or a zip, each refused with a code of its own."""

from __future__ import annotations

import codecs
import io
import os
import unicodedata
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from kernelcup.errors import EmptyFile, FileTooLarge, InvalidFiles, InvalidTask, NotText, WrongFileType
from kernelcup.tasks.sources.archive import TooMuch, unpack_bounded
from kernelcup.tasks.sources.trees import FolderTree, Unreadable, reject_odd_target
from kernelcup_harness.protocol import has_clash, is_encodable

LARGEST_BYTES = 1 << 20
"""Of all files of a submission together, and of its zip."""
SUFFIXES = (".py", ".cu", ".cuh", ".h", ".hpp", ".cpp")
ZIP_NAME = "files.zip"
"""The name of a zip that was not sent as one."""
LEFT_OUT = ("__pycache__", "__MACOSX")
EPOCH = (1980, 1, 1, 0, 0, 0)


def read_files(name: str, content: bytes) -> dict[str, str]:
    """Return the texts of a submission by their names; one file has its own name only.

    Args:
        name: The name under which it was sent; of a path the last part counts.
        content: A text or a zip.

    Raises:
        FileTooLarge: More than :data:`LARGEST_BYTES`, packed or unpacked.
        EmptyFile: It has no text.
        NotText: A file is not UTF-8, or has a NUL.
        InvalidFiles: The zip cannot be read, or a name in it is odd, double, or ambiguous on other systems.
        WrongFileType: The zip has a file that no submission needs.
    """
    name = base_name(name)
    _check_size(name, len(content))
    if is_zip(name, content):
        return _checked(name, _unzipped(name, content))
    if not content.strip():
        raise EmptyFile("The file is empty.")
    if name.lower().endswith(".ipynb"):
        raise _wrong_type(name)
    return {name: _text("The file", content)}


def read_folder(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder without hidden ones. Raise ``InvalidFiles`` or ``FileTooLarge``."""
    tree, found, size = FolderTree(folder, "", folder), dict[str, bytes](), 0
    for above, folders, names in os.walk(folder):
        folders[:] = sorted(each for each in folders if not _is_left_out(each))
        links = [each for each in folders if Path(above, each).is_symlink()]
        for name in sorted([*links, *(each for each in names if not _is_left_out(each))]):
            path = Path(above, name).relative_to(folder).as_posix()
            try:
                found[path] = tree.read(path)
            except Unreadable as error:
                raise InvalidFiles(f"`{path}` {error}.") from error
            size += len(found[path])
            _check_size(folder.name, size)
    return found


def pack(files: Mapping[str, bytes]) -> bytes:
    """Return files as a zip, the same for the same files. Raise ``InvalidFiles`` for names that no zip can hold."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            _check_name(name)
            archive.writestr(zipfile.ZipInfo(name, EPOCH), files[name], zipfile.ZIP_DEFLATED)
    return target.getvalue()


def pack_texts(files: Mapping[str, str]) -> bytes:
    """Return texts as a zip, like :func:`pack`; what is not UTF-8 is found when it is read."""
    return pack({name: text.encode("utf-8", "surrogatepass") for name, text in files.items()})


def is_zip(name: str, content: bytes) -> bool:
    """Return whether a submission is meant as a zip."""
    return name.lower().endswith(".zip") or content.startswith(b"PK\x03\x04")


def base_name(file_name: str) -> str:
    """Return the last part of a path of any operating system."""
    return file_name.replace("\\", "/").rsplit("/", 1)[-1][-255:]


def _unzipped(name: str, content: bytes) -> dict[str, bytes]:
    try:
        files = unpack_bounded(name, content, LARGEST_BYTES).files
    except TooMuch as error:
        raise FileTooLarge(f"{name} unpacks to more than {LARGEST_BYTES:,} bytes.") from error
    except InvalidTask as error:
        raise InvalidFiles([f"{each.file}: {each.text}" for each in error.problems]) from error
    kept = {path: files[path] for path in files if not any(map(_is_left_out, path.split("/")))}
    tops = {path.partition("/")[0] for path in kept}
    # Most programs pack a folder with its own name.
    is_wrapped = len(tops) == 1 and all("/" in path for path in kept)
    return {path.partition("/")[2]: kept[path] for path in kept} if is_wrapped else kept


def _checked(name: str, files: Mapping[str, bytes]) -> dict[str, str]:
    _check_size(name, sum(map(len, files.values())))
    for path in files:
        _check_name(path)
        if PurePosixPath(path).suffix not in SUFFIXES:
            raise _wrong_type(path)
    if double := _ambiguous(files):
        raise InvalidFiles(f"`{double}`: another name differs from it in upper and lower case only.")
    if has_clash(list(files)):
        raise InvalidFiles(f"{name}: one name is both a file and a folder.")
    texts = {path: _text(f"`{path}`", content) for path, content in files.items()}
    if not any(map(str.strip, texts.values())):
        raise EmptyFile(f"{name} has no file with text in it.")
    return texts


def _wrong_type(path: str) -> WrongFileType:
    return WrongFileType(f"`{path}`: a submission has files that end in {', '.join(SUFFIXES)} only.")


def _check_name(path: str) -> None:
    try:
        reject_odd_target(path)
    except Unreadable as error:
        raise InvalidFiles(f"{path!a}: the name {error}.") from error
    if not is_encodable(path):
        raise InvalidFiles(f"{path!a}: the name cannot be written as UTF-8.")


def _ambiguous(names: Iterable[str]) -> str:
    """Return a name that equals another one on a file system that ignores case, else an empty text."""
    seen: set[str] = set()
    for name in names:
        key = unicodedata.normalize("NFC", name).casefold()
        if key in seen:
            return name
        seen.add(key)
    return ""


def _is_left_out(part: str) -> bool:
    return part.startswith(".") or part in LEFT_OUT


def _text(name: str, content: bytes) -> str:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        why = "it is UTF-16" if is_utf16 else f"byte {error.start} cannot be decoded"
        raise NotText(f"{name} is not UTF-8 text: {why}.") from error
    if "\0" in text:
        raise NotText(f"{name} is not text: it contains a NUL byte.")
    return text


def _check_size(name: str, size: int) -> None:
    if size > LARGEST_BYTES:
        raise FileTooLarge(f"{name} has at least {size:,} bytes; a submission may have {LARGEST_BYTES:,}.")
