"""Commands that run what they fetch or decode: piped to an interpreter, substituted into one, or handed to `eval`.

Interpreters that read a script from their arguments (`python -m json.tool`, `bash -c`, `sh install.sh`) take what is
piped to them as data and are left alone, and so are official installers (`risk_hosts.INSTALLERS`) and local hosts.
"""

import re
from collections.abc import Iterator

from skillfeed.corpus.risk_hosts import is_official
from skillfeed.corpus.risk_text import Candidate, ScreenedText

_SHELLS = r"(?:ba|z|da|k|fi)?sh"
_SINK = re.compile(
    r"\|&?[ \t]*(?:\\\n[ \t]*)?(?:(?:sudo(?:[ \t]+-[a-z]+){0,3}|env|(?:\w{1,40}=[^\s|]{0,60}))[ \t]+){0,3}"
    rf"(?:/(?:usr/)?(?:local/)?bin/(?:env[ \t]+)?)?(?P<program>{_SHELLS}|python[23]?(?:\.\d+)?|perl|ruby|node"
    rf"|php|osascript"
    r"|iex|invoke-expression|pwsh|powershell)(?![\w.=/-])"
)
# After a shell: an option that makes its input data, or a script. After other interpreters: anything but the end.
_SHELL_SCRIPT = re.compile(r"[ \t]+(?:-[a-z]*[cn]\b|[\"'$]?[\w${}-]*[./](?!dev/stdin)\S)")
_OTHER_CODE = re.compile(r"(?:[ \t]+-)?[ \t]*(?:\Z|[\n\"'`);&|#<]|[ \t]-[ \t])")
_SUBSTITUTED = re.compile(
    rf"(?:(?<![\w.-])(?:{_SHELLS}|python[23]?|perl|ruby|node)[ \t]+(?:-[a-z]+[ \t]+){{0,3}}"
    rf"|(?<![\w./-])(?:source|eval|\.)[ \t]+)"
    r"(?:<<<[ \t]*)?(?:<\(|[\"']?\$\(|[\"']?`)[ \t]*"
)
_POWERSHELL = re.compile(r"(?<![\w-])(?:iex|invoke-expression|\[scriptblock\]::create)(?![\w-])")
_ENCODED_COMMAND = re.compile(
    r"(?<![\w-])(?:powershell|pwsh)(?:\.exe)?(?=[ \t])[^\n|]{0,160}?[ \t][-/]e(?:c|nc"
    r"|nco[a-z]*)?[ \t]+[\"']?[a-z0-9+/=]{16,}"
)
_EVALUATED = re.compile(r"(?<![\w.])(?:exec|eval|(?:new[ \t]+)?function|os\.system)[ \t]*\(")

_FETCH = re.compile(r"(?<![\w/.-])(?:curl|wget|iwr|irm|invoke-webrequest|invoke-restmethod|aria2c)(?:\.exe)?[ \t]")
_FETCH_POWERSHELL = ("downloadstring", "irm ", "iwr ", "invoke-webrequest", "invoke-restmethod")
_FETCH_CODE = ("urlopen(", "requests.get(", "fetch(", "file_get_contents(", "httpx.get(", "urllib")
_DECODE = re.compile(
    r"base64[ \t]+(?:-{1,2}d(?:ecode)?\b|-di\b|-[a-z]*d\b)|xxd[ \t]+(?:-p[ \t]+)?-r|openssl[ \t]+(?:enc"
    r"|base64)[^\n|]{0,40}-d\b"
    r"|(?:printf|echo[ \t]+-[a-z]+)[ \t]+[\"']?(?:\\x[0-9a-f]{2}|\\[0-7]{3}){4}|frombase64string\(|\|[ \t]*rev[ \t]*$"
)
_DECODE_CODE = (
    "atob(", "b64decode(", "fromhex(", "base64_decode(", "unhexlify(", "codecs.decode(", "decompress(", "fromcharcode(",
    "frombase64string", "'base64')", '"base64")', "gzinflate(", "rot13",
)  # fmt: skip
_BLOB = re.compile(r"[A-Za-z0-9+/]{20,}={0,2}|(?:\\x[0-9A-Fa-f]{2}){4}|\b[0-9A-Fa-f]{20,}\b|[A-Za-z0-9+/]{11,}={1,2}")
_WITH_SCHEME = re.compile(r"(?:https?|ftp)://[^\s\"'`<>|)\\]+")
_WITHOUT_SCHEME = re.compile(
    r"(?<=[\s\"'])(?:[a-z0-9-]{1,63}\.){1,4}[a-z]{2,12}(?=[/\s\"'|])(?:/[^\s\"'`<>|)]*)?(?![\w.])"
)
_LOCAL = re.compile(r"https?://(?:localhost|127\.|0\.0\.0\.0|\[::1\]|host\.docker\.internal|[\w.-]+\.local\b)")
_NO_HOST = re.compile(r"(?:https?|ftp)://(?:[.…$<{\[*(]|\.\.\.|(?:url|x)\b(?!\.))")


