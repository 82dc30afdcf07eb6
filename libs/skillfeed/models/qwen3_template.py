"""What a Qwen3 reranker reads for a pair, as token ids; training and scoring share it.

Prefix and suffix are the model card's, token for token, and always whole; only the document is cut.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer

from skillfeed.errors import SettingError
from skillfeed.models.batching import head

PREFIX = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
)
SUFFIX = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"


def body_text(instruction: str, query: str, document: str) -> str:
    return f"<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {document}"


@dataclass(frozen=True)
class Qwen3Template:
    """Ready token ids of the fixed parts, and the tokenizer for what stands between them."""

    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    tokenizer: Tokenizer
    instruction: str
    max_tokens: int
    max_query_tokens: int

    def fixed_tokens(self) -> int:
        """Tokens of everything but query and document."""
        return len(self.prefix) + len(self.suffix) + len(_ids(self.tokenizer, body_text(self.instruction, "", "")))

    def input_ids(self, pairs: Sequence[tuple[str, str]]) -> list[list[int]]:
        """Token ids of each (query, document), at most max_tokens: the query cut to its limit, then the document."""
        room = self.max_tokens - len(self.prefix) - len(self.suffix)
        limit = self.max_query_tokens
        queries = {query: _first_tokens(self.tokenizer, query, limit) for query in {query for query, _ in pairs}}
        texts = [body_text(self.instruction, queries[query], head(document, room)) for query, document in pairs]
        # Tokenized as one text: the blank before the document belongs to its first word.
        bodies = self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return [[*self.prefix, *body.ids[:room], *self.suffix] for body in bodies]


def qwen3_template(tokenizer: Tokenizer, instruction: str, max_tokens: int, max_query_tokens: int) -> Qwen3Template:
    """The template for one tokenizer, which is left as it is.

    A document that contains `<|im_end|>` and the like is read as plain characters: a skill must not be able to end
    the user's turn and answer for the model.
    """
    own = Tokenizer.from_str(tokenizer.to_str())
    own.no_padding()
    own.no_truncation()
    prefix, suffix = (tuple(_ids(own, text)) for text in (PREFIX, SUFFIX))
    own.encode_special_tokens = True
    return Qwen3Template(prefix, suffix, own, instruction, max_tokens, max_query_tokens)


def yes_token(tokenizer: Tokenizer) -> int:
    """The id of `yes`.

    Raises:
        SettingError: the vocabulary has no such token.
    """
    token: int | None = tokenizer.token_to_id("yes")
    if token is None:
        raise SettingError("weights: the tokenizer has no token 'yes', so this is no generative reranker")
    return token


def _ids(tokenizer: Tokenizer, text: str) -> list[int]:
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
    return ids


def _first_tokens(tokenizer: Tokenizer, text: str, limit: int) -> str:
    """The text of the first tokens."""
    encoding = tokenizer.encode(text, add_special_tokens=False)
    return text if len(encoding.ids) <= limit else text[: encoding.offsets[limit - 1][1]]
