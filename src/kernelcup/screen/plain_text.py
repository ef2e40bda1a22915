"""Screen a text without parsing it: messages to reviewers, odd characters, and bare words."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kernelcup.screen import rules
from kernelcup.screen.findings import Lines, Spot, Tag
from kernelcup.screen.names import BUILTINS

_GAP = r"[\s#/*\"'.,:;!-]{1,12}"


def _phrase(text: str) -> str:
    return text.replace(" ", _GAP)


TO_REVIEWERS = re.compile(
    "|".join(
        _phrase(text)
        for text in (
            (
                r"\b(?:ignore|disregard|forget) (?:all |any |the |your )?(?:previous|prior|above|earlier|preceding)"
                r" (?:instructions?|prompts?|rules|context|messages?)"
            ),
            r"\byou are (?:an? )?(?:ai|llm|language model|helpful assistant|code reviewer|reviewer)\b",
            r"\bas an? (?:ai|llm|language model)\b",
            (
                r"\b(?:this|the) (?:code|submission|kernel|file|solution|function) (?:is|has been) "
                r"(?:completely |entirely |perfectly |totally |already |100% )?(?:safe|harmless|legit\w*|benign|clean|"
                r"verified|approved|reviewed|honest|not cheating|not a cheat|not malicious)\b"
                r"(?! (?:for|with|if|when|up|as long|only|against)\b)"
            ),
            (
                r"\b(?:dear|attention|note to|message to|hello|hey) (?:the |all |any |ai )?"
                r"(?:reviewers?|moderators?|llm|ai|language model|assistant|graders?|auditors?)\b"
            ),
            r"\b(?:do not|don't|please don't|never) (?:flag|report|tag|reject|quarantine) (?:this|it|the|me|us)\b",
            r"\bmark (?:this|it|as) (?:as )?(?:safe|valid|accepted|clean|benign)\b",
            r"\bsystem prompt\b",
        )
    )
    + r"|<\|(?:im_start|system|endoftext)\|>|\[/?INST\]",
    re.IGNORECASE,
)

# Direction marks, zero-width characters, tags; letters that Python reads as ASCII but other tools do not.
INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\U000e0000-\U000e007f]")
LOOKALIKE = re.compile("[\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d7ff]")
FAR_RIGHT = re.compile(r"(?<=[ \t]{150})[^\s]")
# In the first two lines; UTF-7, for example, can turn an apparent comment into code.
ENCODING = re.compile(
    r"\A(?:[^\n]{0,999}\n)?[ \t\f]*#[^\n]{0,999}?coding[:=][ \t]*(?!utf-?8\b|utf_8\b|ascii\b)[-\w.]+",
    re.IGNORECASE,
)
BLOB = re.compile(r"[A-Za-z0-9+/=_-]{500,}|(?:\\x[0-9a-fA-F]{2}){100,}|(?:0x[0-9a-fA-F]{1,16},[ \t]*){200,}")

_WORD = re.compile(r"[^\W\d]\w{0,63}(?:[ \t]{0,8}\.[ \t]{0,8}[^\W\d]\w{0,63}){0,7}")
_IMPORT = re.compile(r"^[ \t;]*(?:from|import)[ \t]+([\w.]+)", re.MULTILINE)
_ONLY_AS_MODULE = frozenset({"reference", "code", "signal", "eval", "mock", "requests", "pip", "http"})


def anywhere(lines: Lines) -> Iterator[Spot]:
    """Yield the findings that do not depend on the language."""
    text = lines.text
    for match in TO_REVIEWERS.finditer(text):
        yield Spot(*lines.place(match.start()), Tag.REVIEWER_TEXT, "Speaks to whoever reviews the file.")
    for pattern, explanation in (
        (INVISIBLE, "Has invisible characters."),
        (LOOKALIKE, "Has letters that look like others."),
        (FAR_RIGHT, "Has something far to the right, where nobody sees it."),
        (ENCODING, "Is read in an encoding that can hide code from everybody else."),
        (BLOB, "Has a long piece of encoded data."),
    ):
        for match in pattern.finditer(text):
            yield Spot(*lines.place(match.start()), Tag.OBFUSCATION, explanation)


def bare(lines: Lines) -> Iterator[Spot]:
    """Yield the findings from the words of a text that cannot be parsed."""
    text = lines.text
    for match in _IMPORT.finditer(text):
        if (rule := of_module(match[1])) is not None:
            yield Spot(*lines.place(match.start(1)), *rule)
    known: dict[str, rules.Rule | None] = {}
    for match in _WORD.finditer(text):
        word = match[0]
        if word not in known:
            known[word] = _of_word("".join(word.split()))
        if (rule := known[word]) is not None:
            yield Spot(*lines.place(match.start()), *rule)


def of_module(name: str) -> rules.Rule | None:
    """Return the rule for an imported module; for some modules only the use of their parts counts."""
    if name in rules.MIXED_MODULES:
        return None
    return rules.BUILTINS_IMPORT if name == "builtins" else rules.find(name)


def _of_word(dotted: str) -> rules.Rule | None:
    if "." not in dotted:
        if dotted in BUILTINS:
            return rules.find(f"builtins.{dotted}")
        return None if dotted in _ONLY_AS_MODULE else rules.find(dotted) or rules.IN_STRINGS.get(dotted)
    return rules.find(dotted) or rules.ATTRIBUTES.get(dotted.rpartition(".")[2])
