"""Secrets that are to leave the machine: files read and sent by commands or code, and people asked to paste them."""

import re
from collections.abc import Iterator

from skillfeed.corpus.risk_text import Candidate, ScreenedText

_SECRET_FILE = re.compile(
    r"\.ssh\b(?:/[\w*.]{1,40})?|\bid_(?:rsa|ed25519|ecdsa)\b(?:\.pub)?|\.aws/credentials|(?<=[/\s~])\.netrc\b"
    r"|\.git-credentials"
    r"|\.docker/config\.json|\.kube/config|\.config/gcloud|\.gnupg\b|(?<![\w)\]])\.env\b(?!\.(?:example|sample"
    r"|template)|\()"
    r"|\blogin data\b|cookies\.sqlite|logins\.json|key4\.db|\buser data[/\\]default|\bwallet\.dat"
    r"|login\.keychain|dump-keychain"
    r"|find-(?:generic|internet)-password|169\.254\.169\.254|metadata\.google\.internal|/etc/shadow|\bprintenv\b"
    r"|\bprocess\.env(?![\w.\[])|\bos\.environ(?![\w.\[])|\$\(env\)|`env`|\benv[ \t]*\|"
    r"|(?P<word>\b(?:browser|chrome|firefox|saved) (?:profiles?|passwords?|cookies|logins)\b|\bkeychains?\b"
    r"|\bssh keys?\b"
    r"|\bprivate keys?\b|\benvironment variables\b|\bapi keys?\b|\bcredentials\b|\bpasswords?\b"
    r"|\bwallet (?:files?|keys?)\b"
    r"|\b(?:access )?tokens?\b|\bseed phrases?\b|环境变量|私钥|密钥|凭证|浏览器密码"
    r"|umgebungsvariablen|zugangsdaten|credenciales"
    r"|variables de entorno|claves ssh|ssh-schlüssel)"
)
_SECRET_OPENERS = (
    ".ssh",
    "id_rsa",
    "id_ed25519",
    "id_ecdsa",
    ".aws/cred",
    ".netrc",
    ".git-cred",
    ".docker/",
    ".kube/",
    ".config/gcloud",
    ".gnupg",
    ".env",
    "env |",
    "env|",
    "login data",
    "cookies.sqlite",
    "logins.json",
    "key4.db",
    "user data",
    "wallet",
    "login.keychain",
    "dump-keychain",
    "find-generic",
    "find-internet",
    "169.254",
    "metadata.google",
    "/etc/shadow",
    "printenv",
    "process.env",
    "os.environ",
    "$(env)",
    "`env`",
    "browser ",
    "chrome ",
    "firefox ",
    "saved ",
    "keychain",
    "ssh key",
    "private key",
    "environment variables",
    "api key",
    "credentials",
    "password",
    "access token",
    "token",
    "seed phrase",
    "环境变量",
    "私钥",
    "密钥",
    "凭证",
    "浏览器密码",
    "umgebungsvariablen",
    "zugangsdaten",
    "credenciales",
    "variables de entorno",
    "claves ssh",
    "ssh-schlüssel",
)
_SENDS = [
    "send",
    "upload",
    "post",
    "transmit",
    "exfil",
    "forward",
    "submit",
    "mail",
    "leak",
    "report",
    "sende",
    "schick",
    "enví",
    "enviar",
    "sube",
    "发送",
    "上传",
    "发到",
    "发给",
    "curl",
    "wget",
    "nc ",
    "ncat",
    "invoke-",
    "fetch",
    "requests.",
    "socat",
]
_UPLOADED = re.compile(
    r"(?:@|\$\([ \t]*(?:cat|base64|head|tail|<)[^)|]{0,60}|\$\(<[ \t]*|--upload-file[ \t]+|-t[ \t]+"
    r"|--post-file[= \t])[\"']?[~\w/.${}\\%*-]{0,60}\Z"
)
_NET_COMMAND = re.compile(r"(?<![\w./-])(?:curl|wget|nc|ncat|socat|invoke-webrequest|invoke-restmethod|iwr|irm)\b")
_READ_CALL = re.compile(
    r"(?:open|readfile|readfilesync|read_text|read_bytes|path|expanduser|join|read)[ \t]*\([^\n]{0,80}\Z"
)
_SEND_CALL = re.compile(
    r"requests\.post\(|httpx\.post\(|urlopen\(|axios\.post\(|\bfetch\([^\n]{0,160}post|/dev/tcp/|smtplib"
    r"|http\.client|\.sendall\("
)
_WHOLE_ENV = re.compile(
    r"(?:json\.stringify|dict|json\.dumps|str|json[ \t]*=|data[ \t]*=|body[ \t]*[:=])[ \t]*\(?(?:dict\()?\Z"
)
_READ = re.compile(
    r"\b(?:read|collect|gather|copy|grab|harvest|steal|extract|dump|find|locate|cat|search for|scan for|take"
    r"|retrieve|lies|lese|sammle|lee|recopila|obtén|copia)\b"
    r"|读取|收集|复制"
)
_SEND = re.compile(
    r"\b(?:send|upload|post|transmit|exfiltrate|forward|submit|e-?mail|leak|report|sende?|schicke?|envía\w*"
    r"|enviar|sube)\b|发送|上传|发到|发给"
)
_ABROAD = re.compile(
    r"https?://(?!localhost|127\.)|\bwebhook|\b(?:remote|our|my|external|collection|following|this) (?:server"
    r"|endpoint|host|address)|\bnc \S+ \d|服务器"
)

