import pytest

from reconciler.policies.drill import parse_expect


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("> 1000", "> 1000"),
        ("  >=1 ", ">=1"),
        ("== 'x'", "= 'x'"),
        ("= 'it''s = 1'", "= 'it''s = 1'"),
        ("!= 0", "!= 0"),
        ("<> -0.5", "<> -0.5"),
        ("= True", "= True"),
        ("between 1 and 5", "between 1 and 5"),
        ("BETWEEN '2026-01-01' AND '2026-02-01'", "BETWEEN '2026-01-01' AND '2026-02-01'"),
    ],
)
def test_a_comparison_has_an_operator_and_values(text: str, condition: str) -> None:
    assert parse_expect(text) == condition


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1000",
        ">",
        "> x",
        "=> 1",
        "= 'x",
        "= x'",
        "= 'a' or 'b'",
        "= 1; drop",
        "> 1 and",
        "between 1",
        "= '\\'",
        "= \u0663",
    ],
)
def test_all_else_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match="is not a comparison: write an operator and"):
        parse_expect(text)
