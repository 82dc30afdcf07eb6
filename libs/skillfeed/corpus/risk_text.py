"""A text as the risk screen reads it: in lower case at the same positions, with its fences, lines and prose around.

Every look around a position is bounded, so that the time of all of them together is linear in the text.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

LINE = 800  # characters of a logical line that are looked at on either side
_FENCE = re.compile(r"^[ \t>]{0,12}(?:[-*] )?(?:```|~~~)", re.MULTILINE)
_ITEM = re.compile(r"[ \t]*(?:[-*+|>]|\d{1,3}[.)])[ \t]?")


class Candidate(NamedTuple):
    """A span that a pattern found. What is `firm` stays flagged whatever the prose around it says."""

    start: int
    end: int
    firm: bool = False


@dataclass(frozen=True)
class ScreenedText:
    """`about` is lower-case text that says what the whole is about, such as the skill's name and description."""

    text: str
    about: str = ""

    @cached_property
    def low(self) -> str:
        return self.text.replace("\u0130", "I").lower()  # the one character whose lower case is two

    @cached_property
    def _fences(self) -> list[int]:
        return [match.start() for match in _FENCE.finditer(self.text)]

    def matches(self, openers: Sequence[str], pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        """Matches of a pattern that begin with one of the openers: 8 x a search, for most texts have none of them."""
        for opener in openers:
            at = self.low.find(opener)
            while at >= 0:
                match = pattern.match(self.low, at)
                if match:
                    yield match
                at = self.low.find(opener, match.end() if match else at + 1)

    def fence(self, at: int) -> int | None:
        """Where the fence around a position opens, if there is one."""
        number = bisect_right(self._fences, at)
        return self._fences[number - 1] if number % 2 else None

    def line_start(self, at: int) -> int:
        return self.low.rfind("\n", max(0, at - LINE), at) + 1 or max(0, at - LINE)

    def line_end(self, at: int) -> int:
        found = self.low.find("\n", at, at + LINE)
        return found if found >= 0 else min(len(self.low), at + LINE)

    def command_start(self, at: int) -> int:
        """The start of the line, or of the first of the lines that a backslash joins with it."""
        start = self.line_start(at)
        while start >= 2 and self.low[start - 2] == "\\" and at - start < LINE:
            start = self.line_start(start - 1)
        return start

    def command_end(self, at: int) -> int:
        end = self.line_end(at)
        while end < len(self.low) and self.low[end - 1] == "\\" and end - at < LINE:
            end = self.line_end(end + 1)
        return end

    def lead(self, at: int) -> str:
        """What introduces a position: the last line before it, its fence, its list or its table that says something."""
        opening = self.fence(at)
        start = self.line_start(at) if opening is None else opening
        lines = self.low[max(0, start - 600) : start].splitlines()
        said = (line for line in reversed(lines) if line.strip() and not _ITEM.match(line))
        return (lines[-1] if lines else "") + "\n" + next(said, "")

    def heading(self, at: int) -> str:
        """The last line before a position, and before its fence, that begins with #; within 4,000 characters."""
        opening = self.fence(at)
        found = ""
        for stop in {at, at if opening is None else opening}:
            start = self.low.rfind("\n#", max(0, stop - 4000), stop)
            if start < 0 and stop <= 4000 and self.low.startswith("#"):
                start = 0
            found += self.low[start : min(stop, start + 160)].strip().partition("\n")[0] + "\n" if start >= 0 else ""
        return found