def piped_remote_code(screened: ScreenedText) -> Iterator[Candidate]:
    """Remote code run as it arrives: `curl … | sh`, `bash <(curl …)`, `iex (iwr …)`, `exec(urlopen(…))`."""
    for start, end in _runs(screened):
        piece = screened.low[start:end]
        fetch = _FETCH.search(piece)
        if fetch and _is_foreign(piece[fetch.end() - 1 :]):
            yield Candidate(start + fetch.start(), end)
    for match, rest in _calls(screened, _POWERSHELL):
        if any(word in rest for word in _FETCH_POWERSHELL) and _is_foreign(rest):
            yield Candidate(match.start(), match.end() + len(rest))
    for match, rest in _calls(screened, _EVALUATED):
        if any(word in rest[:100] for word in _FETCH_CODE) and _is_foreign(rest):
            yield Candidate(match.start(), match.end() + len(rest))


def encoded_code(screened: ScreenedText) -> Iterator[Candidate]:
    """Decoded blobs run as code, by a shell, PowerShell or a call of eval. Firm where the blob is there to see."""
    for start, end in _runs(screened):
        if _DECODE.search(screened.low[start:end]):
            yield _encoded(screened, start, end)
    for match in _ENCODED_COMMAND.finditer(screened.low):
        yield Candidate(match.start(), match.end(), firm=True)
    for pattern in (_POWERSHELL, _EVALUATED):
        for match, rest in _calls(screened, pattern):
            if any(word in rest[:120] for word in _DECODE_CODE):
                yield _encoded(screened, match.start(), match.end() + len(rest))


def _encoded(screened: ScreenedText, start: int, end: int) -> Candidate:
    blobs = _BLOB.findall(_WITH_SCHEME.sub("", screened.text[start:end]))
    return Candidate(start, end, firm=any(_is_mixed(blob) for blob in blobs))


def _is_mixed(blob: str) -> bool:
    """Capitals among small letters, digits, or padding, as words and paths rarely have them."""
    return (
        blob.endswith("=") or any(character.isdigit() for character in blob) or blob not in (blob.lower(), blob.upper())
    )


def _runs(screened: ScreenedText) -> Iterator[tuple[int, int]]:
    """Spans from the command that feeds an interpreter to the interpreter."""
    low, done = screened.low, 0
    for sink in _SINK.finditer(low):
        tail = low[sink.end() : sink.end() + 60]
        is_shell = sink["program"].endswith("sh") and sink["program"] != "pwsh"
        is_code = (
            not _SHELL_SCRIPT.match(tail) if is_shell else bool(_OTHER_CODE.match(tail)) or sink["program"] == "iex"
        )
        if not is_code:
            continue
        start = max(screened.command_start(sink.start()), done)  # `done`: no character is looked at twice
        piece, done = low[start : sink.start()], sink.end()
        is_row = piece.lstrip().startswith("|") and "`" not in piece  # of a table
        if piece.count("`") % 2:  # the command begins where the code of the line does
            start, piece = start + piece.rfind("`") + 1, piece[piece.rfind("`") + 1 :]
        if not is_row:
            yield start + max(piece.rfind("&&") + 2 if "&&" in piece else 0, piece.rfind("; ") + 1), done
    done = 0
    for match in _SUBSTITUTED.finditer(low):
        if match.start() >= done:
            done = min(screened.command_end(match.end()), match.end() + 400)
            yield match.start(), done


def _calls(screened: ScreenedText, pattern: re.Pattern[str]) -> Iterator[tuple[re.Match[str], str]]:
    """Each match and the rest of its line, at most 240 characters."""
    for match in pattern.finditer(screened.low):
        yield match, screened.low[match.end() : min(screened.line_end(match.end()), match.end() + 240)]


def _is_foreign(command: str) -> bool:
    """Whether any URL in a command is neither official nor local; without a URL there is nothing to judge."""
    urls = _WITH_SCHEME.findall(command) or _WITHOUT_SCHEME.findall(command)
    return any(
        not (is_official(url if "://" in url else f"https://{url}") or _LOCAL.match(url) or _NO_HOST.match(url))
        for url in urls
    )
