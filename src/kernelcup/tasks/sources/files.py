"""Read the files that a ``task.yml`` names: ``files`` and ``templates``."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources

from kernelcup.tasks.manifest.problems import Findings
from kernelcup.tasks.manifest.schema import FileShape
from kernelcup.tasks.manifest.size_limits import MAX_DATA_BYTES, MAX_TASK_BYTES, MIB
from kernelcup.tasks.manifest.validation import validate
from kernelcup.tasks.manifest.yaml_text import Path, undecodable
from kernelcup.tasks.sources.trees import Absent, Tree, Unreadable, locate, reject_odd_target

SUBMISSION = "@SUBMISSION@"
TEXT_ONLY = "only UTF-8 text is allowed; other files belong into `data`"
LENT = ("utils.py", "eval.py", "utils.h", "eval.cu")
"""Files that KernelCup has of its own, for tasks that name them and do not ship them."""


@dataclass(slots=True)
class Sources:
    """The readable files of a task."""

    texts: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    """Names for problem lines, by file name."""
    listed: dict[str, int] = field(default_factory=dict)
    """Every well-formed name in ``files`` with its index, readable or not."""
    lent: set[str] = field(default_factory=set)
    """Names of files that the task does not ship, and has from KernelCup."""
    submission_name: str | None = None


def read_sources(entries: list[object], tree: Tree, base: str, findings: Findings) -> Sources:
    """Read all entries of ``files``, and add their problems."""
    sources = Sources()
    shapes = {i: validate(FileShape, raw, ("files", i), findings) for i, raw in enumerate(entries)}
    for index, entry in shapes.items():
        if entry is not None and _take_name(index, entry.name, sources, findings):
            _take_source(index, entry, sources, SourceReader(tree, base, findings))
    if sources.submission_name is None and None not in shapes.values():
        findings.at_key(("files",), f"needs exactly one entry with the source `{SUBMISSION}`, and has none")
    _refuse_nesting(sources, findings)
    _refuse_excess(sources, findings)
    return sources


def read_data(
    names: Sequence[str], sources: Sources, tree: Tree, base: str, findings: Findings
) -> dict[str, str]:
    """Return the readable data files by name, in base64; add problems for the others."""
    found: dict[str, bytes] = {}
    for index, name in enumerate(names):
        try:
            reject_odd_target(name)
            if name in sources.listed or name in found:
                raise Unreadable("is the name of another file of the task")
            found[name] = tree.read(locate(base, name))
        except Unreadable as error:
            findings.at_value(("data", index), f"`{name}` {error}")
    if sum(map(len, found.values())) > MAX_DATA_BYTES:
        findings.at_key(("data",), f"is larger than {MAX_DATA_BYTES // MIB} MiB together")
    return {name: base64.b64encode(content).decode() for name, content in found.items()}


def read_templates(templates: Mapping[str, str], tree: Tree, base: str, findings: Findings) -> dict[str, str]:
    """Return the readable templates by language; add problems for the others."""
    reader = SourceReader(tree, base, findings)
    texts = {language: reader.text(source, ("templates", language)) for language, source in templates.items()}
    return {language: text for language, text in texts.items() if text is not None}


@dataclass(frozen=True, slots=True)
class SourceReader:
    """Reads text files relative to a task's folder."""

    tree: Tree
    base: str
    findings: Findings

    def text(self, source: str, key: Path) -> str | None:
        """Return the text of ``source``, or add a problem at ``key`` and return None."""
        try:
            path = locate(self.base, source)
            return self._decode(self.tree.read(path), self.tree.label(path))
        except Unreadable as error:
            self.findings.at_value(key, f"`{source}` {error}")
        return None

    def has(self, source: str) -> bool:
        """Return whether the task ships ``source``, readable or not."""
        try:
            self.tree.read(locate(self.base, source))
        except Absent:
            return False
        except Unreadable:
            return True
        return True

    def label(self, source: str) -> str:
        """Return the name of ``source`` in problem lines."""
        return self.tree.label(locate(self.base, source))

    def _decode(self, content: bytes, label: str) -> str | None:
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            position, reason = undecodable(content, error)
            self.findings.elsewhere(label, position, f"{reason}; {TEXT_ONLY}")
            return None
        if "\0" in text:
            line = text.count("\n", 0, text.index("\0")) + 1
            self.findings.elsewhere(label, (line, 1), f"has a NUL byte; {TEXT_ONLY}")
            return None
        return text


def shipped_text(folder: str, name: str, /, **values: str) -> str:
    """Return the text of a file in a folder of this package, with the values in place of ``@NAMES@``."""
    text = resources.files("kernelcup.tasks").joinpath(folder, *name.split("/")).read_text("utf-8")
    return re.sub("@([A-Z]+)@", lambda found: values.get(found[1].lower(), found[0]), text)


def _take_name(index: int, name: str, sources: Sources, findings: Findings) -> bool:
    try:
        reject_odd_target(name)
    except Unreadable as error:
        findings.at_value(("files", index, "name"), f"`{name}` {error}")
        return False
    if name in sources.listed:
        first = sources.listed[name]
        findings.at_value(("files", index, "name"), f"`{name}` is the name of files.{first} already")
        return False
    sources.listed[name] = index
    return True


def _take_source(index: int, entry: FileShape, sources: Sources, reader: SourceReader) -> None:
    key = ("files", index, "source")
    if entry.source in LENT and not reader.has(entry.source):
        sources.texts[entry.name] = shipped_text("shared", entry.source)
        sources.labels[entry.name] = reader.label(entry.source)
        sources.lent.add(entry.name)
    elif entry.source != SUBMISSION:
        text = reader.text(entry.source, key)
        if text is not None:
            sources.texts[entry.name] = text
            sources.labels[entry.name] = reader.label(entry.source)
    elif sources.submission_name is not None:
        reader.findings.at_value(key, f"only one file can be `{SUBMISSION}`")
    else:
        sources.submission_name = entry.name


def _refuse_nesting(sources: Sources, findings: Findings) -> None:
    for name, index in sources.listed.items():
        parts = name.split("/")
        for length in range(1, len(parts)):
            if (folder := "/".join(parts[:length])) in sources.listed:
                text = f"`{folder}` is a file and cannot be a folder too"
                findings.at_value(("files", index, "name"), text)


def _refuse_excess(sources: Sources, findings: Findings) -> None:
    if sum(len(text.encode()) for text in sources.texts.values()) > MAX_TASK_BYTES:
        findings.at_key(("files",), f"are larger than {MAX_TASK_BYTES // MIB} MiB together")
