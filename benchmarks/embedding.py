"""How fast skills become vectors, as ratios measured in one run on one machine. Writes build/bench/embedding.json.

    python benchmarks/embedding.py [--skills 1000] [--rounds 3]

encoder   the `local` retriever against SentenceTransformer.encode at its defaults: same model, same texts, in turn
ray_job   jobs/embed_corpus.py against the same units run one after another in a plain process, start-up included
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from skillfeed.corpus.chunking import chunk_table
from skillfeed.embedding import SKILL_TEXT
from skillfeed.models.retriever import load_retriever
from skillfeed.models.tokenizer import load_tokenizer
from skillfeed.models.weights import resolve
from skillfeed.partitions import read_files
from skillfeed.prompts import chunk_text
from skillfeed.settings import load_models

JOBS = Path(__file__).parents[1] / "jobs"
REPORT = Path(__file__).parents[1] / "build" / "bench" / "embedding.json"
TEXTS = 400  # about 200 tokens each: ten seconds a round for the slower side


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skills", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    settings = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        corpus = grown_sample(Path(directory), settings.skills)
        skills = ingested(corpus, Path(directory) / "skills")
        report = {
            "cpus": os.cpu_count(),
            "encoder": encoder(skills, settings.rounds),
            "ray_job": ray_job(skills, directory),
        }
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))


def grown_sample(directory: Path, count: int) -> Path:
    """`count` skills as JSONL: the bundled ones over and over, each round with its number in every paragraph."""
    bodies = sorted((resources.files("skillfeed") / "sample" / "skills").iterdir(), key=lambda folder: folder.name)
    path = directory / "skills.jsonl"
    with open(path, "w", encoding="utf-8") as file:
        for number in range(count):
            text = (bodies[number % len(bodies)] / "SKILL.md").read_text(encoding="utf-8")
            edition = number // len(bodies)
            body = text.split("---", 2)[2].replace("\n\n", f" (edition {edition})\n\n")
            row = {"name": f"skill-{number}", "description": text.split("description:")[1].split("\n")[0], "body": body}
            file.write(json.dumps(row) + "\n")
    return path


def ingested(corpus: Path, output: Path) -> Path:
    run(
        [
            sys.executable,
            JOBS / "ingest_corpus.py",
            "--source",
            corpus,
            "--output",
            output,
            "--near-duplicates",
            "ignore",
        ]
    )
    return output


def encoder(skills: Path, rounds: int) -> dict[str, Any]:
    """Docs/s of both encoders, in turn, and the mean cosine of their vectors."""
    from sentence_transformers import SentenceTransformer

    models = load_models("local")
    directory = resolve(models.retriever.weights)
    table = read_files(str(skills / "skills"), SKILL_TEXT).slice(0, TEXTS // 2)
    chunks = chunk_table(table, load_tokenizer(directory), models.chunker).slice(0, TEXTS)
    columns = (chunks.column(name).to_pylist() for name in ("name", "description", "section_path", "text"))
    texts = [chunk_text(*fields) for fields in zip(*columns, strict=True)]
    ours, theirs = load_retriever(models.retriever), SentenceTransformer(str(directory), device="cpu")
    ours.encode_documents(texts[:32])
    theirs.encode(texts[:32])
    seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(rounds):
        started = time.perf_counter()
        expected = theirs.encode(texts, normalize_embeddings=True)
        middle = time.perf_counter()
        vectors = ours.encode_documents(texts)
        seconds["theirs"].append(middle - started)
        seconds["ours"].append(time.perf_counter() - middle)
    ratios = [theirs / ours for ours, theirs in zip(seconds["ours"], seconds["theirs"], strict=True)]
    return {
        "texts": len(texts),
        "docs_per_second": len(texts) / statistics.median(seconds["ours"]),
        "docs_per_second_sentence_transformers": len(texts) / statistics.median(seconds["theirs"]),
        "ratio": statistics.median(ratios),
        "ratio_at_least": 1.5,
        "mean_cosine": float(np.sum(vectors * expected, axis=1).mean()),
        "mean_cosine_at_least": 0.99,
    }


def ray_job(skills: Path, directory: str) -> dict[str, Any]:
    """Wall seconds of the job and of its units without Ray, each in a process of its own."""
    job = [sys.executable, JOBS / "embed_corpus.py", "--skills", skills, "--output", Path(directory) / "ray"]
    plain = [sys.executable, Path(__file__).parent / "plain_embedding.py", skills, Path(directory) / "plain"]
    plain_seconds = run(plain)
    job_seconds = run(job)
    return {
        "plain_seconds": plain_seconds,
        "job_seconds": job_seconds,
        "ratio": job_seconds / plain_seconds,
        "ratio_at_most": 1.15,
    }


def run(command: list[Any]) -> float:
    started = time.perf_counter()
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
