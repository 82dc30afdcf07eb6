from skillfeed import prompts
from skillfeed.records import RoutingRequest

REQUEST = RoutingRequest.model_validate(
    {
        "request_id": "1",
        "task": {"name": "Trip", "description": "Three days in Shanghai.", "core_requirements": ["hotel", "metro"]},
        "user_context_constraints": {"budget": "low", "payment_methods": ["Alipay", "cash"]},
    }
)


def test_the_query_has_the_task_and_the_profile_under_their_labels() -> None:
    assert prompts.query_text(REQUEST, with_profile=True) == (
        "Task name: Trip\nTask description: Three days in Shanghai.\nCore requirements:\n- hotel\n- metro\n"
        "User/context constraints:\npayment_methods: Alipay, cash\nbudget: low"
    )


def test_the_task_query_does_not_see_the_profile() -> None:
    query = prompts.query_text(REQUEST, with_profile=False)

    assert "Alipay" not in query
    assert "constraints" not in query


def test_an_empty_profile_gives_the_task_query() -> None:
    bare = REQUEST.model_copy(update={"profile": type(REQUEST.profile)()})

    assert prompts.query_text(bare, with_profile=True) == prompts.query_text(bare, with_profile=False)


def test_keywords_carry_no_labels() -> None:
    assert prompts.keyword_text(REQUEST, with_profile=True) == (
        "Trip\nThree days in Shanghai.\nhotel\nmetro\nAlipay, cash\nlow"
    )


def test_a_chunk_carries_the_skill_it_stands_in() -> None:
    assert prompts.chunk_text("n", "d", "A > B", "text") == (
        "Skill name: n\nSkill description: d\nSkill section: A > B\nSkill body: text"
    )


def test_the_profile_alone_is_its_values() -> None:
    assert prompts.profile_text(REQUEST) == "Alipay, cash, low"


def test_a_short_rerank_query_is_the_task_name_and_the_profile() -> None:
    assert prompts.rerank_query(REQUEST, "short", with_profile=True) == "Trip. Alipay, cash, low"
    assert prompts.rerank_query(REQUEST, "short", with_profile=False) == "Trip"


def test_a_full_rerank_query_is_the_retrievers() -> None:
    assert prompts.rerank_query(REQUEST, "full", with_profile=True) == prompts.query_text(REQUEST, with_profile=True)
