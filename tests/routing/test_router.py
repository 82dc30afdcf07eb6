"""The router on a published snapshot of eight skills: real models, FAISS and Lucene."""

import pyarrow as pa
import pytest

from skillfeed.corpus.chunking import chunk_table
from skillfeed.errors import SettingError
from skillfeed.indexes.snapshot import Snapshot, describe_snapshot, open_snapshot, publish, staging_directory
from skillfeed.indexes.snapshot_files import write_snapshot_files
from skillfeed.models import weights
from skillfeed.models.retriever import load_retriever
from skillfeed.models.tokenizer import load_tokenizer
from skillfeed.prompts import chunk_text, skill_text
from skillfeed.records import Route, RoutingRequest, skill_id_of
from skillfeed.routing.router import Router, load_router
from skillfeed.settings import ChannelSettings, RerankSettings, RouterSettings, load_models

MODELS = load_models("local")
CONDITIONS = {
    "deploy-a": "Azure DevOps pipelines and an Azure storage account.",
    "deploy-b": "One Raspberry Pi at home, no cloud account and no cost.",
    "deploy-c": "GitHub Actions and an AWS bucket behind CloudFront.",
    "deploy-d": "An air-gapped network; files are carried on a USB stick.",
}
OTHERS = {
    "sourdough": ("Times the steps of a sourdough loaf.", "## Schedule\n\nFeed the starter at eight in the morning."),
    "haiku": ("Writes haiku.", "## Form\n\nFive, seven and five syllables with a season word."),
    "regex": ("Explains regular expressions.", "## Method\n\nRead the pattern token by token."),
    "诗词": ("讲解唐诗宋词。", "## 方法\n\n先解释字词，再说明典故和意境。"),
}
TASK = {"name": "Publish a static website", "description": "Put my finished HTML pages online."}


def request(request_id: str = "1", **profile: object) -> RoutingRequest:
    return RoutingRequest.model_validate({"request_id": request_id, "task": TASK, "user_context_constraints": profile})


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    texts = {
        name: ("Publishes a static website.", f"## Steps\n\nBuild.\n\n## Where\n\n{w}")
        for name, w in CONDITIONS.items()
    }
    rows = [(skill_id_of(name, *rest), name, *rest) for name, rest in {**texts, **OTHERS}.items()]
    columns = zip(*sorted(rows), strict=True)
    skills = pa.table(dict(zip(("skill_id", "name", "description", "body"), columns, strict=True)))
    directory = weights.resolve(MODELS.retriever.weights)
    chunks = chunk_table(skills, load_tokenizer(directory), MODELS.chunker)
    retriever = load_retriever(MODELS.retriever)
    skill_vectors = retriever.encode_documents(
        [skill_text(row["name"], row["description"], row["body"]) for row in skills.to_pylist()]
    )
    keys = ("name", "description", "section_path", "text")
    chunk_vectors = retriever.encode_documents([chunk_text(*(row[key] for key in keys)) for row in chunks.to_pylist()])
    snapshots = str(tmp_path_factory.mktemp("snapshots"))
    with staging_directory(snapshots) as staging:
        write_snapshot_files(staging, skills, skill_vectors, chunks, chunk_vectors)
        manifest = describe_snapshot(
            staging,
            models=MODELS,
            retriever_fingerprint=retriever.fingerprint,
            dimension=retriever.dimension,
            skills=len(skills),
            chunks=len(chunks),
            inputs={},
        )
        publish(staging, snapshots, manifest)
    return open_snapshot(snapshots)


@pytest.fixture(scope="module")
def router(snapshot: Snapshot) -> Router:
    return load_router(snapshot, RouterSettings(top_k=4, rerank=RerankSettings(depth=6)))


def names(route: Route) -> list[str]:
    return [skill.name for skill in route.skills]


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ({"preferred_platforms": ["Azure DevOps"]}, "deploy-a"),
        ({"device": "a Raspberry Pi at home", "budget": "no cost, no cloud"}, "deploy-b"),
        ({"preferred_platforms": ["GitHub Actions", "AWS"]}, "deploy-c"),
        ({"other_constraints": ["air-gapped network without internet", "USB stick"]}, "deploy-d"),
    ],
)
def test_the_profile_chooses_among_skills_for_one_task(
    router: Router, profile: dict[str, object], expected: str
) -> None:
    (route,) = router.route([request(**profile)])

    assert names(route)[0] == expected
    assert set(names(route)) == set(CONDITIONS)


