"""Replaces keys, tokens and private keys in a text by `[REDACTED:kind]`, and leaves placeholders alone.

Own patterns, because: detect-secrets 1.5.0 scans files line by line through 27 plugins, finds no key that spans lines,
imports an HTTP client to verify what it finds, and has no redaction; trufflehog and gitleaks are Go programs. Formats
follow the issuers' documentation. Repetitions are bounded or possessive, so the time is linear in the text.
"""

import math
import re
from collections import Counter
from functools import partial

_PEM_NAME = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"

# Kind: literals of which one is in every match, so that most texts are done after fast substring searches (3.7 x one
# combined expression), and the expression. Where it has a group, only the group is the secret. The more special come
# first: what is replaced by one is not seen by the next.
_KINDS: dict[str, tuple[tuple[str, ...], re.Pattern[str]]] = {
    kind: (literals, re.compile(pattern))
    for kind, literals, pattern in [
        (
            "private_key",
            ("PRIVATE KEY",),
            rf"-----BEGIN {_PEM_NAME}(?:(?:[^-]|-(?!----)){{0,16000}}+-----END {_PEM_NAME}"
            r"|(?:(?:\s|\\n)*[A-Za-z0-9+/=]{40,80})+)",  # or cut off before its end
        ),
        ("anthropic_key", ("sk-ant-",), r"\bsk-ant-[A-Za-z0-9_-]{32,200}+"),
        ("openai_key", ("sk-",), r"\bsk-[A-Za-z0-9_-]{32,200}+"),
        ("stripe_key", ("k_live_", "k_test_"), r"\b[sr]k_(?:live|test)_[A-Za-z0-9]{20,200}+"),
        ("github_token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"\bgh[pousr]_[A-Za-z0-9]{36,255}+"),
        ("github_fine_token", ("github_pat_",), r"\bgithub_pat_[A-Za-z0-9_]{50,255}+"),
        ("gitlab_token", ("glpat-",), r"\bglpat-[A-Za-z0-9_-]{20,64}+"),
        ("slack_token", ("xox",), r"\bxox[abeoprs]-[A-Za-z0-9-]{20,250}+"),
        (
            "slack_webhook",
            ("hooks.slack.com",),
            r"hooks\.slack\.com/services/(T[A-Za-z0-9]{6,12}/B[A-Za-z0-9]{6,12}/[A-Za-z0-9]{20,32}+)",
        ),
        ("discord_webhook", ("/api/webhooks/",), r"/api/webhooks/([0-9]{15,21}/[A-Za-z0-9_-]{50,100}+)"),
        ("aws_access_key", ("AKIA", "ASIA"), r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
        ("google_key", ("AIza",), r"\bAIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"),
        ("google_token", ("ya29.",), r"\bya29\.[A-Za-z0-9_-]{40,300}+"),
        ("huggingface_token", ("hf_",), r"\bhf_[A-Za-z0-9]{30,60}+"),
        ("npm_token", ("npm_",), r"\bnpm_[A-Za-z0-9]{36}\b"),
        ("pypi_token", ("pypi-AgE",), r"\bpypi-AgE[A-Za-z0-9_-]{50,300}+"),
        ("sendgrid_key", ("SG.",), r"\bSG\.[A-Za-z0-9_-]{20,24}\.[A-Za-z0-9_-]{39,50}+"),
        (
            "jwt",
            (".eyJ",),
            r"(?<![\w-])eyJ[A-Za-z0-9_-]{10,2000}+\.eyJ[A-Za-z0-9_-]{10,4000}+\.[A-Za-z0-9_-]{20,1000}+",
        ),
        ("telegram_token", (":AA",), r"(?<![0-9])([0-9]{8,10}:AA[A-Za-z0-9_-]{33})(?![\w-])"),
        ("url_password", ("://",), r"://[A-Za-z0-9_.-]{0,64}:([^\s:/@\"'`<>{}$]{8,128})@[A-Za-z0-9]"),
        ("secret_value", ("=", ":"), r"[=:]>?[ \t]{0,3}[\"'`]?([A-Za-z0-9+/_=~-]{20,256}+)(?![\w.(\[{$/+-])"),
    ]
}

# What stands before a `secret_value`.
_SECRET_NAME = re.compile(r"(?:key|token|secret|passwd|password|pwd)[\"'\]]{0,2}[ \t]{0,3}[=:]?\Z", re.IGNORECASE)

_PLACEHOLDER = re.compile(
    r"example|your|placeholder|change-?_?me|dummy|sample|redacted|replace|insert|fake|mock|secret|password|passw0rd"
    r"|token|test|demo|xxx|\*\*\*|\.\.\.|1234|abcd|0000|1111|_here|-here|todo|hunter2|(.)\1\1\1\1",
    re.IGNORECASE,
)

# Bits per character. Random base64 of 20 characters has about 3.9, random hex of 32 about 3.6; words and slugs of that
# length reach 3.5, so a value found only by the name before it also needs digits among its letters.
_MIN_ENTROPY = 3.0
_MIN_ENTROPY_OF_VALUE = 3.5


def redact(text: str) -> tuple[str, dict[str, int]]:
    """The text without credentials, and how many of each kind were taken out (kinds not found are absent)."""
    counts: Counter[str] = Counter()
    for kind, (literals, pattern) in _KINDS.items():
        if any(literal in text for literal in literals):
            text = pattern.sub(partial(_replaced, kind=kind, counts=counts), text)
    return text, dict(counts)


def _replaced(match: re.Match[str], *, kind: str, counts: Counter[str]) -> str:
    group = match.re.groups
    before = match.string[max(0, match.start() - 20) : match.start()]
    if not _is_real(kind, match[group], before):
        return match[0]
    counts[kind] += 1
    start, end = match.start(group) - match.start(), match.end(group) - match.start()
    return f"{match[0][:start]}[REDACTED:{kind}]{match[0][end:]}"


def _is_real(kind: str, secret: str, before: str) -> bool:
    if kind == "private_key":
        runs = re.findall(r"[A-Za-z0-9+/=]{40,}", secret)
        return bool(runs) and entropy(runs[0]) > _MIN_ENTROPY
    if kind == "secret_value" and not _SECRET_NAME.search(before):
        return False
    value = secret.replace("_test_", "", 1)
    if _PLACEHOLDER.search(value):
        return False
    if kind == "secret_value":
        digits = sum(character.isdigit() for character in value)
        letters = sum(character.isalpha() for character in value)
        unbroken = max(map(len, re.split(r"[-_]", value)))  # slugs and UUIDs (12) are made of short pieces
        return unbroken >= 16 and digits >= 3 and letters >= 3 and entropy(value) >= _MIN_ENTROPY_OF_VALUE
    if kind == "url_password":
        return any(character.isdigit() for character in value) and entropy(value) >= 2.5
    return any(character.isdigit() for character in value) and entropy(value) >= _MIN_ENTROPY


def entropy(text: str) -> float:
    """Shannon entropy in bits per character; 0.0 for an empty text."""
    return -sum(n / len(text) * math.log2(n / len(text)) for n in Counter(text).values()) if text else 0.0
