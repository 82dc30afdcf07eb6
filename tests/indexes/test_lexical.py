import random
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from skillfeed.errors import SettingError, SnapshotError
from skillfeed.indexes import lexical

DOCUMENTS = [
    ("budget", "Budget trip planner: cheap hostels and night trains"),
    ("luxury", "Luxury trip planner: five star hotels"),
    ("zh", "上海旅行规划：为学生准备的便宜行程"),
    ("es", "Asistente para la declaración anual"),
    *((f"same-{number:02d}", "identical words here") for number in random.Random(0).sample(range(30), 30)),
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("lucene") / "lexical"
    assert lexical.build(directory, DOCUMENTS) == len(DOCUMENTS)
    return directory


@pytest.fixture(scope="module")
def find(index: Path) -> Callable[..., list[str]]:
    searcher = lexical.open_searcher(index)
    return lambda text, k=10: [key for key, _ in lexical.search(searcher, [text], k)[0]]


def test_every_document_is_in_the_index(index: Path) -> None:
    assert lexical.open_searcher(index).documents == len(DOCUMENTS)


def test_the_index_leaves_no_lock_and_no_partial_directory(index: Path) -> None:
    assert not (index / "write.lock").exists()
    assert [path.name for path in index.parent.iterdir()] == ["lexical"]


def test_words_find_the_documents_that_hold_them_in_any_inflection(find: Callable[..., list[str]]) -> None:
    assert find("planning a luxury trips")[0] == "luxury"


def test_chinese_text_finds_chinese_documents(find: Callable[..., list[str]]) -> None:
    assert find("帮我规划去上海的旅行") == ["zh"]


def test_accents_are_kept(find: Callable[..., list[str]]) -> None:
    assert find("declaración") == ["es"]


@pytest.mark.parametrize("text", ["", "   ", "AND OR ( * ? ~ ^ [ TO", "the of and", "\0", "😀", "\ud800"])
def test_a_text_without_terms_finds_nothing(find: Callable[..., list[str]], text: str) -> None:
    assert find(text) == []


def test_query_syntax_is_text(find: Callable[..., list[str]]) -> None:
    assert find('budget* AND NOT "luxury"~2 -hostels^9') == find("budget luxury 2 hostels 9") == ["budget", "luxury"]


def test_equal_scores_go_by_id_also_at_the_cut(find: Callable[..., list[str]]) -> None:
    assert find("identical", 5) == [f"same-{number:02d}" for number in range(5)]


def test_scores_descend(index: Path) -> None:
    (found,) = lexical.search(lexical.open_searcher(index), ["trip planner cheap"], 10)
    scores = [score for _, score in found]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] > scores[1] > 0


def test_thousands_of_distinct_terms_are_searched(find: Callable[..., list[str]]) -> None:
    assert find(" ".join(f"w{number}" for number in range(2000)) + " luxury") == ["luxury"]


def test_what_stands_past_the_longest_query_is_cut(find: Callable[..., list[str]]) -> None:
    assert find("a " * (lexical.MAX_QUERY_CHARACTERS // 2) + "luxury") == []


def test_ten_thousand_chinese_characters_are_searched(find: Callable[..., list[str]]) -> None:
    assert find("".join(map(chr, range(0x4E00, 0x4E00 + 10_000)))) == ["zh"]


def test_a_batch_answers_in_order_whatever_the_threads(index: Path) -> None:
    searcher = lexical.open_searcher(index)
    texts = ["luxury hotels", "", "cheap hostels", "identical", "上海"] * 20
    together = lexical.search(searcher, texts, 5, threads=2)
    assert together == [lexical.search(searcher, [text], 5)[0] for text in texts]


def test_several_threads_share_a_searcher(index: Path) -> None:
    searcher = lexical.open_searcher(index)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: lexical.search(searcher, ["luxury"], 1)[0][0][0], range(80)))
    assert answers == ["luxury"] * 80


def test_k_below_one_and_no_texts_find_nothing(index: Path) -> None:
    searcher = lexical.open_searcher(index)
    assert lexical.search(searcher, ["luxury"], 0) == [[]]
    assert lexical.search(searcher, [], 5) == []


def test_bm25_parameters_change_the_scores(index: Path) -> None:
    plain, long_terms = (lexical.open_searcher(index, k1, b) for k1, b in ((0.9, 0.4), (2.0, 0.9)))
    assert lexical.search(plain, ["luxury"], 1) != lexical.search(long_terms, ["luxury"], 1)


def test_no_documents_make_an_empty_index(tmp_path: Path) -> None:
    assert lexical.build(tmp_path / "x", []) == 0
    assert lexical.search(lexical.open_searcher(tmp_path / "x"), ["luxury"], 3) == [[]]


@pytest.mark.parametrize(
    ("documents", "reason"),
    [([("a", "one"), ("a", "two")], "a: comes twice"), ([("a", "one"), ("b", " ")], "b: blank")],
)
def test_documents_that_cannot_be_indexed_leave_nothing(
    tmp_path: Path, documents: list[tuple[str, str]], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        lexical.build(tmp_path / "x", documents)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_indexer_leaves_nothing_and_shows_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLFEED_JVM_HEAP", "1k")  # below what Java accepts
    with pytest.raises(SettingError, match="Too small maximum heap"):
        lexical.build(tmp_path / "x", DOCUMENTS)
    assert list(tmp_path.iterdir()) == []


def test_an_index_is_written_once(index: Path) -> None:
    with pytest.raises(FileExistsError, match="lexical"):
        lexical.build(index, DOCUMENTS)


def test_a_directory_without_an_index_is_named(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="nothing-here"):
        lexical.open_searcher(tmp_path / "nothing-here")


def test_java_prints_nothing_to_stdout_and_starts_once(index: Path) -> None:
    script = f"""
from pathlib import Path
from skillfeed.indexes import jvm, lexical
assert jvm.start_jvm("256m") is jvm.start_jvm("2g")
print(lexical.search(lexical.open_searcher(Path({str(index)!r})), ["luxury"], 1)[0][0][0])
heap = jvm.start_jvm().autoclass("java.lang.Runtime").getRuntime().maxMemory()
assert heap < 300 * 2**20, heap
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    assert done.stdout == "luxury\n"


def test_a_ray_actor_searches(index: Path) -> None:
    script = f"""
import ray
from pathlib import Path
from skillfeed.indexes import lexical

@ray.remote(num_cpus=0)
class Searcher:
    def __init__(self):
        self.searcher = lexical.open_searcher(Path({str(index)!r}))
    def find(self, text):
        return lexical.search(self.searcher, [text], 1, threads=2)[0][0][0]

ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
actors = [Searcher.options(max_concurrency=4).remote() for _ in range(2)]
print(ray.get([actor.find.remote(text) for text in ("luxury", "hostels") for actor in actors]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    assert done.stdout.splitlines()[-1] == "['luxury', 'luxury', 'budget', 'budget']"
