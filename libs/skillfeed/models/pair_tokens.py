"""How a cross-encoder reads a pair: [CLS] query [SEP] document [SEP], as its own tokenizer lays it out."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tokenizers import Tokenizer

from skillfeed.errors import SettingError
from skillfeed.models.batching import head
from skillfeed.settings import RerankerSettings

Ids = list[int]


@dataclass(frozen=True)
class PairLayout:
    """Special tokens around and between the two texts, and the type id of each of the five parts."""

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    type_ids: tuple[int, int, int, int, int]

    @property
    def special_tokens(self) -> int:
        return len(self.before) + len(self.between) + len(self.after)

    def join(self, query: Ids, document: Ids) -> tuple[Ids, Ids]:
        """Token ids and token type ids of the pair, of equal length."""
        parts = (self.before, query, self.between, document, self.after)
        token_ids = [token for part in parts for token in part]
        kinds = [kind for part, kind in zip(parts, self.type_ids, strict=True) for _ in part]
        return token_ids, kinds


def pair_layout(tokenizer: Tokenizer) -> PairLayout:
    """Read off what the tokenizer makes of a pair, so that BERT, RoBERTa and XLM-R need no case of their own."""
    encoding = tokenizer.encode("a", "a")
    sides = encoding.sequence_ids
    first, second = [[at for at, side in enumerate(sides) if side == wanted] for wanted in (0, 1)]
    cuts = [0, first[0], first[-1] + 1, second[0], second[-1] + 1, len(sides)]
    parts = [range(start, end) for start, end in pairwise(cuts)]
    before, _, between, _, after = (tuple(encoding.ids[at] for at in part) for part in parts)
    kinds = [encoding.type_ids[part[0]] if len(part) else 0 for part in parts]
    return PairLayout(before, between, after, (kinds[0], kinds[1], kinds[2], kinds[3], kinds[4]))


def check_room(settings: RerankerSettings, fixed_tokens: int) -> None:
    """Nothing, when a query of full length leaves the document room.

    Raises:
        SettingError: it does not.
    """
    if fixed_tokens + settings.max_query_tokens >= settings.max_tokens:
        raise SettingError(
            f"max_tokens: {settings.max_tokens} leaves the document no room beside max_query_tokens "
            f"{settings.max_query_tokens} and {fixed_tokens} fixed tokens; raise one or lower the other"
        )


def pair_tokens(
    tokenizer: Tokenizer, layout: PairLayout, pairs: Sequence[tuple[str, str]], max_tokens: int, max_query_tokens: int
) -> list[tuple[Ids, Ids]]:
    """Token ids and type ids of each pair, at most max_tokens: the query cut to its limit, then the document."""
    queries = _ids(tokenizer, [query for query, _ in pairs], max_query_tokens)
    documents = _ids(tokenizer, [document for _, document in pairs], max_tokens)
    joined = []
    for query, document in pairs:
        room = max_tokens - layout.special_tokens - len(queries[query])
        joined.append(layout.join(queries[query], documents[document][:room]))
    return joined


def _ids(tokenizer: Tokenizer, texts: Sequence[str], limit: int) -> dict[str, Ids]:
    """Token ids of each distinct text, at most `limit`: fifty documents of one query tokenize the query once."""
    unique = list(dict.fromkeys(texts))
    encodings = tokenizer.encode_batch_fast([head(text, limit) for text in unique], add_special_tokens=False)
    return {text: encoding.ids[:limit] for text, encoding in zip(unique, encodings, strict=True)}
