import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillfeed.corpus.credentials import redact

LETTERS = (
    "1gOeQK9J4uhtGYdTar2bPC3EvZwcksB5Dj6XxnLVA7FN0ISRH8UqfWipolMmyz"  # made up; no real credential is in this file
)


def made_up(length: int) -> str:
    return (LETTERS * 4)[:length]


PEM = "\n".join(LETTERS[:62] + "+/" for _ in range(6))

SECRETS = [
    ("openai_key", "sk-" + made_up(48)),
    ("openai_key", "sk-proj-" + made_up(100)),
    ("anthropic_key", "sk-ant-api03-" + made_up(90)),
    ("aws_access_key", "AKIA" + "Q7ZP3KXW9MTR2LVB"),
    ("github_token", "ghp_" + made_up(36)),
    ("github_fine_token", "github_pat_" + made_up(82)),
    ("gitlab_token", "glpat-" + made_up(20)),
    ("slack_token", "xoxb-" + "739184620571-" + made_up(24)),
    ("stripe_key", "sk_" + "live_" + made_up(24)),
    ("google_key", "AIza" + made_up(35)),
    ("huggingface_token", "hf_" + made_up(34)),
    ("npm_token", "npm_" + made_up(36)),
    ("sendgrid_key", "SG." + made_up(22) + "." + made_up(43)),
    ("jwt", "eyJ" + made_up(30) + ".eyJ" + made_up(60) + "." + made_up(43)),
    ("private_key", f"-----BEGIN RSA PRIVATE KEY-----\n{PEM}\n-----END RSA PRIVATE KEY-----"),
    ("private_key", f"-----BEGIN PRIVATE KEY-----\n{PEM}"),
    ("private_key", "-----BEGIN PRIVATE KEY-----\\n" + PEM.replace("\n", "\\n") + "\\n-----END PRIVATE KEY-----"),
]


@pytest.mark.parametrize(("kind", "secret"), SECRETS)
def test_a_credential_is_replaced_and_counted_by_kind(kind: str, secret: str) -> None:
    text, counts = redact(f"Run this:\nexport KEY={secret}\nThen go on. Again: `{secret}`")
    assert text == f"Run this:\nexport KEY=[REDACTED:{kind}]\nThen go on. Again: `[REDACTED:{kind}]`"
    assert counts == {kind: 2}


def test_only_the_secret_goes_where_its_context_gave_it_away() -> None:
    url, value = "postgres://app:1gOe-QK9J4uhtG@db.internal/x", f'"aws_secret_access_key": "{made_up(40)}"'
    telegram = "https://api.telegram.org/bot4839201756:AA" + made_up(33) + "/getMe"
    assert redact(url)[0] == "postgres://app:[REDACTED:url_password]@db.internal/x"
    assert redact(value)[0] == '"aws_secret_access_key": "[REDACTED:secret_value]"'
    assert redact(telegram)[0] == "https://api.telegram.org/bot[REDACTED:telegram_token]/getMe"


@pytest.mark.parametrize(
    "text",
    [
        "export OPENAI_API_KEY=YOUR_API_KEY",
        "export OPENAI_API_KEY=sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "export OPENAI_API_KEY=sk-your-key-goes-here-and-nowhere-else-please",
        "AKIAIOSFODNN7EXAMPLE and wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "token: process.env.MY_SERVICE_TOKEN_NUMBER_2",
        "key: order-confirmation-2024-03-17-v2",
        "key: 123e4567-e89b-12d3-a456-426614174000",
        "password: correct horse battery staple",
        "postgres://postgres:password@localhost/app",
        "https://user:${DB_PASSWORD}@host/x",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nThe key is a long run of letters that you paste between these two lines.",
        "-----BEGIN PUBLIC KEY-----\n" + PEM + "\n-----END PUBLIC KEY-----",
        "task-1gOeQK9J4uhtGYdTar2bPC3EvZwcksB5Dj6XxnLVA7FN0ISRH8",
        "sha256-" + "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "[REDACTED:openai_key] and [REDACTED]",
    ],
)
def test_placeholders_and_ordinary_text_stay(text: str) -> None:
    assert redact(text) == (text, {})


@pytest.mark.parametrize(
    "piece",
    [
        "-----BEGIN PRIVATE KEY-----\n",
        "-----BEGIN PRIVATE KEY-----" + "A" * 15_900,
        "-----BEGIN ",
        "eyJ-",
        "eyJaaaaaaaaaaaaa.",
        "://a:",
        "://aaaaaaaaaaaaaaaaaaaaaaaaaa",
        "key=",
        "token: token: ",
        "key" + "=" * 50,
        "sk-",
        "xoxb-1",
        "A",
        "a1",
        "\\n",
        " ",
        "github_pat_",
        "bot1234567890:AA",
    ],
)
def test_400_kb_of_hostile_text_take_less_than_a_second(piece: str) -> None:
    text = (piece * (400_000 // len(piece) + 1))[:400_000]
    started = time.perf_counter()
    redact(text)
    assert time.perf_counter() - started < 1


@given(st.lists(st.one_of(st.sampled_from([secret for _, secret in SECRETS]), st.text(max_size=30)), max_size=8))
def test_redacting_twice_changes_nothing_more(parts: list[str]) -> None:
    once, _ = redact(" ".join(parts))
    assert redact(once) == (once, {})
