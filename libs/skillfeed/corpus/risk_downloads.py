"""Downloads that hide what they bring: archives with a password beside them, bare addresses, drops and shorteners."""

import re
from collections.abc import Iterator
from ipaddress import IPv4Address, ip_network

from skillfeed.corpus.risk_hosts import DROPS, SHORTENERS
from skillfeed.corpus.risk_text import Candidate, ScreenedText

_PASSWORD = re.compile(
    r"(?:\b(?:pass(?:word|code|phrase|wort)?|pwd|contraseña|kennwort)|密码|解压码|密碼)[ \t*_]{0,3}"
    r"(?:(?:[:=：]|is\b|ist\b|es\b|lautet\b|是|为)[ \t*_`\"'“(]{0,4}"
    r"|[ \t]?[`\"'“(]{1,3})(?P<value>[^\s`\"'”<>(){}$\[]{3,40})"
)
_COMMAND = re.compile(
    r"\bunzip[ \t]+(?:-[A-Za-z]+[ \t]+){0,3}-P[ \t]*[\"']?[^\s\"'$<{]{3,}"
    r"|\b(?:7z[ar]?|7zz|unrar)(?:\.exe)?[ \t]+[xe][ \t](?:[^\n]{0,120}?[ \t])?-p[\"']?[^\s\"'$<{\-]{3,}"
    r"|\bopenssl[ \t]+enc[ \t]+-d[^\n]{0,80}?-(?:k"
    r"|pass)[ \t]+[\"']?(?:pass:)?[^\s\"'$<{]{3,}[^\n]{0,120}\|[ \t]*(?:ba)?sh\b"
)
_ARCHIVE = re.compile(
    r"\.(?:zip|rar|7z)\b|\b(?:zip|rar|archives?|archiv|unzip|winrar|7-?zip|releases?/|releases? (?:page|archive)"
    r"|压缩包|archivo)\b|压缩|解压"
)
_DOWNLOAD = re.compile(r"https?://|download|descarg|herunter|lade[tn]?\b|下载|\bcurl |\bwget ")
_OPEN = re.compile(
    r"\b(?:extract|unpack|unzip|decompress|open|unlock|entpack|öffne|descomprim|extrae|abre)|解压|打开|\b7z|\bunrar"
)
_NO_VALUE = re.compile(
    r"your|my_?pass|example|placeholder|none\b|null\b|true|false|required|optional|string|input|args|os\."
    r"|process|env|not\b|the\b|xxx|\*{3}|\.\.\."
)

_HOST = re.compile(
    r"https?://(?:[^\s/@\"'`<>]{0,64}@)?(?:(?P<ip>\d{1,3}(?:\.\d{1,3}){3})|(?:www\.)?(?P<site>"
    + "|".join(re.escape(site) for site in (*DROPS, *SHORTENERS))
    + r"))(?=[:/\s\"'`)>|\]]|\Z)[^\s\"'`<>|)\]]{0,300}"
)
_PRIVATE = [
    ip_network(net)
    for net in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8"),
        *("169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16", "224.0.0.0/3"),
    )
]
_FETCH = re.compile(
    r"(?<![\w/.-])(?:curl|wget|iwr|irm|invoke-webrequest|invoke-restmethod|aria2c|certutil|bitsadmin"
    r"|start-bitstransfer"
    r"|git[ \t]+clone|pip3?[ \t]+install|npm[ \t]+(?:i|install)|npx|urlretrieve|downloadstring|downloadfile)\b"
)
_UPLOAD = re.compile(
    r"[ \t](?:--upload-file|-t[ \t]|-f[ \t]*[\"']|-f[ \t]+\w+=|--form|-d[ \t]|--data|-x[ \t]?(?:post|put|delete"
    r"|patch))"
)
_SAVED = re.compile(
    r"[ \t](?:-o\b|-[a-z]*o[ \t]|-outfile\b|--output\b|--remote-name\b|>)|\||urlretrieve|downloadfile"
    r"|downloadstring|git[ \t]+clone|\bwget\b|install|npx"
)
_FILE = re.compile(
    r"\.(?:sh|bash|ps1|exe|msi|dmg|pkg|apk|deb|rpm|zip|rar|7z|tgz|tar(?:\.\w+)?|gz|bin|elf|jar|py|js|bat|cmd|vbs"
    r"|dll|so|scr|whl|run|appimage)\b"
)
_ASKED = re.compile(
    r"download|install|execute|\brun\b|fetch|descarg|instal|ejecut|herunterlad|lade\b|installier|下载|安装|运行|执行"
)


def password_protected_download(screened: ScreenedText) -> Iterator[Candidate]:
    """An archive to download, and the password to open it with: what scanners cannot look into. Always firm."""
    low = screened.low
    for match in _PASSWORD.finditer(low):
        around = low[max(0, match.start() - 300) : match.end() + 200]
        if (
            not _NO_VALUE.match(match["value"])
            and _ARCHIVE.search(around)
            and _DOWNLOAD.search(around)
            and _OPEN.search(low[max(0, match.start() - 120) : match.end() + 80])
        ):
            yield Candidate(match.start(), match.end(), firm=True)
    for match in _COMMAND.finditer(screened.text):
        if "|" in match[0] or _DOWNLOAD.search(low[max(0, match.start() - 400) : match.start()]):
            yield Candidate(match.start(), match.end(), firm=True)


def raw_host_download(screened: ScreenedText) -> Iterator[Candidate]:
    """Fetches from an address without a name, a drop or a shortener; not of an API, and not from private networks."""
    low = screened.low
    for match in _HOST.finditer(low):
        if match["ip"] and not _is_public(match["ip"]):
            continue
        start = max(screened.command_start(match.start()), match.start() - 300)
        before = low[start : match.start()]
        after = low[match.end() : min(screened.command_end(match.end()), match.end() + 160)]
        fetch = _FETCH.search(before)
        command = before[fetch.start() :] + match[0] + after if fetch else ""
        is_fetched = bool(fetch) and not _UPLOAD.search(command)
        is_asked = not fetch and bool(_ASKED.search(before[-100:] + after[:60]))
        if match["ip"]:
            is_fetched = is_fetched and bool(_FILE.search(match[0]) or _SAVED.search(command))
            is_asked = is_asked and bool(_FILE.search(match[0]))
        if is_fetched:
            yield Candidate(start + fetch.start() if fetch else match.start(), match.end())
        elif is_asked:
            yield Candidate(match.start(), match.end())


def _is_public(address: str) -> bool:
    """Whether it is an address outside private, local and reserved networks; documentation networks count."""
    try:
        parsed = IPv4Address(address)
    except ValueError:
        return False
    return not any(parsed in network for network in _PRIVATE)
