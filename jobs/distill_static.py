"""Make the `static` retriever: a model2vec distillation of a transformer retriever, for millions of texts on CPUs.

    python jobs/distill_static.py [--models local] [--output DIRECTORY]

Writes a directory in model2vec's format (safetensors), where the `static` model settings look for it. Every node that
runs a model needs the same files: distil once, then copy the directory or name it by `path` in a YAML file.
"""

import time
from pathlib import Path

from pydantic import Field

from skillfeed.job import CommandSettings, Summary, run
from skillfeed.models.distill import distill_static
from skillfeed.settings import load_models
from skillfeed.storage import cache_directory


class DistillStatic(CommandSettings):
    """Make the `static` retriever from a transformer retriever."""

    models: str = Field("local", description="Whose retriever: a shipped name or a YAML file")
    overwrite: bool = Field(False, description="Distil again what is there")
    output: Path = Field(cache_directory() / "models" / "static", description="Where the model's directory goes")


def main(job: DistillStatic) -> Summary:
    models = load_models(job.models)
    if (job.output / "model.safetensors").exists() and not job.overwrite:
        return Summary("distill_static", str(job.output), {}, 0.0, already_done=True)
    started = time.monotonic()
    distilled = distill_static(models.retriever, job.output)
    rows = {"tokens_in_vocabulary": distilled.tokens, "dimension": distilled.dimension}
    return Summary("distill_static", str(job.output), rows, round(time.monotonic() - started, 3))


if __name__ == "__main__":
    run(DistillStatic, main)
