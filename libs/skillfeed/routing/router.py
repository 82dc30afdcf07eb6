"""The one Router: requests in, routes out. Batch job, server and notebook all call `Router.route`. Ray-free."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from skillfeed.errors import SettingError
from skillfeed.indexes.lexical import LexicalSearcher, open_searcher
from skillfeed.indexes.snapshot import Snapshot, SnapshotManifest
from skillfeed.models import weights
from skillfeed.models.reranker import Reranker, load_reranker
from skillfeed.models.retriever import Retriever, load_retriever
from skillfeed.prompts import keyword_text, profile_text, query_text, rerank_document, rerank_query
from skillfeed.records import ChannelName, ChannelRank, Evidence, Route, RoutedSkill, RoutingRequest
from skillfeed.routing.channels import Ranking, chunk_dense, lexical, skill_dense
from skillfeed.routing.evidence import Passages, passages
from skillfeed.routing.fusion import fuse
from skillfeed.settings import ModelSettings, RerankerSettings, RouterSettings

EVIDENCE_SHOWN = 3  # passages named in a route; the reranker may read more

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Candidate:
    """A skill row with its fused score and its passages, best first."""

    row: int
    fused_score: float
    passages: Passages


@dataclass(frozen=True)
class Router:
    """Everything a route needs. Safe to call from one thread at a time."""

    snapshot: Snapshot
    retriever: Retriever
    reranker: Reranker | None
    reranker_settings: RerankerSettings | None
    searcher: LexicalSearcher | None
    settings: RouterSettings
    skill_ids: npt.NDArray[np.str_]  # [S], ascending: row i of every table and index
    skill_of_chunk: Rows  # [C], ascending
    threads: int

    def route(self, requests: Sequence[RoutingRequest]) -> list[Route]:
        """One route a request, in order. Equal requests give equal routes, whatever else is in the batch."""
        if not requests:
            return []
        kinds = {c.with_profile for name, c in self.settings.channels.items() if name != "bm25"}
        queries = {
            kind: self.retriever.encode_queries([query_text(request, with_profile=kind) for request in requests])
            for kind in kinds
        }
        rankings = self._recall(requests, queries)
        channel_weights: dict[str, float] = {name: c.weight for name, c in self.settings.channels.items()}
        reranked = self.settings.rerank.depth if self.reranker and self.settings.rerank else 0
        depth = max(reranked, self.settings.top_k)
        conditions = self.retriever.encode_queries(
            [profile_text(request) or query_text(request, with_profile=False) for request in requests]
        )
        shortlists: list[list[Candidate]] = []
        for number in range(len(requests)):
            lists: dict[str, Rows] = {name: ranking[number].rows for name, ranking in rankings.items()}
            rows, fused = fuse(lists, channel_weights, self.settings.rrf_k)
            rows, fused = rows[:depth], fused[:depth]
            found = passages(self.snapshot.chunk_index, self.skill_of_chunk, conditions[number], rows)
            shortlists.append(
                [Candidate(int(row), float(score), best) for row, score, best in zip(rows, fused, found, strict=True)]
            )
        scores = self._rerank(requests, shortlists)
        return [
            self._route(request, shortlist, score, {name: ranking[number] for name, ranking in rankings.items()})
            for number, (request, shortlist, score) in enumerate(zip(requests, shortlists, scores, strict=True))
        ]

    def _recall(
        self, requests: Sequence[RoutingRequest], queries: Mapping[bool, npt.NDArray[np.float32]]
    ) -> dict[ChannelName, list[Ranking]]:
        """For each channel of the settings, one ranking a request."""
        rankings: dict[ChannelName, list[Ranking]] = {}
        for name, channel in self.settings.channels.items():
            if name == "bm25":
                assert self.searcher is not None
                texts = [keyword_text(request, with_profile=channel.with_profile) for request in requests]
                rankings[name] = lexical(self.searcher, self.skill_ids, texts, channel.depth, self.threads)
            elif name == "profile_chunk_dense":
                rankings[name] = chunk_dense(
                    self.snapshot.chunk_index,
                    self.skill_of_chunk,
                    queries[channel.with_profile],
                    channel.depth,
                    self.settings.aggregation,
                )
            else:
                rankings[name] = skill_dense(self.snapshot.skill_index, queries[channel.with_profile], channel.depth)
        return rankings

    def _rerank(
        self, requests: Sequence[RoutingRequest], shortlists: Sequence[Sequence[Candidate]]
    ) -> list[npt.NDArray[np.float32] | None]:
        """Reranker scores [N] of each shortlist, or None without a reranker. One call for the whole batch."""
        rerank = self.settings.rerank
        if self.reranker is None or self.reranker_settings is None or rerank is None:
            return [None] * len(shortlists)
        form = self.reranker_settings.query
        queries = [rerank_query(request, form, with_profile=rerank.with_profile) for request in requests]
        pairs = [
            (query, self._document(candidate))
            for query, shortlist in zip(queries, shortlists, strict=True)
            for candidate in shortlist
        ]
        scores = self.reranker.score(pairs)
        ends = np.cumsum([len(shortlist) for shortlist in shortlists])[:-1]
        return list(np.split(scores, ends))

    def _document(self, candidate: Candidate) -> str:
        """Name, description and body for the reranker: from its head, or with the best passages first."""
        assert self.reranker_settings is not None
        assert self.settings.rerank is not None
        name, description, body = (self._skill(candidate.row, column) for column in ("name", "description", "body"))
        if self.reranker_settings.document == "head":
            return rerank_document(name, description, [body])
        best = candidate.passages.rows[: self.settings.rerank.passages]
        rest = np.sort(candidate.passages.rows[self.settings.rerank.passages :])
        texts = self.snapshot.chunks.column("text")
        return rerank_document(name, description, [texts[int(row)].as_py() for row in (*best, *rest)])

    def _skill(self, row: int, column: str) -> str:
        return str(self.snapshot.skills.column(column)[row].as_py())

    def _route(
        self,
        request: RoutingRequest,
        shortlist: Sequence[Candidate],
        scores: npt.NDArray[np.float32] | None,
        rankings: Mapping[ChannelName, Ranking],
    ) -> Route:
        order = np.arange(len(shortlist)) if scores is None else np.argsort(-scores, kind="stable")
        places = {name: {int(row): place for place, row in enumerate(r.rows)} for name, r in rankings.items()}
        skills = []
        for rank, position in enumerate(order[: self.settings.top_k], start=1):
            candidate = shortlist[position]
            rerank_score = None if scores is None else float(scores[position])
            channels = tuple(
                ChannelRank(channel=name, rank=place + 1, score=float(rankings[name].scores[place]))
                for name in rankings
                if (place := places[name].get(candidate.row)) is not None
            )
            skills.append(
                RoutedSkill(
                    rank=rank,
                    skill_id=str(self.skill_ids[candidate.row]),
                    name=self._skill(candidate.row, "name"),
                    score=candidate.fused_score if rerank_score is None else rerank_score,
                    fused_score=candidate.fused_score,
                    rerank_score=rerank_score,
                    channels=channels,
                    evidence=self._evidence(candidate),
                )
            )
        return Route(request_id=request.request_id, snapshot_id=self.snapshot.id, skills=tuple(skills))

    def _evidence(self, candidate: Candidate) -> tuple[Evidence, ...]:
        chunks = self.snapshot.chunks
        return tuple(
            Evidence(
                chunk_id=chunks.column("chunk_id")[int(row)].as_py(),
                section_path=chunks.column("section_path")[int(row)].as_py(),
                text=chunks.column("text")[int(row)].as_py(),
                score=float(score),
            )
            for row, score in zip(candidate.passages.rows[:EVIDENCE_SHOWN], candidate.passages.scores, strict=False)
        )


def load_router(
    snapshot: Snapshot, settings: RouterSettings, models: ModelSettings | None = None, *, threads: int = 2
) -> Router:
    """A router over an opened snapshot.

    Args:
        models: the snapshot's own models by default; give others to change the reranker. Models without a reranker
            (`static`) rank by the fused score.
        threads: CPU threads of each model and of Lucene.

    Raises:
        SettingError: the retriever is not the one that made the snapshot, or a model's weights are missing.
    """
    models = models or snapshot.manifest.models
    check_models(snapshot.manifest, models)
    retriever = load_retriever(models.retriever, threads)
    reranker = load_reranker(models.reranker, threads) if settings.rerank and models.reranker else None
    return Router(
        snapshot=snapshot,
        retriever=retriever,
        reranker=reranker,
        reranker_settings=models.reranker,
        searcher=open_searcher(snapshot.lexical) if "bm25" in settings.channels else None,
        settings=settings,
        skill_ids=snapshot.skills.column("skill_id").to_numpy().astype(np.str_),
        skill_of_chunk=snapshot.chunks.column("skill_row").to_numpy().astype(np.int64),
        threads=threads,
    )


def check_models(manifest: SnapshotManifest, models: ModelSettings) -> None:
    """Whether these models can route over a snapshot: seconds at most, nothing is loaded.

    Raises:
        SettingError: the retriever is not the one that made the snapshot, or a model's weights are missing.
    """
    fingerprint = weights.fingerprint(models.retriever, weights.resolve(models.retriever.weights))
    if fingerprint != manifest.retriever_fingerprint:
        raise SettingError(
            f"models: {models.name}'s retriever ({fingerprint}) did not make snapshot {manifest.snapshot_id} "
            f"({manifest.retriever_fingerprint}); its vectors cannot be compared. Use the models it was built with, "
            "or embed the corpus again"
        )
    if models.reranker is not None:
        weights.resolve(models.reranker.weights)