_SECRET_WORD = re.compile(
    r"\b(?:api[- ]?keys?|api[- ]?schlüssel|access tokens?|auth(?:entication)? tokens?|passwords?|passwort"
    r"|contraseña|clave (?:api|privada)|"
    r"frase semilla|seed[- ]?phrases?|(?:secret )?recovery phrases?|mnemonics?(?: phrases?)?|private keys?"
    r"|secret keys?|credentials|login data|zugangsdaten|"
    r"one-time codes?|2fa codes?|session cookies?|card numbers?)\b|api ?密钥|密码|助记词|私钥|密钥|令牌"
)
_GIVE = re.compile(
    r"\b(?:paste|enter|type|send|share|provide|submit|reply with|drop|dm|message|give|put|pega|pegue|envía|envíe"
    r"|escribe|introduce|comparte|"
    r"füge|gib|sende|schicke?|kopiere)\b|粘贴|发送|输入|提供|发给|填入"
)
_GIVEN_AFTER = re.compile(r"\S{0,3}(?:发送|粘贴|发给|发到|输入|填入)")  # 把你的密码发到…
_WHOSE = re.compile(
    r"\b(?:your|their|his|her|the user'?s?|users?|tu|su|dein\w*|ihr\w*|full|complete|12|24)\b"
    r"|(?:你|您|用户)的|把你|请把"
)
_INTO_CHAT = re.compile(
    r"\b(?:in|into|to|in to|via|through|over|en|al?|por|in den|in die|im|ins|an)[ \t]+(?:the |this |our |a |el "
    r"|la |este |nuestro |den |die |das |unseren? )?"
    r"(?:\w+ )?(?:chat|messages?|conversation|thread|reply|dm|bot|support|channel|e-?mail|comment|issue|ticket"
    r"|url|link|form|web ?form|query string|address bar|mensaje|enlace|formulario|"
    r"nachricht|formular)\b|\bright here\b|\bhere\b(?! are| is)|\b(?:to|at|on|into|in|en|unter|auf) (?:<"
    r"|\()?https?://|in (?:the )?chat\b|聊天|对话|消息|链接|网址|群|回复|表单"
)
_SECRET_URL = re.compile(
    r"https?://[^\s\"'`<>]{1,200}[?&](?:password|passwd|pwd|seed_phrase|mnemonic|private_?key|recovery)=(?:your"
    r"|<|\{|\$|\[|user)"
)


