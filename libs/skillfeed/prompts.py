"""Records become model input here and nowhere else, so training, batch jobs and serving read the same text."""

from collections.abc import Sequence
from typing import Literal

from skillfeed.records import RoutingRequest

INSTRUCTION = "Represent this user task for retrieving the most appropriate skill."


def query_text(request: RoutingRequest, *, with_profile: bool) -> str:
    """The task and, when asked for and not empty, the profile. The retriever's template adds the instruction."""
    task = request.task
    lines = [f"Task name: {task.name}", f"Task description: {task.description}"]
    if task.core_requirements:
        lines += ["Core requirements:", *(f"- {requirement}" for requirement in task.core_requirements)]
    constraints = [f"{key}: {value}" for key, value in request.profile.lines()] if with_profile else []
    if constraints:
        lines += ["User/context constraints:", *constraints]
    return "\n".join(lines)


def keyword_text(request: RoutingRequest, *, with_profile: bool) -> str:
    """The same content as `query_text` without its labels, which would be words to BM25."""
    task = request.task
    parts = [task.name, task.description, *task.core_requirements]
    if with_profile:
        parts += [value for _, value in request.profile.lines()]
    return "\n".join(part for part in parts if part)


def profile_text(request: RoutingRequest) -> str:
    """The values of the profile alone, or nothing. Passages that state a condition match it, others do not."""
    return ", ".join(value for _, value in request.profile.lines())


def rerank_query(request: RoutingRequest, form: Literal["full", "short"], *, with_profile: bool) -> str:
    """`full` is `query_text`; `short`, for models trained on short queries, is the task's name and the profile."""
    if form == "full":
        return query_text(request, with_profile=with_profile)
    parts = [request.task.name or request.task.description, profile_text(request) if with_profile else ""]
    return ". ".join(part for part in parts if part)


def skill_text(name: str, description: str, body: str) -> str:
    return f"Skill name: {name}\nSkill description: {description}\nSkill body: {body}"


def chunk_text(name: str, description: str, section_path: str, text: str) -> str:
    """A passage with the name, description and headings it stands under."""
    section = f"Skill section: {section_path}\n" if section_path else ""
    return f"Skill name: {name}\nSkill description: {description}\n{section}Skill body: {text}"


def rerank_document(name: str, description: str, passages: Sequence[str]) -> str:
    """What the reranker judges: the skill with the given passages of its body in the given order."""
    return skill_text(name, description, "\n\n".join(passages))
