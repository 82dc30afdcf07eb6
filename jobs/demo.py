"""The main job on the bundled sample: ingest, embed, index, route, and what came of it as a table.

    python jobs/demo.py [--output build/demo]

A second run finds every step done and only prints.
"""

import json
import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import pyarrow.dataset as pads
from pydantic import Field
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

import build_indexes
import embed_corpus
import ingest_corpus
import route_logs
from skillfeed.job import CommandSettings, Summary, run
from skillfeed.settings import RerankSettings, RouterSettings
from skillfeed.storage import URI, join

RERANK_DEPTH = 10  # of 150 skills; 50 would take two minutes on two cores


class Demo(CommandSettings):
    """The main job on the bundled sample."""

    output: URI = Field("build/demo", validate_default=True, description="Where everything goes")
    models: str = Field("local", description="A shipped name or a YAML file")


def main(job: Demo) -> Summary:
    sample = resources.files("skillfeed") / "sample"
    skills, embedded, snapshots, routed = (join(job.output, n) for n in ("skills", "embedded", "snapshots", "routed"))
    requests = join(str(sample), "requests.jsonl")
    ingest = ingest_corpus.IngestCorpus(source=[str(sample / "skills")], output=skills)
    embed = embed_corpus.EmbedCorpus(skills=skills, output=embedded, models=job.models)
    index = build_indexes.BuildIndexes(skills=skills, embeddings=embedded, snapshots=snapshots)
    router = RouterSettings(rerank=RerankSettings(depth=RERANK_DEPTH))
    route = route_logs.RouteLogs(snapshots=snapshots, requests=requests, output=routed, router=router, top_k=5)
    console = Console(stderr=True)
    steps = [ingest_corpus.main(ingest), embed_corpus.main(embed), build_indexes.main(index), route_logs.main(route)]
    console.print("\n".join(line for step in steps for line in step.lines()), markup=False, highlight=False)
    references = [json.loads(line) for line in Path(requests).read_text(encoding="utf-8").splitlines()]
    routes = {row["request_id"]: row["skills"] for row in pads.dataset(join(routed, "routes")).to_table().to_pylist()}
    rows = show(references, routes, job.output)
    return Summary("demo", job.output, rows, round(sum(step.seconds for step in steps), 3))


def show(references: list[dict[str, Any]], routes: Mapping[str, list[dict[str, Any]]], output: str) -> dict[str, int]:
    """Prints the first counterfactual pair that was routed right; counts the requests and pairs that were."""
    console = Console()
    right = {row["request_id"] for row in references if is_right(row, routes)}
    pairs = counterfactual_pairs(references)
    solved = [pair for pair in pairs if right.issuperset(row["request_id"] for row in pair)]
    for pair in solved[:1] or pairs[:1]:
        console.print(pair_table(pair, routes))
    console.print(f"Outputs: {output}/{{skills,embedded,snapshots,routed}}, each with a manifest.json", markup=False)
    counts = (len(references), len(right), len(pairs), len(solved))
    return dict(zip(("requests", "right_first", "counterfactual_pairs", "pairs_right"), counts, strict=True))


def is_right(reference: dict[str, Any], routes: Mapping[str, list[dict[str, Any]]]) -> bool:
    return bool(routes[reference["request_id"]][0]["name"] == reference["ground_truth_skill"])


def counterfactual_pairs(references: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Requests of one family that share their task."""
    pairs: dict[str, list[dict[str, Any]]] = {}
    for row in references:
        if row["kind"] == "counterfactual":
            pairs.setdefault(row["family_id"] + row["task"]["name"], []).append(row)
    return [pair for pair in pairs.values() if len(pair) == 2]


def pair_table(pair: list[dict[str, Any]], routes: Mapping[str, list[dict[str, Any]]]) -> Panel:
    """One task, two profiles, what each got and why. Skill text is shown as plain text, never as markup."""
    table = Table(show_lines=True, expand=True)
    for title, ratio in (("Profile", 3), ("Skill", 2), ("Passage that matched", 4), ("Ranks", 2)):
        table.add_column(title, ratio=ratio)
    for row in pair:
        profile = {key: _plain(value) for key, value in row["user_context_constraints"].items()}
        best = routes[row["request_id"]][0]
        passage = best["evidence"][0]
        ranks = [f"{channel['channel']} {channel['rank']}" for channel in best["channels"]]
        table.add_row(
            Text("\n".join(f"{key}: {value}" for key, value in profile.items())),
            Text(best["name"]),
            Text(f"[{passage['section_path']}]\n{nearest_paragraph(passage['text'], profile)}"),
            Text("\n".join([*ranks, f"reranked {best['rank']}"])),
        )
    return Panel(table, title=Text(pair[0]["task"]["name"]), subtitle=Text(pair[0]["task"]["description"]))


def nearest_paragraph(text: str, profile: Mapping[str, str]) -> str:
    """The paragraph of a passage that shares most words with the profile, for display."""
    wanted = set(re.findall(r"\w+", " ".join(profile.values()).lower()))
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n|\n#+ ", text) if part.strip()]
    return max(paragraphs, key=lambda part: len(wanted & set(re.findall(r"\w+", part.lower()))))[:500]


def _plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


if __name__ == "__main__":
    run(Demo, main)