def credential_harvesting(screened: ScreenedText) -> Iterator[Candidate]:
    """Secrets read from their place and sent away, in one command, one piece of code or one sentence."""
    low = screened.low
    for match in screened.matches(_SECRET_OPENERS, _SECRET_FILE):
        if match[0].endswith(".pub") or low.startswith(".pub", match.end()):
            continue
        line_start, line_end = screened.command_start(match.start()), screened.command_end(match.end())
        before = low[max(line_start, match.start() - 160) : match.start()]
        after = low[match.end() : min(line_end, match.end() + 240)]
        is_word = match["word"] is not None
        is_sent = any(word in before or word in after for word in _SENDS)
        if is_word and not is_sent:
            continue
        if not is_word and (
            (is_sent and (_is_piped(before, after, match[0]) or _is_uploaded(before, after)))
            or _is_sent_by_code(screened, match)
        ):
            yield Candidate(match.start() - len(before.lstrip()), match.end() + len(after))
        elif is_sent and _is_asked_for(before, after, is_word=is_word):
            yield Candidate(match.start(), match.end() + len(after))


def _is_piped(before: str, after: str, secret: str) -> bool:
    command = (secret[-1] + after).partition(";")[0]
    bar = command.find("|")
    return bar >= 0 and _NET_COMMAND.search(command, bar) is not None and not _is_identity(before)


def _is_identity(before: str) -> bool:
    """`-i ~/.ssh/key`: the key opens the connection and does not travel."""
    return before.rstrip("~/$home{}\"' ").endswith(
        ("-i", "identityfile", "--env-file", "--env-file=", "source", "--netrc-file")
    )


def _is_uploaded(before: str, after: str) -> bool:
    return (bool(_UPLOADED.search(before)) and bool(_NET_COMMAND.search(before))) or (
        bool(_WHOLE_ENV.search(before)) and bool(_SEND_CALL.search(before) or _SEND_CALL.search(after))
    )


def _is_sent_by_code(screened: ScreenedText, match: re.Match[str]) -> bool:
    line = screened.low[screened.line_start(match.start()) : match.start()]
    if match[0] == ".env" or not _READ_CALL.search(line[-120:]):
        return False
    return bool(_SEND_CALL.search(screened.low[max(0, match.start() - 200) : match.end() + 400]))


def _is_asked_for(before: str, after: str, *, is_word: bool) -> bool:
    """A sentence that says read and send; of a mere word such as `credentials` it must also say where to."""
    sentence_before, sentence_after = re.split(r"[.!?] |。", before)[-1], re.split(r"[.!?] |。", after)[0]
    sent = _SEND.search(sentence_after)
    if sent and _READ.search(sentence_before):
        return bool(_ABROAD.search(sentence_after[sent.end() :]))
    return bool(
        not is_word
        and _SEND.search(sentence_before[-80:])
        and _ABROAD.search(sentence_after[:120])
        and "curl" not in before
    )


def secret_pasting(screened: ScreenedText) -> Iterator[Candidate]:
    """A person asked to put a secret into a chat, a message, a form or a URL, where it is logged or stolen."""
    low = screened.low
    for match in _SECRET_WORD.finditer(low):
        before = low[max(screened.line_start(match.start()), match.start() - 70) : match.start()]
        sentence = re.split(r"[.!?;] |[。；，]", before)[-1]
        given = _GIVE.search(sentence) or (_GIVEN_AFTER.match(low, match.end()) and re.search("[把将]", sentence))
        if not given or not _WHOSE.search(sentence[given.start() - 2 if given.start() > 2 else 0 :]):
            continue
        after = re.split(r"[.!?;](?:\s|\Z)|[。；，\n]", low[match.end() : match.end() + 70])[0]
        into = _INTO_CHAT.search(after) or _INTO_CHAT.search(sentence[given.end() :])
        if into:
            yield Candidate(match.start() - len(sentence) + given.start(), match.end() + len(after))
    for match in _SECRET_URL.finditer(low):
        yield Candidate(match.start(), match.end())
