"""Trees on a terminal."""

from ai_model_cli.tree import branches


def test_a_tree_reads_like_one():
    links = {"a": ["b", "c"], "b": ["d", "e"], "c": ["d"], "d": ["f"]}
    drawn = [f"{lines}{name}{'!' * again}" for lines, name, again in branches("a", links)]
    assert drawn == ["├─ b", "│  ├─ d", "│  │  └─ f", "│  └─ e", "└─ c", "   └─ d!"]


def test_a_leaf_has_no_branches():
    assert list(branches("a", {})) == []


def test_a_long_line_is_no_matter_of_the_stack():
    links = {n: [n + 1] for n in range(5000)}
    assert sum(1 for _ in branches(0, links)) == 5000


def test_what_leads_back_ends():
    assert [again for _, _, again in branches("a", {"a": ["b"], "b": ["a"]})] == [False, True]
