import pyarrow as pa
import pytest
from pydantic import ValidationError

from skillfeed.records import Profile, Rejected, RoutingRequest, Skill, Task, arrow_schema, skill_id_of


def test_an_unknown_profile_key_is_kept() -> None:
    profile = Profile.model_validate({"budget": 30, "occupation": "student"})

    assert list(profile.lines()) == [("budget", "30"), ("occupation", "student")]


def test_standard_keys_come_first_and_the_others_by_name() -> None:
    profile = Profile.model_validate({"zebra": "z", "budget": "b", "language": "de", "country_region": "Germany"})

    assert [key for key, _ in profile.lines()] == ["country_region", "language", "budget", "zebra"]


def test_a_single_text_stands_for_a_list_and_empty_values_say_nothing() -> None:
    profile = Profile.model_validate(
        {"preferred_platforms": "iPhone", "payment_methods": [], "language": "", "budget": None}
    )

    assert list(profile.lines()) == [("preferred_platforms", "iPhone")]


def test_a_nested_profile_value_is_refused_with_its_key() -> None:
    with pytest.raises(ValidationError, match="budget"):
        Profile.model_validate({"budget": {"amount": 3}})


def test_a_request_without_a_profile_has_an_empty_one() -> None:
    request = RoutingRequest.model_validate(
        {"request_id": "1", "task": {"name": "t"}, "user_context_constraints": None}
    )

    assert list(request.profile.lines()) == []


SAYS_NOTHING: list[dict[str, object]] = [
    {},
    {"name": " "},
    {"core_requirements": ["x"]},
    {"name": None, "description": None},
    {"name": "\u200b\u200d\ufeff", "description": "\u00ad \u2060\x07"},
    {"name": "\u3164\uffa0\u2800\ufe0f\u034f"},
]


@pytest.mark.parametrize("task", SAYS_NOTHING)
def test_a_task_that_says_nothing_is_refused(task: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="name or a description"):
        RoutingRequest.model_validate({"request_id": "1", "task": task})


@pytest.mark.parametrize("name", ["?", "车", "e\u0301", "🚗", "\u200bx"])
def test_a_task_of_one_visible_character_says_something(name: str) -> None:
    assert Task(name=name).name == name


def test_nulls_in_a_task_are_as_if_absent() -> None:
    given = {"name": "t", "description": None, "core_requirements": None}
    assert Task.model_validate(given) == Task(name="t")
    assert Task.model_validate({"name": "t", "core_requirements": [None, "a", None]}).core_requirements == ("a",)


def test_one_text_is_one_requirement() -> None:
    assert Task.model_validate({"name": "t", "core_requirements": "no bus"}).core_requirements == ("no bus",)
    assert Task.model_validate({"name": "t", "core_requirements": " "}).core_requirements == ()


def test_a_whole_number_is_a_request_id_and_no_other_number_is() -> None:
    for number in (7, 7.0):
        assert RoutingRequest.model_validate({"request_id": number, "task": {"name": "t"}}).request_id == "7"
    for number in (7.5, float("nan"), float("inf"), 1e300, True):
        with pytest.raises(ValidationError, match="request_id"):
            RoutingRequest.model_validate({"request_id": number, "task": {"name": "t"}})


def test_the_skill_id_depends_on_every_part() -> None:
    ids = {
        skill_id_of("a", "b", "c"),
        skill_id_of("ab", "", "c"),
        skill_id_of("a", "bc", ""),
        skill_id_of("a", "b", "d"),
    }

    assert len(ids) == 4
    assert all(len(skill_id) == 16 for skill_id in ids)


def test_arrow_schemas_follow_the_models() -> None:
    assert arrow_schema(Rejected).names == ["source", "path", "reason", "detail"]
    assert arrow_schema(Skill).field("license") == pa.field("license", pa.string(), nullable=True)
    assert not arrow_schema(Skill).field("name").nullable
