import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillfeed.corpus.front_matter import parse


@pytest.mark.parametrize(
    ("text", "fields", "body", "recovered"),
    [
        ("---\nname: a\ndescription: b\n---\n\n# Hi\n", {"name": "a", "description": "b"}, "# Hi", ()),
        ("\ufeff---\nname: a\n---\nx", {"name": "a"}, "x", ("bom",)),
        ("---\r\nname: a\r\n---\r\nx\r\ny", {"name": "a"}, "x\ny", ("line_ends",)),
        ("---\rname: a\r---\rx", {"name": "a"}, "x", ("line_ends",)),
        ("---\r\r\nname: a\r\r\n---\r\r\nx", {"name": "a"}, "x", ("line_ends",)),
        ("# Hi\n\ntext", {}, "# Hi\n\ntext", ("no_front_matter",)),
        ("---\n---\nx", {}, "x", ()),
        ("---\nname: a\nmeta:\n\tk: v\n---\nx", {"name": "a", "meta": {"k": "v"}}, "x", ("tabs",)),
        ("---\nname: 007\n---\nx", {"name": "007"}, "x", ("nonstring_name",)),
        ("---\nName: a\nname: b\n---\nx", {"name": "a"}, "x", ("duplicate_keys",)),
        ("---\ndescription: [a, b]\n---\nx", {"description": ["a", "b"]}, "x", ("nonstring_description",)),
        ("---\nname: a\n---# Hi", {"name": "a"}, "# Hi", ("glued_fence",)),
        ("name: a\n---\nx", {"name": "a"}, "x", ("no_opening_fence",)),
        ("---\nname: a\n\n# Hi\nx", {"name": "a"}, "# Hi\nx", ("no_closing_fence", "invalid_yaml")),
        ("---\n# Only a rule\n---\nx", {}, "---\n# Only a rule\n---\nx", ("front_matter_not_a_mapping",)),
        ("---\n- a\n- b\n---\nx", {}, "---\n- a\n- b\n---\nx", ("front_matter_not_a_mapping",)),
    ],
)
def test_front_matter_as_people_write_it(
    text: str, fields: dict[str, object], body: str, recovered: tuple[str, ...]
) -> None:
    found = parse(text)
    assert (found.fields, found.body, found.recovered) == (fields, body, recovered)


@pytest.mark.parametrize(
    ("header", "fields"),
    [
        ("name: a\ndescription: Use when: asked", {"name": "a", "description": "Use when: asked"}),
        ("bad: [\ndescription: |\n  one\n  two\nname: a", {"bad": "[", "description": "one\ntwo", "name": "a"}),
        ("bad: [\ndescription: >-\n  one\n  two\n\n  three", {"bad": "[", "description": "one two\nthree"}),
        ("description: >\none: not a key? yes\ntwo", {"one": "not a key? yes two"}),
        (
            "description: >\nfirst line,\nsecond line.\ntools:\n\n- Bash\n- Read",
            {"description": "first line, second line.", "tools": ["Bash", "Read"]},
        ),
        ("globs: **/*.c\nname: 'it''s'", {"globs": "**/*.c", "name": "it's"}),
        ("name: a\nname: b\nbad: [", {"name": "a", "bad": "["}),
        (":description: a: b\nname：小", {"description": "a: b", "name": "小"}),
        ("bad: [\n# what it does\ndescription: x", {"bad": "[", "description": "x"}),
    ],
)
def test_fields_are_read_line_by_line_where_yaml_fails(header: str, fields: dict[str, object]) -> None:
    found = parse(f"---\n{header}\n---\nbody")
    assert found.fields == fields
    assert found.body == "body"
    assert "invalid_yaml" in found.recovered


def test_text_that_strayed_into_the_front_matter_goes_to_the_body() -> None:
    found = parse("---\nname: a\n## Warning: danger\n\nMind this.\nmeta: x\n---\n# Hi")
    assert found.fields == {"name": "a"}
    assert found.body == "## Warning: danger\n\nMind this.\nmeta: x\n\n# Hi"


def bomb(levels: int) -> str:
    lines = ["name: a", "l0: &l0 [x, x]"]
    lines += [f"l{level}: &l{level} [*l{level - 1}, *l{level - 1}]" for level in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "header",
    [
        bomb(60),
        "name: a\nloop: &x [*x]",
        "name: a\nb: &b {k: v}\n" + "\n".join(f"m{n}: {{<<: [{'*b, ' * 500}*b]}}" for n in range(50)),
        "name: a\nx: " + "[" * 60_000,
        "name: a\nx: " + "{" * 60_000,
        "name: a\nx: " + "- " * 30_000,
        "name: a\nx:\n" + "- y\n" * 60_000,
        "name: a\nx: y" + " " * 300_000 + "z: w",
        "name: a\n" + "\r" * 300_000 + "x",
        "name: a\n" + "x: [\n" * 60_000,
        "name: a\nx: '" + "y\n" * 100_000,
        "name: a\n" + "-" * 300_000,
    ],
    ids=range(12),
)
@pytest.mark.parametrize("closed", [True, False])
def test_hostile_front_matter_is_read_in_bounded_time(header: str, closed: bool) -> None:
    started = time.perf_counter()
    found = parse(f"---\n{header}" + ("\n---\nbody" if closed else ""))
    assert time.perf_counter() - started < 2
    assert found.fields["name"] == "a"


PIECES = st.sampled_from(
    ["---", "\n", "\r", "name: a", ": ", "- ", "#", "> ", "|", "'", '"', "[", "&a", "*a", "\t", "文", "\ufeff", "```"]
)


@given(st.lists(st.one_of(PIECES, st.text(max_size=5)), max_size=40).map("".join))
def test_parsing_never_raises_and_settles_line_ends(text: str) -> None:
    found = parse(text)
    assert "\r" not in found.body


@given(
    name=st.from_regex(r"[a-z]{1,8}(-[a-z]{1,8})?", fullmatch=True).filter(
        lambda n: n not in ("null", "true", "false", "yes", "no", "on", "off", "y", "n")
    ),
    body=st.text(st.characters(exclude_characters="\r", exclude_categories=("Cs", "Cc")), min_size=1),
)
def test_a_well_formed_file_comes_back_as_it_was_written(name: str, body: str) -> None:
    found = parse(f"---\nname: {name}\n---\n\n# T\n{body}")
    assert (found.fields, found.body, found.recovered) == ({"name": name}, f"# T\n{body}".strip("\n").rstrip(), ())
