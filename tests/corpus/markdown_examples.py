"""Markdown that tests of blocks and chunks share: a strategy of nasty mixtures, and bodies meant to cost time."""

from hypothesis import strategies as st

MARKDOWN_BITS = [
    "# A\n",
    "## B #\n",
    "C\n==\n",
    "- x\n",
    "  - y\n",
    "1. z\n",
    "> q\n",
    "```\n",
    "~~~~\n",
    "|a|b|\n|-|-|\n|1|2|\n",
]
MARKDOWN_BITS += [
    "    code\n",
    "<!-- # no\n",
    "-->\n",
    "\n",
    "word ",
    "你好。",
    "a\rb",
    "\r\n",
    "\t",
    "[r]: u\n",
    "\x00",
    "[CLS]",
    "---\n",
]
markdown = st.lists(st.sampled_from(MARKDOWN_BITS) | st.text(max_size=8), max_size=30).map("".join)

HOSTILE = {
    "one line of 400 KB": "word " * 80_000,
    "one word of 400 KB": "a" * 400_000,
    "50,000 headings": "# a\n" * 50_000,
    "10,000 nested quotes": ">" * 10_000 + " a",
    "10,000 nested lists": "- " * 10_000 + "a",
    "lists 600 levels deep": "".join(" " * (2 * level) + "- a\n" for level in range(600)),
    "an unclosed fence": "```\n" + "a b c\n" * 60_000,
    "dots only": "." * 400_000,
    "50,000 unclosed comments": "<!--\n" * 50_000,
    "a wide and long table": "|" + "a|" * 20_000 + "\n|" + "-|" * 20_000 + "\n" + "|a|\n" * 20_000,
}
