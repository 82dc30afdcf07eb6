"""What in a skill could harm the one who follows it: codes, and the span that earned each.

Promises: pure, never raises, linear in the text. A screen, not a scanner: it finds what public skills have been seen
to do, in the forms it knows (docs/risks.md has what it misses). Own patterns, because yara and semgrep rules match an
attack and its description alike; here the prose around a span counts (`risk_context`).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Literal

from skillfeed.corpus.credentials import redact
from skillfeed.corpus.risk_commands import encoded_code, piped_remote_code
from skillfeed.corpus.risk_context import is_discussed
from skillfeed.corpus.risk_downloads import password_protected_download, raw_host_download
from skillfeed.corpus.risk_secrets import credential_harvesting, secret_pasting
from skillfeed.corpus.risk_text import Candidate, ScreenedText
from skillfeed.corpus.risk_wording import agent_override, hidden_unicode
from skillfeed.records import Risk, RiskCode

RiskAction = Literal["keep", "unrouted", "reject"]

# What ingestion does with a skill by the gravest action among its codes. `unrouted`: in the skill table, in no index.
DEFAULT_ACTIONS: Mapping[RiskCode, RiskAction] = {
    "piped_remote_code": "keep",  # of those read on real skills nearly all were authors' own installers over https
    "encoded_code": "unrouted",
    "password_protected_download": "unrouted",
    "raw_host_download": "unrouted",
    "credential_harvesting": "unrouted",
    "hidden_unicode": "unrouted",
    "agent_override": "unrouted",
    "secret_pasting": "keep",
}

MAX_OF_A_CODE = 5  # spans reported of each code in a text
EXCERPT = 160  # characters

# Code: literals of which one is in every match, so that most texts are done after fast substring searches, and finder.
_FINDERS: Mapping[RiskCode, tuple[tuple[str, ...], Callable[[ScreenedText], Iterator[Candidate]]]] = {
    "piped_remote_code": (
        ("curl", "wget", "iwr", "irm", "invoke-", "downloadstring", "exec(", "eval("),
        piped_remote_code,
    ),
    "encoded_code": (
        (
            "base64",
            "xxd",
            "atob",
            "\\x",
            "fromhex",
            "decode",
            "decompress",
            "fromcharcode",
            "powershell",
            "pwsh",
            "| rev",
            "inflate",
        ),
        encoded_code,
    ),
    "password_protected_download": (
        ("pass", "pwd", "contraseña", "kennwort", "密码", "解压", "密碼", "-p", "openssl"),
        password_protected_download,
    ),
    "raw_host_download": (("http",), raw_host_download),
    "credential_harvesting": (
        (
            "send",
            "upload",
            "post",
            "curl",
            "wget",
            "exfil",
            "forward",
            "submit",
            "mail",
            "leak",
            "nc ",
            "ncat",
            "socat",
            "/dev/tcp",
            "transmit",
            "report",
            "发",
            "上传",
            "envía",
            "enviar",
            "sube",
            "schick",
            "urlopen",
            "fetch(",
            "http.client",
            "smtplib",
        ),
        credential_harvesting,
    ),
    "hidden_unicode": ((), hidden_unicode),
    "agent_override": (
        (
            "ignor",
            "disregard",
            "forget",
            "overrid",
            "bypass",
            "discard",
            "overrule",
            "circumvent",
            "you are no",
            "safety",
            "ethical",
            "moral",
            "disable",
            "turn off",
            "switch off",
            "deactivate",
            "remove",
            "suspend",
            "user",
            "human",
            "operator",
            "owner",
            "忽略",
            "无视",
            "忘",
            "绕过",
            "覆盖",
            "用户",
            "olvida",
            "omite",
            "usuari",
            "vergiss",
            "missachte",
            "umgehe",
            "nutzer",
            "desobedece",
            "to anyone",
        ),
        agent_override,
    ),
    "secret_pasting": (
        (
            "paste",
            "enter",
            "type",
            "send",
            "share",
            "provide",
            "submit",
            "reply",
            "drop",
            "dm ",
            "message",
            "post",
            "give",
            "put",
            "pega",
            "pegue",
            "envía",
            "escribe",
            "introduce",
            "comparte",
            "füge",
            "gib",
            "schick",
            "kopier",
            "http",
            "粘贴",
            "发",
            "输入",
            "提供",
            "填",
        ),
        secret_pasting,
    ),
}


def screen(text: str, field: Literal["name", "description", "body"] = "body", about: str = "") -> list[Risk]:
    """The risks in a text by position; at most five spans of a code, those of a code never overlapping.

    Args:
        field: which field of a skill the text is; `start` and `end` count its characters.
        about: what the text is about, such as the skill's name and description: quoted attacks in a skill about
            security are taken for examples.
    """
    screened = ScreenedText(text, about.lower())
    risks = [
        Risk(code=code, field=field, start=found.start, end=found.end, excerpt=_excerpt(text, found))
        for code, (literals, find) in _FINDERS.items()
        if not literals or any(literal in screened.low for literal in literals)
        for found in islice(_confirmed(screened, code, find), MAX_OF_A_CODE)
    ]
    return sorted(risks, key=lambda risk: (risk.start, risk.end, risk.code))


def screen_skill(name: str, description: str, body: str) -> tuple[Risk, ...]:
    """The risks in the three texts of a skill: those of the name first, then of the description and the body."""
    about = f"{name}\n{description}"
    return (
        *screen(name, "name", about),
        *screen(description, "description", about),
        *screen(body, "body", about),
    )


def gravest(risks: tuple[Risk, ...], actions: Mapping[RiskCode, RiskAction]) -> RiskAction:
    """What to do with a skill that has these risks; `keep` where there are none. A code without an action is kept."""
    order: tuple[RiskAction, ...] = ("keep", "unrouted", "reject")
    return max((actions.get(risk.code, "keep") for risk in risks), key=order.index, default="keep")


def _confirmed(
    screened: ScreenedText, code: RiskCode, find: Callable[[ScreenedText], Iterator[Candidate]]
) -> Iterator[Candidate]:
    spans: list[Candidate] = []
    for found in find(screened):
        if any(found.start < other.end and other.start < found.end for other in spans):
            continue
        if found.firm or not is_discussed(screened, found, to_agent=code == "agent_override"):
            spans.append(found)
            yield found


_UNSEEN = re.compile("[\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e01ef]")


def _excerpt(text: str, found: Candidate) -> str:
    """The span on one line, without credentials, unseen characters as escapes, at most EXCERPT characters."""
    # Redacted with what follows, so that no part of a credential that the span's end cuts is shown.
    whole = redact(text[found.start : min(found.end, found.start + EXCERPT) + 400])[0]
    line = " ".join(whole[: found.end - found.start].split())
    return _UNSEEN.sub(lambda match: match[0].encode("unicode_escape").decode(), line)[:EXCERPT]
