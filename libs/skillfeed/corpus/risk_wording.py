"""Words that turn an agent against its user, and characters that a person does not see but a model reads."""

import re
from collections.abc import Iterator

from skillfeed.corpus.risk_text import Candidate, ScreenedText

_RULES = (
    r"(?:instructions?|prompts?|rules?|guidelines?|directives?|guardrails?|policies|policy|constraints"
    r"|restrictions|orders|programming"
    r"|safety|safeguards)\b"
)
_FILLER = (
    r"(?:(?:all|any|every|the|of|these|those|and|or|other|default|core|original|existing|current|system"
    r"|given|initial|user|content|ethical)\s+){0,5}"
)
_PERSON = r"(?:the |your |this |any )?(?:user|human|operator|owner)s?\b"
_NOT = r"(?:do not|don['’]t|never)\s+(?:ever\s+)?"

# What an instruction begins with, and its form.
_OVERRIDES: tuple[tuple[tuple[str, ...], re.Pattern[str]], ...] = tuple(
    (tuple(openers.split("|")), re.compile(r"(?<![a-z])(?:" + pattern + ")"))
    for openers, pattern in [
        # the earlier rules, the agent's own, or those of safety; not "ignore lint rules"
        (
            "ignor|disregard|forget|overrid|bypass|discard|overrule|circumvent",
            r"(?:ignor(?:e|ing)|disregard(?:ing)?|forget(?:ting)?|overrid(?:e|es|ing)|bypass(?:ing)?|discard"
            r"|overrule|circumvent)\s+"
            rf"{_FILLER}(?:previous(?:ly)?|prior|above|earlier|preceding|foregoing|your|safety|developer(?:'s)?"
            rf"|its|claude's)\s+{_FILLER}"
            rf"(?:(?:safety|security|earlier|previous|prior|given|own|internal|built-in|content"
            rf"|ethical)\s+){{0,2}}{_RULES}",
        ),
        (
            "ignore|disregard|forget",
            r"(?:ignore|disregard|forget)\s+(?:all\s+)?(?:the\s+|your\s+)?(?:system (?:prompt|message|instructions)"
            r"|everything (?:above|before|you were told|you have been told))",
        ),
        (
            "you are n",
            r"you are (?:now|no longer)\s+(?:dan\b|unrestricted|jailbroken|uncensored|free (?:of|from)|bound by"
            r"|in (?:developer|god|dan) mode|an? (?:unrestricted|unfiltered|uncensored))",
        ),
        (
            "without|free of|free from|no ethical|no safety|no moral",
            r"(?:without|free of|free from|no)\s+(?:any\s+)?(?:ethical|safety|moral)\s+(?:restrictions|limits"
            r"|limitations|guidelines|filters)",
        ),
        (
            "disable|turn off|switch off|deactivate|remove|bypass|suspend",
            r"(?:disable|turn off|switch off|deactivate|remove|bypass|suspend)\s+(?:all\s+)?(?:of\s+)?"
            r"(?:your|the agent's|claude's|the model's|the assistant's)\s+(?:\w+\s+){0,2}"
            r"(?:safety|guardrails?|safeguards?|filters?|restrictions|confirmations?|approvals?"
            r"|permission (?:checks|prompts))",
        ),
        # hidden from the user
        (
            "do not|don't|don’t|never",
            rf"{_NOT}(?:tell|inform|notify|alert|warn)\s+{_PERSON}"
            r"(?=\s*(?:[.!,;)]|\Z|\n|about (?:this|these|it|any of (?:this|these)|the (?:upload|transfer|request"
            r"|command))\b|of (?:this|it)\b"
            r"|(?:that )?you (?:did|have done|are doing|ran|sent) (?:this|it|so)\b))",
        ),
        (
            "do not|don't|don’t|never",
            rf"{_NOT}(?:mention|reveal|disclose|report)\s+(?:any of )?(?:this|these)"
            rf"(?:\s+(?:step|steps|instructions?|commands?|action|section|rule|message|upload"
            rf"|request))?\s+to\s+(?:{_PERSON}|anyone\b)",
        ),
        (
            "without",
            r"without\s+(?:(?:the|your)\s+(?:user|human|operator|owner)(?:'s|’s|s)?|(?:user|owner)(?:'s|’s))"
            r"\s+(?:knowledge|knowing|noticing)",
        ),
        (
            "hide|conceal|keep",
            rf"(?:hide|conceal|keep)\s+(?:all of )?(?:this|these)\s+(?:\w+\s+)?(?:(?:hidden"
            rf"|secret)\s+)?from\s+{_PERSON}",
        ),
        (
            "user|human|operator",
            r"(?:user|human|operator)\s+(?:must|should|may)\s+(?:not|never)\s+(?:know|notice|find out|be told"
            r"|be informed|be aware|learn)"
            r"\s+(?:of|about|that|this)\b",
        ),
        ("system|admin|developer", r"(?:system|admin|developer)[ _-]override\s*[:\]]"),
        # Chinese, Spanish, German
        (
            "忽略|无视|忘记|忘掉|绕过|覆盖",
            r"(?<!可能)(?<!仍然)(?:忽略|无视|忘记|忘掉|绕过|覆盖)[^\s。，]{0,6}(?:之前|以上|前面|先前|此前|上述|你的)[^\s。，]{0,8}(?:指令|提示词|规则|指示)",
        ),
        (
            "不要|对用户|向用户",
            r"不要(?:告诉|告知|通知|让)用户(?:知道|发现|这|此|[。，,！]|\Z)|(?:对|向)用户(?:隐瞒|保密)",
        ),
        (
            "ignora|ignore|olvida|omite|desobedece",
            r"(?:ignora|ignore|olvida|omite|desobedece)r?\s+(?:todas?\s+)?(?:las|tus|los|sus)\s+"
            r"(?:instrucciones|reglas|indicaciones|restricciones)\s+(?:anteriores|previas|del sistema|de seguridad)",
        ),
        (
            "no le|no se|no digas|no informes|no menciones|no reveles|no cuentes|sin que",
            r"no\s+(?:le\s+|se lo\s+)?(?:digas|informes|menciones|reveles|cuentes)\s+(?:nada\s+"
            r"|esto\s+)?(?:de esto\s+)?(?:al|a la)\s+usuari[oa]"
            r"|sin que (?:el|la) usuari[oa] (?:lo )?(?:sepa|note|se entere)",
        ),
        (
            "ignorier|vergiss|missachte|umgehe",
            r"(?:ignoriere?|vergiss|missachte|umgehe)\s+(?:alle\s+)?(?:deine\s+)?"
            r"(?:vorherigen|bisherigen|obigen|vorigen|früheren|vorangegangenen"
            r"|deine)\s+(?:\w+\s+)?(?:anweisungen|regeln|vorgaben|instruktionen)",
        ),
        (
            "sag|verrate|teile|ohne",
            r"(?:sage?|verrate|teile)\s+(?:es\s+)?(?:dem|der)\s+(?:be)?nutzer(?:in)?\s+(?:davon\s+)?(?:nichts|nicht)"
            r"|ohne\s+(?:das\s+)?wissen\s+de[sr]\s+(?:be)?nutzer",
        ),
    ]
)

