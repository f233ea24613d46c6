"""``lineage`` and ``find``, typed at a real registry."""

import re

import pytest

TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ")
COMMIT = "3f2a9c1d4e5f60718293a4b5c6d7e8f901234567"


@pytest.fixture
def family(shell, weights):
    """A base, two versions made from it and one made from all of these."""

    def push(name: str, version: str, *more: str) -> None:
        model = ("--model-id", f"family/{name}", "--version", version)
        shell.run("push", str(weights), *model, "--git-commit", COMMIT, *more)

    push("base", "v1", "--dataset", "snli@1.0", "--param", "lr=0.5", "--alias", "stable")
    push("tuned", "v1", "--parent", "family/base@stable", "--param", "lr=3e-5", "--tag", "by=hand")
    push("tuned", "v2", "--parent", "family/base@v1", "--params-file", str(nested(shell.folder)))
    parents = ("family/tuned@v1", "family/tuned@v2", "family/base@v1")
    push("merged", "v1", *(word for parent in parents for word in ("--parent", parent)))
    return shell


def nested(folder):
    (folder / "params.json").write_text('{"optimizer": {"name": "adam", "lr": 0.001}}')
    return folder / "params.json"


def test_lineage_is_a_tree(family):
    lines = family.lines("lineage", "--model-id", "family/tuned")
    assert [TIME.sub("TIME", line) for line in lines] == [
        "family/tuned v2  TIME  3f2a9c1d4e5f",
        "made from:",
        "└─ family/base v1  TIME  snli@1.0  3f2a9c1d4e5f",
        "made into:",
        "└─ family/merged v1  TIME  3f2a9c1d4e5f",
    ]
    up = family.lines("lineage", "--model-id", "family/merged", "--direction", "up")
    assert [TIME.sub("TIME", line).partition("  TIME")[0] for line in up] == [
        "family/merged v1",
        "made from:",
        "├─ family/base v1",
        "├─ family/tuned v1",
        "│  └─ family/base v1 (see above)",
        "└─ family/tuned v2",
        "   └─ family/base v1 (see above)",
    ]


def test_lineage_says_what_is_not_known_and_what_is_cut(family):
    lines = family.lines("lineage", "--model-id", "family/base", "--max-nodes", "2")
    assert lines[1] == "made from: nothing that is known"
    assert lines[-1] == "More lies beyond --depth or --max-nodes."
    answer = family.json("lineage", "--model-id", "family/base", "--depth", "1")
    assert [(node["version"], node["depth"]) for node in answer["nodes"]] == [
        ("v1", 0), ("v1", 1), ("v2", 1), ("v1", 1),
    ]  # fmt: skip
    assert (len(answer["edges"]), answer["cut"]) == (5, False)
    family.run("lineage", "--model-id", "family/nowhere", code=3)
    family.run("lineage", "--model-id", "family/base", "--direction", "left", code=2)


FOUND = [
    (("--dataset", "snli@1.0"), ["base v1"]),
    (("--dataset", "snli"), ["base v1"]),
    (("--dataset", "snli@2"), []),
    (("--commit", "3f2a"), ["merged v1", "tuned v2", "tuned v1", "base v1"]),
    (("--commit", COMMIT, "--limit", "1"), ["merged v1"]),
    (("--param", "lr=0.00003"), ["tuned v1"]),
    (("--param", "optimizer.lr=1e-3", "--param", "optimizer.name=adam"), ["tuned v2"]),
    (("--tag", "by=hand"), ["tuned v1"]),
    (("--file", "m.safetensors", "--prefix", "family/t"), ["tuned v2", "tuned v1"]),
    (("--created-by", "nobody"), []),
]


def test_find(family):
    for asked, found in FOUND:
        prefix = () if "--prefix" in asked else ("--prefix", "family/")
        versions = family.json("find", *asked, *prefix)["versions"]
        said = [f"{version['model_id']} {version['version']}" for version in versions]
        assert said == [f"family/{name}" for name in found], asked


def test_find_prints_a_table_and_takes_a_bare_digest(family):
    digest = family.json("show", "--model-id", "family/base")["manifest_digest"]
    ours = ("--prefix", "family/")  # other tests push these bytes too
    head, *rows = family.lines("find", "--sha256", digest.removeprefix("sha256:"), *ours)
    assert head.split() == ["MODEL", "VERSION", "CREATED", "BY", "DATASET", "COMMIT", "ALIASES"]
    assert TIME.sub("TIME", rows[-1]).split() == [
        "family/base", "v1", "TIME", "serve", "snli@1.0", "3f2a9c1d4e5f", "stable",
    ]  # fmt: skip
    assert len(rows) == 4, "all four hold the same bytes, so they are one manifest"


@pytest.mark.parametrize(
    "asked",
    [
        ("--sha256", "abc"),
        ("--sha256", "a" * 64, "--file", "m.safetensors"),
        ("--file", "nothing-here"),
        ("--param", "lr"),
        ("--param", "lr=NaN"),
        ("--commit", "main"),
        ("--dataset", "@1"),
        ("--limit", "0"),
    ],
)
def test_find_refuses_what_can_be_true_of_no_version(shell, weights, asked):
    shell.run("find", *asked, code=2)
