"""Raw inputs become the skill table: parse, decide what duplicates what, write; no input is lost. Ray-free."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skillfeed.corpus.duplicates import near_duplicates, signatures
from skillfeed.corpus.risks import RiskAction
from skillfeed.corpus.skill_file import ParsedSkill, read_row, read_skill
from skillfeed.corpus.sources import InputRef, read_input
from skillfeed.partitions import read_files, read_pieces, write_part, write_pieces
from skillfeed.records import Rejected, RiskCode, Skill, arrow_schema, text_hash_of
from skillfeed.rows import Row
from skillfeed.storage import join
from skillfeed.work import Counts, Work

SKILLS = arrow_schema(Skill)
REJECTED = arrow_schema(Rejected)
DUPLICATES = pa.schema(
    [pa.field(name, pa.string(), nullable=False) for name in ("source", "path", "skill_id", "duplicate_of")]
)

SIGNATURE = pa.field("signature", pa.list_(pa.uint32()))  # MinHash [128]; null when near duplicates are not looked for
# `input_number` orders the inputs: the unit that read it, then its place there. The first of equal bodies stays.
ORDER = pa.field("input_number", pa.int64())
PARSED = pa.schema([*SKILLS, pa.field("body_hash", pa.string()), ORDER, SIGNATURE])
DECISIONS = pa.schema(
    [pa.field("skill_id", pa.string()), ORDER, pa.field("keep", pa.bool_()), pa.field("of", pa.string())]
)


@dataclass(frozen=True)
class IngestPlan:
    """What the units of one run share."""

    output: str
    groups: tuple[tuple[InputRef, ...], ...]
    partitions: int
    credentials: Literal["redact", "reject"]
    risks: Mapping[RiskCode, RiskAction]
    near_duplicates: Literal["link", "drop", "ignore"]
    threshold: float
    max_file_bytes: int
    limit: int | None


def parse_work(plan: IngestPlan) -> Work:
    """Unit = a group of inputs. Leaves its skills as pieces by their id, its rejected rows as a part."""

    def work(unit: str) -> Counts:
        parsed: list[ParsedSkill] = []
        rejected: list[Rejected] = []
        for outcome in islice(_read(plan, plan.groups[int(unit)]), plan.limit):
            (rejected if isinstance(outcome, Rejected) else parsed).append(outcome)  # type: ignore[arg-type]
        if parsed:
            table = _parsed_table(parsed, int(unit), with_signatures=plan.near_duplicates != "ignore")
            write_pieces(join(plan.output, "_work", "parsed"), table, "skill_id", plan.partitions, unit)
        if rejected:
            rows = pa.Table.from_pylist([row.model_dump() for row in rejected], schema=REJECTED)
            write_part(join(plan.output, "rejected"), unit, rows)
        return {
            "rows": len(parsed) + len(rejected),
            "rejected": len(rejected),
            "recovered": sum(bool(item.recovered) for item in parsed),
            "skills_with_credentials": sum(bool(item.credentials) for item in parsed),
            "credentials_redacted": sum(sum(item.credentials.values()) for item in parsed),
        }

    return work


def _read(plan: IngestPlan, refs: Sequence[InputRef]) -> Iterator[ParsedSkill | Rejected]:
    for ref in refs:
        for item in read_input(ref, max_bytes=plan.max_file_bytes):
            if isinstance(item, Rejected):
                yield item
            elif isinstance(item, Row):
                yield read_row(
                    item.data,
                    source=ref.source,
                    path=f"#{item.number}",
                    credentials=plan.credentials,
                    risks=plan.risks,
                )
            else:
                path, data = item
                yield read_skill(
                    data,
                    source=ref.source,
                    path=path,
                    credentials=plan.credentials,
                    risks=plan.risks,
                    max_bytes=plan.max_file_bytes,
                )


def _parsed_table(parsed: Sequence[ParsedSkill], unit: int, *, with_signatures: bool) -> pa.Table:
    skills = [item.skill for item in parsed]
    columns = {field.name: [getattr(skill, field.name) for skill in skills] for field in SKILLS}
    columns["risks"] = [[risk.model_dump() for risk in skill.risks] for skill in skills]
    bodies = columns["body"]
    minhash = list(signatures(bodies)) if with_signatures else [None] * len(skills)
    columns |= {
        "body_hash": [text_hash_of(body) for body in bodies],
        "input_number": [(unit << 32) + number for number in range(len(skills))],
        "signature": minhash,
    }
    return pa.table(columns, schema=PARSED)


def decide(plan: IngestPlan) -> Counts:
    """What becomes of every parsed skill, written for each partition.

    Reads narrow columns only (about 600 bytes a skill), so 228,432 skills need 140 MB here.
    """
    narrow = pa.schema(
        [field for field in PARSED if field.name in ("skill_id", "body_hash", "input_number", "signature")]
    )
    parsed = read_files(join(plan.output, "_work", "parsed"), narrow).sort_by("input_number")
    ids: list[str] = parsed.column("skill_id").to_pylist()
    first_of_body = _first_of_each(parsed.column("body_hash"))
    keep = first_of_body == np.arange(len(ids))
    of = [None if kept else ids[first] for kept, first in zip(keep, first_of_body, strict=True)]
    groups = _near_groups(parsed.filter(pa.array(keep)), plan)
    for number in np.flatnonzero(keep):
        of[number] = groups.get(ids[number])
        keep[number] = of[number] is None or plan.near_duplicates == "link"
    decisions = pa.table([ids, parsed.column("input_number"), keep, of], schema=DECISIONS)
    write_pieces(join(plan.output, "_work", "decisions"), decisions, "skill_id", plan.partitions, "all")
    return {"near_duplicates": len(groups)}


def _first_of_each(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """[N] for each row, the number of the first row with the same value."""
    codes = column.combine_chunks().dictionary_encode().indices.to_numpy()
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    return np.asarray(first[inverse], np.int64)


def _near_groups(kept: pa.Table, plan: IngestPlan) -> dict[str, str]:
    """skill_id to the first id of its near-duplicate group, for every member but the first."""
    if plan.near_duplicates == "ignore" or not len(kept):
        return {}
    flat = kept.column("signature").combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return near_duplicates(kept.column("skill_id").to_pylist(), flat.reshape(len(kept), -1), plan.threshold)


def write_work(plan: IngestPlan) -> Work:
    """Unit = a partition of the skill ids. Writes its part of skills/, by id, and of duplicates/, by path."""

    def work(partition: str) -> Counts:
        parsed = read_pieces(join(plan.output, "_work", "parsed"), partition, PARSED).sort_by("input_number")
        decisions = read_pieces(join(plan.output, "_work", "decisions"), partition, DECISIONS).sort_by("input_number")
        keep = decisions.column("keep")
        linked = parsed.select(SKILLS.names).set_column(
            SKILLS.get_field_index("near_duplicate_of"), SKILLS.field("near_duplicate_of"), decisions.column("of")
        )
        skills = linked.filter(keep).sort_by("skill_id")
        write_part(join(plan.output, "skills"), partition, skills)
        dropped = linked.filter(pc.invert(keep)).select(["source", "path", "skill_id", "near_duplicate_of"])
        if len(dropped):
            duplicates = (
                dropped.rename_columns(DUPLICATES.names)
                .cast(DUPLICATES)
                .sort_by([("source", "ascending"), ("path", "ascending")])
            )
            write_part(join(plan.output, "duplicates"), partition, duplicates)
        return {"rows": len(parsed), "skills": len(skills), "duplicates": len(dropped)} | risk_counts(skills)

    return work


def risk_counts(skills: pa.Table) -> Counts:
    """Of a skill table: the skills with any risk, those not routable, and for each code those that earn it."""
    codes = [{risk["code"] for risk in risks} for risks in skills.column("risks").to_pylist()]
    of_code = Counter(code for found in codes for code in found)
    return {
        "risky_skills": sum(map(bool, codes)),
        "unrouted_skills": skills.column("routable").to_pylist().count(False),
        **{f"risk_{code}": of_code[code] for code in get_args(RiskCode)},
    }