def test_a_route_depends_on_its_request_alone(router: Router) -> None:
    requests = [
        request("azure", preferred_platforms=["Azure"]),
        request("none"),
        RoutingRequest.model_validate({"request_id": "poem", "task": {"name": "讲解一首唐诗"}}),
        request("pi", device="Raspberry Pi"),
    ]

    together = router.route(requests)
    alone = [router.route([one])[0] for one in requests]

    assert [names(route) for route in together] == [names(route) for route in alone]
    for batched, single in zip(together, alone, strict=True):
        assert [s.score for s in batched.skills] == pytest.approx([s.score for s in single.skills], abs=1e-4)


def test_routes_come_in_the_order_of_requests_and_name_the_snapshot(router: Router, snapshot: Snapshot) -> None:
    routes = router.route([request("b"), request("a")])

    assert [route.request_id for route in routes] == ["b", "a"]
    assert {route.snapshot_id for route in routes} == {snapshot.id}


def test_nothing_asked_is_nothing_answered(router: Router) -> None:
    assert router.route([]) == []


def test_a_chinese_task_finds_a_chinese_skill_by_its_words(router: Router) -> None:
    (route,) = router.route([RoutingRequest.model_validate({"request_id": "1", "task": {"name": "讲解一首唐诗"}})])

    assert "诗词" in names(route)


def test_each_skill_says_where_each_channel_placed_it_and_what_speaks_for_it(router: Router) -> None:
    (route,) = router.route([request(preferred_platforms=["Azure"])])
    first = route.skills[0]

    assert {channel.channel for channel in first.channels} == {"task_dense", "bm25", "profile_chunk_dense"}
    assert first.fused_score == pytest.approx(
        sum(router.settings.channels[c.channel].weight / (60 + c.rank) for c in first.channels)
    )
    assert "Azure" in first.evidence[0].text
    assert first.score == first.rerank_score
    assert [skill.score for skill in route.skills] == sorted([skill.score for skill in route.skills], reverse=True)


def test_without_a_reranker_the_fused_score_decides(snapshot: Snapshot) -> None:
    fused = load_router(snapshot, RouterSettings(rerank=None, top_k=3))

    (route,) = fused.route([request(preferred_platforms=["Azure"])])

    assert fused.reranker is None
    assert all(skill.rerank_score is None and skill.score == skill.fused_score for skill in route.skills)


@pytest.mark.parametrize("channel", ["task_dense", "profile_dense", "profile_chunk_dense", "bm25"])
def test_each_channel_routes_alone(snapshot: Snapshot, channel: str) -> None:
    one = {channel: ChannelSettings(weight=1, depth=5, with_profile=True)}
    settings = RouterSettings.model_validate({"channels": one, "rerank": None, "top_k": 5})

    (route,) = load_router(snapshot, settings).route([request(preferred_platforms=["Azure"])])

    assert route.skills[0].name.startswith("deploy-")
    assert [c.channel for c in route.skills[0].channels] == [channel]


def test_a_channel_without_the_profile_does_not_see_it(snapshot: Snapshot) -> None:
    one = {"bm25": ChannelSettings(weight=1, depth=5, with_profile=False)}
    settings = RouterSettings.model_validate({"channels": one, "rerank": None})
    blind = load_router(snapshot, settings)

    azure, pi = blind.route([request(preferred_platforms=["Azure"]), request(device="Raspberry Pi")])

    assert names(azure) == names(pi)


def test_models_with_another_retriever_are_refused(snapshot: Snapshot) -> None:
    other = MODELS.model_copy(update={"retriever": MODELS.retriever.model_copy(update={"max_tokens": 128})})

    with pytest.raises(SettingError, match="did not make snapshot"):
        load_router(snapshot, RouterSettings(), other)
