"""Reads the literals that model files carry as text: Python's and JSON's, by one grammar.

`ast.literal_eval` and `json.loads` would do for honest files. For any others they need a
hundred times the text's size of memory, or all of the C stack; this reader is bounded.
"""

from __future__ import annotations

import re
from typing import Any

LIMIT_BYTES = 1 << 19
LIMIT_DEPTH = 16

TOKEN = re.compile(
    rb"""[ \t\r\n]*(?:
    (?P<mark>[][(){},:])
  | (?P<text>'[^'\\\n]*(?:\\.[^'\\\n]*)*' | "[^"\\\n]*(?:\\.[^"\\\n]*)*")
  | (?P<number>[-+]?(?:[0-9]{1,32}\.?[0-9]{0,32}|\.[0-9]{1,32})(?:[eE][-+]?[0-9]{1,4})?)
  | (?P<word>-?[A-Za-z]{1,8})
  | (?P<end>\Z)
)""",
    re.VERBOSE,
)

ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))")

PLAIN_ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "/": "/",
}  # fmt: skip

WORDS = {
    b"True": True,
    b"true": True,
    b"False": False,
    b"false": False,
    b"None": None,
    b"null": None,
    b"nan": float("nan"),
    b"NaN": float("nan"),
    b"inf": float("inf"),
    b"-inf": float("-inf"),
    b"Infinity": float("inf"),
    b"-Infinity": float("-inf"),
}

CLOSING = {b"[": b"]", b"(": b")", b"{": b"}"}


def parse_literal(text: bytes) -> Any:
    """Read one literal: dicts with string keys, lists, strings, numbers, true, none."""
    return _Parser(text).parse()


class _Parser:
    def __init__(self, text: bytes) -> None:
        if len(text) > LIMIT_BYTES:
            raise ValueError(f"a literal of {len(text)} bytes, at most {LIMIT_BYTES} make sense")
        self.text = text
        self.position = 0

    def parse(self) -> Any:
        value = self.value(*self.next(), depth=0)
        if self.next() != ("end", b""):
            raise ValueError("text behind the literal")
        return value

    def next(self) -> tuple[str, bytes]:
        match = TOKEN.match(self.text, self.position)
        if match is None or match.lastgroup is None:
            raise ValueError(f"no literal at byte {self.position}")
        self.position = match.end()
        return match.lastgroup, match[match.lastgroup]

    def value(self, kind: str, token: bytes, depth: int) -> Any:
        if kind == "text":
            return _string(token)
        if kind == "number":
            number = token.decode()
            return int(number) if number.lstrip("+-").isdigit() else float(number)
        if kind == "word" and token in WORDS:
            return WORDS[token]
        if kind == "mark" and token in CLOSING and depth < LIMIT_DEPTH:
            if token == b"{":
                return self.mapping(depth + 1)
            return self.sequence(CLOSING[token], depth + 1)
        raise ValueError(f"unexpected {token!r} before byte {self.position}")

    def sequence(self, closing: bytes, depth: int) -> list[Any]:
        values: list[Any] = []
        while True:
            kind, token = self.next()
            if token == closing:
                return values
            values.append(self.value(kind, token, depth))
            if self.separator(closing):
                return values

    def mapping(self, depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        while True:
            kind, token = self.next()
            if token == b"}":
                return values
            if kind != "text" or self.next()[1] != b":":
                raise ValueError(f"no key and colon before byte {self.position}")
            values[_string(token)] = self.value(*self.next(), depth)
            if self.separator(b"}"):
                return values

    def separator(self, closing: bytes) -> bool:
        """Tell whether the container ended here; a comma must stand otherwise."""
        kind, token = self.next()
        if kind != "mark" or token not in (b",", closing):
            raise ValueError(f"neither a comma nor an end before byte {self.position}")
        return token == closing


def _string(token: bytes) -> str:
    text = token[1:-1].decode()
    if "\\" not in text:
        return text
    text = ESCAPE.sub(_character, text)
    # JSON writes characters beyond 16 bits as two surrogates.
    return text.encode("utf-16", "surrogatepass").decode("utf-16")


def _character(match: re.Match[str]) -> str:
    digits = match[1] or match[2] or match[3]
    if digits:
        return chr(int(digits, 16))
    if match[4] not in PLAIN_ESCAPES:
        raise ValueError(f"unknown escape \\{match[4]}")
    return PLAIN_ESCAPES[match[4]]