_TAGS = "\U000e0000-\U000e007f"
_FLAG = re.compile("\U0001f3f4[\U000e0020-\U000e007e]{1,8}\U000e007f")  # flags of regions, such as Scotland's
_ZERO_WIDTH = "\u200b-\u200d\u2060-\u2064\ufeff\u180e\u206a-\u206f"
_UNSEEN = re.compile(
    f"[{_TAGS}]+"
    f"|[{_ZERO_WIDTH}]{{4,}}"  # one joiner in emoji and Persian; runs of one kind carry nothing
    f"|(?:[A-Za-z][\u200b\u2060\ufeff]){{4,}}"  # a word broken up to pass filters
    "|[\ufe00-\ufe0f]{3,}|[\U000e0100-\U000e01ef]{2,}"  # selectors that carry bytes
    "|[\u202d\u202e]+"
)
_ANY = re.compile(f"[{_ZERO_WIDTH}{_TAGS}\ufe00-\ufe0f\u202a-\u202e\u2066-\u2069\U000e0100-\U000e01ef]")
_OPENERS = re.compile("[\u202b\u2066-\u2068]")  # not U+202A, which Windows puts before a copied path
_BIDI = re.compile("[\u202a\u202b\u2066-\u2069\u202c]")


def agent_override(screened: ScreenedText) -> Iterator[Candidate]:
    """Instructions to drop the agent's rules, to hide something from the user, or to switch safety off."""
    for openers, pattern in _OVERRIDES:
        for match in screened.matches(openers, pattern):
            yield Candidate(match.start(), match.end())


def hidden_unicode(screened: ScreenedText) -> Iterator[Candidate]:
    """Tag characters, zero-width runs, smuggled selectors, bidi overrides, and isolates left open. Always firm."""
    text = screened.text
    if text.isascii() or not _ANY.search(text):
        return
    flags = (
        {at for flag in _FLAG.finditer(text) for at in range(flag.start() + 1, flag.end())}
        if "\U000e007f" in text
        else set()
    )
    for match in _UNSEEN.finditer(text):
        is_filler = len(set(match[0])) == 1 and match[0][0] in "\u200b\u200c\u200d\u2060\ufeff"
        if match.start() not in flags and not is_filler:
            yield Candidate(match.start(), match.end(), firm=True)
    if _OPENERS.search(text):
        yield from _left_open(text)


def _left_open(text: str) -> Iterator[Candidate]:
    """Per line the first isolate or right-to-left embedding that nothing closes."""
    start = 0
    for line in text.splitlines(keepends=True):
        opened: list[int] = []
        for match in _BIDI.finditer(line):
            if match[0] in "\u202c\u2069":
                del opened[-1:]
            else:
                opened.append(match.start())
        unclosed = [at for at in opened if line[at] != "\u202a"]
        if unclosed:
            yield Candidate(start + unclosed[0], start + len(line.rstrip("\n")), firm=True)
        start += len(line)
