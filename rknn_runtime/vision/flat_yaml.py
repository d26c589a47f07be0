"""Reads the flat YAML of data sets and of exports: top-level keys, each with a scalar, list or map.

A small part of YAML 1.2, without PyYAML. Only the keys that are asked for are read, so that a
script in ``download: |`` beside them does no harm; of those, what is not of this part is refused.
"""

from __future__ import annotations

import re
from typing import Union

__all__ = ["FlatYaml", "Value"]

#: A scalar is its text; a list and a map hold scalars alone.
Value = Union[str, list[str], dict[str, str]]

_KEY = re.compile(
    r"""(?P<key>'(?:[^']|'')*'|"[^"\\]*"|[^\s#'"\[\]{},&*!|>%@`-][^#'":]*?)\s*:(?:\s+|$)"""
)
_COMMENT = re.compile(r"(?:^|\s)#.*$")
_FLOW = re.compile(
    r"""\s*(?:(?P<mark>[\[\]{},])|(?P<quoted>'(?:[^']|'')*'|"(?:[^"\\]|\\.)*")|(?P<colon>:)"""
    r"""|(?P<plain>[^\s\[\]{},:'"][^\[\]{},:]*))"""
)
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "/": "/", "0": "\0", " ": " "}


class FlatYaml:
    """The text of a file, cut into the blocks of its top-level keys.

    Args:
        text: Of the file.
        name: Of the file, for messages.

    Raises:
        ValueError: A line belongs to no key, or a key stands there twice.
    """

    def __init__(self, text: str, name: str) -> None:
        self._name = name
        self._blocks: dict[str, list[tuple[int, str]]] = {}
        current: list[tuple[int, str]] | None = None
        for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
            is_mark = line.rstrip() in ("---", "...")  # where a document begins and ends
            if not line.strip() or line.lstrip().startswith("#") or is_mark:
                continue
            is_inner = line[0].isspace() or line[0] in "-]}"
            if is_inner and current is not None:
                current.append((number, line))
                continue
            found = _KEY.match(line)
            if found is None or is_inner:
                raise self._refused(number, "expected 'key: value'", line)
            key = _unquoted(found["key"])
            if key in self._blocks:
                raise self._refused(number, f"expected the key {key!r} once", line)
            current = self._blocks[key] = [(number, line[found.end() :])]

    def get(self, key: str) -> Value | None:
        """Return what stands behind a top-level key; None where there is no such key.

        Raises:
            ValueError: It is more than a scalar, a list of scalars or a map of scalars.
        """
        if key not in self._blocks:
            return None
        (number, first), *rest = self._blocks[key]
        first = first.strip()
        if first[:1] in ("[", "{"):
            return self._flow(number, " ".join([first, *(line.strip() for _, line in rest)]))
        first = _without_comment(first)
        if first[:1] and first[0] in "|>&*!%@`":
            raise self._refused(number, f"expected plain text behind {key!r}", first)
        if first:  # a long text goes on in the next lines
            whole = " ".join([first, *(_without_comment(line.strip()) for _, line in rest)])
            return self._scalar(number, whole)
        if not rest:
            return ""
        return self._block(rest)

    def _block(self, lines: list[tuple[int, str]]) -> list[str] | dict[str, str]:
        """A list or a map, one entry a line, all equally far from the left."""
        entries: list[str] = []
        named: dict[str, str] = {}
        indent = len(lines[0][1]) - len(lines[0][1].lstrip())
        is_list = lines[0][1].lstrip().startswith("-")
        for number, line in lines:
            body = line.strip()
            if "\t" in line[: len(line) - len(line.lstrip())]:
                raise self._refused(number, "expected spaces in front, no tab", line)
            if len(line) - len(line.lstrip()) != indent:
                raise self._refused(number, "expected a list or map of one level", line)
            if is_list:
                if not re.match(r"-\s", body):
                    raise self._refused(number, "expected '- entry'", line)
                entries.append(self._scalar(number, _without_comment(body[1:].strip())))
                continue
            found = _KEY.match(body)
            if found is None:
                raise self._refused(number, "expected 'key: value'", line)
            key = _unquoted(found["key"])
            if key in named:
                raise self._refused(number, f"expected the key {key!r} once", line)
            named[key] = self._scalar(number, _without_comment(body[found.end() :].strip()))
        return entries if is_list else named

    def _flow(self, number: int, text: str) -> list[str] | dict[str, str]:
        """``[a, b]`` or ``{0: a, 1: b}``, of one level."""
        tokens = []
        at = 0
        while text[at:].strip() and not text[at:].lstrip().startswith("#"):
            found = _FLOW.match(text, at)
            if found is None:
                raise self._refused(number, "expected a list or map in brackets", text)
            tokens.append((found.lastgroup, found[found.lastgroup or 0].strip()))
            at = found.end()
        closing = {"[": "]", "{": "}"}[text[0]]
        if len(tokens) < 2 or tokens[-1] != ("mark", closing):
            raise self._refused(number, f"expected {closing!r} at the end", text)
        entries: list[list[tuple[str | None, str]]] = [[]]
        for kind, token in tokens[1:-1]:
            if (kind, token) == ("mark", ","):
                entries.append([])
            elif kind == "mark":
                raise self._refused(number, "expected a list or map of one level", text)
            else:
                entries[-1].append((kind, token))
        if not entries[-1]:  # none, or a comma at the end
            entries.pop()
        kinds = ["colon" if kind == "colon" else "scalar" for e in entries for kind, _ in e]
        if text[0] == "[" and kinds == ["scalar"] * len(entries):
            return [_unquoted(entry[0][1]) for entry in entries]
        if text[0] == "{" and kinds == ["scalar", "colon", "scalar"] * len(entries):
            named = {_unquoted(entry[0][1]): _unquoted(entry[2][1]) for entry in entries}
            if len(named) == len(entries):
                return named
        raise self._refused(number, "expected entries of one scalar each, no key twice", text)

    def _scalar(self, number: int, text: str) -> str:
        quote = text[:1]
        if quote in ("'", '"'):
            pattern = r"'(?:[^']|'')*'" if quote == "'" else r'"(?:[^"\\]|\\.)*"'
            if not re.fullmatch(pattern, text):
                raise self._refused(number, f"expected {quote} at the end of the text", text)
            return _unquoted(text)
        if quote and quote in "[{|>&*!%@`":
            raise self._refused(number, "expected plain or quoted text", text)
        return text

    def _refused(self, number: int, expected: str, line: str) -> ValueError:
        shown = line.strip()
        return ValueError(f"{self._name}, line {number}: {expected}, got {shown[:60]!r}")


def _without_comment(text: str) -> str:
    """Cut off a comment, which begins with a # at the start or behind a blank."""
    if text[:1] == "'":
        found = re.match(r"'(?:[^']|'')*'", text)
    elif text[:1] == '"':
        found = re.match(r'"(?:[^"\\]|\\.)*"', text)
    else:
        return _COMMENT.sub("", text).strip()
    if found is None:
        return text
    return found[0] + _COMMENT.sub("", text[found.end() :]).strip()


def _unquoted(text: str) -> str:
    if text[:1] == "'":
        return text[1:-1].replace("''", "'")
    if text[:1] != '"':
        return text

    pattern = r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))"
    return re.sub(pattern, lambda escape: _escaped(escape.groups()), text[1:-1])


def _escaped(groups: tuple[str | None, ...]) -> str:
    for number in groups[:3]:
        if number is not None:
            code = int(number, 16)
            return chr(code) if code < 0x110000 else "\ufffd"
    letter = groups[3] or ""
    return _ESCAPES.get(letter, "\\" + letter)
