"""Whether the words around a span warn of it, look for it or teach about it instead of asking for it.

Literal words, not expressions: a text of 400 KB made of candidates stays linear. A determined author can word around
this, so it is never asked about encoded code, archives with passwords and hidden characters.
"""

import re

from skillfeed.corpus.risk_text import Candidate, ScreenedText

# Words that make the line, what introduces it or the heading a discussion.
_DISCUSSED = tuple(
    """
detect|malicious|attack|injection|exploit|suspicious|red flag|indicator of|untrusted|adversar|jailbreak|malware|phishing
anti-pattern|antipattern|vulnerab|insecure|unsafe|dangerous|not recommended|discourag|forbidden|prohibited|blocked
block |deny|refuse|reject|❌|🚫|⛔|✗|yara|sigma rule|semgrep|honeypot|red team|red-team|redteam|threat|supply chain
supply-chain|hostile|compromis|ioc|flag any|flag if|flag it|flagged|flags |what not to do|don'ts|bad example|bad:
# bad|wrong:|never do|poison|tamper|social engineering|guardrail|untrustworthy|scam|critical finding|risk pattern
grep -|rg -|regex|if you see|if you find|look for|watch for|check for|scan for|attempts to|tries to|smuggl|steganograph
gefährlich|bösartig|angriff|angreif|schadcode|erkenn|verdächtig|malicios|ataque|inyección|detecta|sospechos|peligros
攻击|恶意|检测|注入|可疑|危险|钓鱼|识别|越狱|风险|不可信|怀疑|绝不允许|泄露|injected|tell a model|vetting
""".strip()
    .replace("\n", "|")
    .split("|")
)

# Words that forbid what follows them in the same sentence.
_NEGATED = tuple(
    """
never |do not |don't |don’t |must not |mustn't |should not |shouldn't |cannot |can't |avoid |refuse |instead of
rather than |no need to |nunca |jamás |no debes |evita |niemals |nicht |nie |keine |vermeide |不要|切勿|禁止|绝不|请勿
不得|避免|不应|not to |won't |will not |without ever |at no point |no one should |nobody should
""".strip()
    .replace("\n", "|")
    .split("|")
)
# Before an instruction to an agent a bare negation proves little: "never tell anyone, and ignore …".
_DISOBEY = tuple(
    """
never follow|not follow|never obey|not obey|not comply|never comply|not act on|never act on|never trust|not trust
never let|not let|not accept|ignore any|ignore requests|ignore attempts|resist|such as|e.g.|phrases like|text like
instructions like|says |saying |asks you to|asking you to|telling you to|does it |tells you to
tell you to|contains|containing
for instance|claims|not allowed to|even if|regardless of|decline|stop and report|report it|treat
""".strip()
    .replace("\n", "|")
    .split("|")
)
_NOT_DIRECTLY = re.compile(
    r"(?:never|not|n['’]t|cannot|without|avoid|refuse to|nicht|nie(?:mals)?|nunca|no)\s+(?:\w+\s+){0,2}\Z|(?:不要"
    r"|切勿|禁止|绝不|请勿|不得|不能)\S{0,4}\Z"
)
_SENTENCE_END = re.compile(r"[.!?;:]\s|[。！？；\n]")

_SECURITY = (
    "security",
    "prompt injection",
    "injection",
    "malware",
    "red team",
    "pentest",
    "penetration test",
    "threat",
    "vulnerab",
    "attack",
    "exploit",
    "forensic",
    "incident response",
    "guardrail",
    "jailbreak",
    "phishing",
    "scanner",
    "adversarial",
    "ctf",
    "安全",
    "攻击",
    "恶意",
)
_QUOTES = "`\"'“”‘’«»「」『』|>"


def is_discussed(screened: ScreenedText, found: Candidate, *, to_agent: bool) -> bool:
    """Whether the surroundings take a span back. `to_agent`: it speaks to an agent, so that negations count less."""
    low = screened.low
    line_start = max(screened.line_start(found.start), found.start - 300)
    before = low[line_start : found.start]
    after = low[found.end : min(screened.line_end(found.end), found.end + 200)]
    lead = screened.lead(found.start)[-300:]
    if to_agent:  # prose wraps: the paragraph so far
        before = low[max(0, found.start - 250) : found.start].rpartition("\n\n")[2]
    around = "\n".join((before, after, lead, screened.heading(found.start)))
    if any(word in around for word in _DISCUSSED) or before.lstrip(" -*>0123456789.").startswith(("flag ", "block ")):
        return True
    if to_agent:
        if (
            before.endswith(tuple("\"'“‘„«「"))
            or _NOT_DIRECTLY.search(before[-40:])
            or any(word in before[-140:] + lead for word in _DISOBEY)
        ):
            return True
    elif any(word in _last_sentence(before) + _last_sentence(lead) for word in _NEGATED) or any(
        word in low[found.start : found.end] for word in ("niemals ", "nicht ", " nie ")
    ):
        return True
    return _is_quoted(screened, found) and any(word in screened.about for word in _SECURITY)


def _last_sentence(text: str) -> str:
    return _SENTENCE_END.split(text.rstrip(" :`*\t"))[-1] + " "


def _is_quoted(screened: ScreenedText, found: Candidate) -> bool:
    """In a fence, in quotes, or in a list or table."""
    line_start = screened.line_start(found.start)
    before = screened.low[max(line_start, found.start - 300) : found.start]
    return (
        screened.fence(found.start) is not None
        or any(quote in before for quote in _QUOTES)
        or before.lstrip().startswith(("-", "*", "+", "|", ">"))
    )
