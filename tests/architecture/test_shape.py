"""Code stays in pieces that a person reads at one sitting."""

import ast
import statistics

from tests.architecture.test_walls import ROOT, sources


def function_lengths() -> list[int]:
    """Lines of code of each function, its docstring left out."""
    lengths = []
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = node.body[1] if ast.get_docstring(node) and node.body[1:] else node.body[0]
                assert node.end_lineno is not None
                lengths.append(node.end_lineno - first.lineno + 1)
    return lengths


def test_functions_are_short():
    lengths = function_lengths()
    assert statistics.median(lengths) <= 10
    assert statistics.quantiles(lengths, n=20)[-1] <= 30
    assert max(lengths) <= 80


def test_files_are_short():
    lengths = {str(p.relative_to(ROOT)): len(p.read_text().splitlines()) for p in sources()}
    assert statistics.median(lengths.values()) <= 120
    assert statistics.quantiles(lengths.values(), n=20)[-1] <= 300
    assert {name: lines for name, lines in lengths.items() if lines > 400} == {}
