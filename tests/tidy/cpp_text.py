"""Just enough reading of C++ text for the rules in tidy.py: blanking comments and literals, and finding lambdas."""

import re
from typing import Iterator

_SKIPPED = re.compile(
    r'//[^\n]*|/\*.*?\*/'  # comments
    r'|R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"'  # strings
    r"|(?<![0-9a-zA-Z])'(?:\\.|[^'\\\n])+'",  # characters, but not the marks inside 1'000
    re.DOTALL)
_PAIRS = {"(": ")", "[": "]", "{": "}"}


def line_of(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def code_only(text: str) -> str:
    """The same text with comments and the insides of literals blanked; every line keeps its number."""
    return _SKIPPED.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def matching(code: str, start: int) -> int:
    """The offset just past the bracket that closes the one at `start`; the end of the text if none does."""
    depth = []
    for i in range(start, len(code)):
        c = code[i]
        if c in _PAIRS:
            depth.append(_PAIRS[c])
        elif depth and c == depth[-1]:
            depth.pop()
            if not depth:
                return i + 1
    return len(code)


def _lambdas(code: str) -> Iterator[tuple[int, str, str, int, int]]:
    """(offset, captures, text between captures and body, body start, body end) of each lambda expression."""
    for match in re.finditer(r"\[", code):
        start = match.start()
        before = code[:start].rstrip()
        if code[start:start + 2] == "[[" or before.endswith("["):
            continue  # an attribute
        word = re.search(r"(\w+)$", before)
        if before.endswith((")", "]")) or (word and word[1] not in ("return", "co_return", "co_await", "co_yield")):
            continue  # a subscript or an array
        after = matching(code, start)
        head = re.compile(r"\s*(?:<[^{;]*?>\s*)?").match(code, after).end()
        if code[head:head + 1] == "(":
            head = matching(code, head)
        body = re.compile(r"[^{};,()]*(?:\([^{};]*?\)[^{};,()]*)?").match(code, head).end()
        if code[body:body + 1] == "{":
            yield start, code[start + 1:after - 1].strip(), code[after:body], body, matching(code, body)


def _full_expression_before(code: str, offset: int) -> str:
    """The part of the statement around `offset` that comes before it."""
    depth = 0
    for i in range(offset - 1, -1, -1):
        c = code[i]
        if c in ")]}":
            if c == "}" and depth == 0:
                return code[i + 1:offset]
            depth += 1
        elif c in "([{":
            if depth:
                depth -= 1
            elif c == "{":
                return code[i + 1:offset]
        elif c == ";" and depth == 0:
            return code[i + 1:offset]
    return code[:offset]


def capturing_lambda_coroutines(code: str) -> Iterator[tuple[int, str]]:
    """Offsets of lambda coroutines with captures where those captures are copied or die under a running coroutine."""
    lambdas = list(_lambdas(code))
    for start, captures, signature, body, end in lambdas:
        own = list(code[body:end])
        for other, _, _, _, other_end in lambdas:
            if body < other < end:  # what a lambda inside this one awaits is not this one's
                own[other - body:other_end - body] = " " * (other_end - other)
        is_coroutine = "awaitable" in signature or re.search(r"\bco_(?:await|return|yield)\b", "".join(own))
        if not captures or not is_coroutine:
            continue
        if re.match(r"\s*\(", code[end:end + 20]):
            yield start, "a capturing lambda coroutine called on the spot: its captures die with the statement"
        elif re.search(r"\bco_await\b", _full_expression_before(code, start)):
            yield start, "a capturing lambda coroutine in a co_await expression is freed twice (gcc 12): name it first"
