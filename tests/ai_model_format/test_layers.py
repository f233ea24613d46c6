"""Layers: which tensors a pattern selects."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from ai_model_format.layers import (
    InvalidPattern,
    NoLayerMatches,
    layer_tree,
    matcher,
    near_layers,
    select_tensors,
    split_patterns,
)

NAMES = [
    "embeddings.word.weight",
    *(f"encoder.layer.{i}.{kind}" for i in range(12) for kind in ("weight", "bias")),
    "model.encoder.norm.weight",
    "decoder.layer.1.weight",
    "my_encoder.weight",
    "a..b",
]
components = some.text("ab1.", min_size=1, max_size=12)


def chosen(*layers: str, **options: object) -> list[str]:
    return select_tensors(NAMES, layers=layers, **options)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("embeddings", ["embeddings.word.weight"]),
        ("encoder.norm", ["model.encoder.norm.weight"]),
        ("layer.1", ["encoder.layer.1.weight", "encoder.layer.1.bias", "decoder.layer.1.weight"]),
        ("encoder.layer.[10-11].bias", ["encoder.layer.10.bias", "encoder.layer.11.bias"]),
        ("layer.1?.bias", ["encoder.layer.10.bias", "encoder.layer.11.bias"]),
        ("layer.[13].bias", ["encoder.layer.1.bias", "encoder.layer.3.bias"]),
        ("layer.1[!0].bias", ["encoder.layer.11.bias"]),
        ("my_*", ["my_encoder.weight"]),
        ("*code?.norm", ["model.encoder.norm.weight"]),
        ("decoder.layer.1.weight", ["decoder.layer.1.weight"]),
    ],
)
def test_a_pattern_is_a_run_of_components_at_any_depth(pattern: str, expected: list[str]) -> None:
    assert chosen(pattern) == expected


def test_a_component_is_never_a_part_of_one() -> None:
    assert "my_encoder.weight" not in chosen("encoder")
    assert len(chosen("encoder")) == 25


def test_lists_repeats_groups_and_exclude() -> None:
    both = chosen("embeddings, decoder")
    assert both == chosen("decoder", "embeddings") == chosen("head", groups={"head": both})
    assert chosen("encoder", exclude=["layer", "norm.weight"]) == ["model.encoder.norm.weight"][:0]
    assert len(chosen("encoder", exclude=["bias"])) == 13
    assert chosen() == NAMES


def test_a_group_wins_over_a_component() -> None:
    assert chosen("encoder", groups={"encoder": ["my_encoder"]}) == ["my_encoder.weight"]


def test_no_match_names_what_is_near() -> None:
    with pytest.raises(NoLayerMatches) as caught:
        chosen("encodr")
    assert caught.value.near[0] == "encoder"
    with pytest.raises(NoLayerMatches) as caught:
        chosen("encoder.layr")
    assert caught.value.near[0] == "encoder.layer"
    with pytest.raises(NoLayerMatches) as caught:
        chosen("zzzz")
    assert caught.value.near
    assert near_layers("x", []) == []


@pytest.mark.parametrize("pattern", ["", "a,,b", "a.[9-1]", "[z-a]", "*..b", "a..b", "x" * 1025])
def test_patterns_that_cannot_be_read(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        select_tensors(["a"], layers=[pattern])


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("h[0-3]", "h3", True),
        ("h[0-3]", "h13", False),
        ("*[10-20]", "layer13", True),
        ("*[0-3]", "layer13", False),
        ("*-[1-2]*", "a-5-1", True),
        ("[1-2]", "02", True),
        ("[1-2]", "9" * 4096, False),
        ("[^]x", "^x", True),
        ("[[]x", "[x", True),
        ("[\\]x", "\\x", True),
        ("a*", "a\nb", True),
        ("[", "[", True),
    ],
)
def test_ranges_and_classes(pattern: str, name: str, expected: bool) -> None:
    assert matcher(pattern)(name) is expected


def test_many_stars_end() -> None:
    assert not matcher("*a" * 100 + "b")("a" * 1000)


@given(some.text(max_size=30), some.text(max_size=30))
def test_any_text_is_a_pattern_or_refused(pattern: str, name: str) -> None:
    try:
        found = select_tensors([name], layers=[pattern])
    except (InvalidPattern, NoLayerMatches):
        return
    assert found == [name]


@settings(max_examples=50)
@given(some.lists(components, min_size=1, unique=True), some.data())
def test_selection_keeps_order_and_partitions(names: list[str], drawn: some.DataObject) -> None:
    part = drawn.draw(some.sampled_from([p for n in names for p in n.split(".") if p] or ["x"]))
    try:
        selected = select_tensors(names, layers=[part])
    except NoLayerMatches:
        assert not any(part in name.split(".") for name in names)
        return
    assert selected == [name for name in names if part in name.split(".")]
    rest = select_tensors(names, layers=[], exclude=[part])
    assert sorted(selected + rest) == sorted(names)


def test_the_tree_counts_what_lies_below() -> None:
    tree = layer_tree([("a.b.w", "F32", 8), ("a.c", "F16", 2), ("d", "F32", 4)])
    assert (tree.tensors, tree.size, tree.dtypes) == (3, 14, {"F32", "F16"})
    assert list(tree.children) == ["a", "d"]
    assert (tree.children["a"].tensors, tree.children["a"].size) == (2, 10)
    assert list(tree.children["a"].children) == ["b", "c"]


def test_the_tree_has_numbers_in_their_order() -> None:
    names = ("h.0.w", "h.1.w", "h.10.w", "h.2.w", "b.x", "b.a")
    tree = layer_tree([(name, "F32", 4) for name in names])
    assert list(tree.children["h"].children) == ["0", "1", "2", "10"]
    assert list(tree.children["b"].children) == ["x", "a"]


def test_the_tree_takes_names_of_any_length_and_depth() -> None:
    long, deep = "9" * 10_000, ".".join("1" * 5_000)
    tree = layer_tree([(long, "F32", 4), ("10", "F32", 4), ("2", "F32", 4), (deep, "F32", 4)])
    assert list(tree.children) == ["1", "2", "10", long]


def test_patterns_are_split_once_each() -> None:
    assert split_patterns(["a, b", "b,c"]) == ["a", "b", "c"]
