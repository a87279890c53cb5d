"""Print each contract id of docs/requirements.md with the tests that carry `@pytest.mark.req("ID")`.

Marks are read from the source: on functions, on classes, inside `parametrize`, and as `pytestmark` of a module or
class; in tests/ and in the conformance suite that ships in src/mainspring/testing/. The exit code is 1 when a test
names an id that does not exist, when a mark cannot be read, or when docs/requirements.md and the shared contract
(../shared/REQUIREMENTS.md, where present) list different ids.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEST_FOLDERS = ("tests", "src/mainspring/testing")
TITLE_LINE = re.compile(r"^- ([A-Z]{3}-\d+) (\S.*)$")
CONTRACT_ID = re.compile(r"(?:^- |\. )([A-Z]{3}-\d+) ")  # several ids may share a line

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Report:
    titles: dict[str, str]
    tests: dict[str, list[str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def unproven(self) -> list[str]:
        return [name for name in self.titles if name not in self.tests]


class MarkReader:
    """Collects (id, test) pairs of one file; what it cannot read becomes a problem."""

    def __init__(self, path: str, source: str) -> None:
        self.path = path
        self.pairs: list[tuple[str, str]] = []
        self.problems: list[str] = []
        self._seen: set[ast.Call] = set()
        module = ast.parse(source, filename=path)
        self._read_body(module.body, path, self._own_marks(module.body))
        self._read_strays(module)

    def _read_body(self, body: list[ast.stmt], owner: str, inherited: list[str]) -> int:
        """Attach marks to the tests in a module or class; says how many tests there were."""
        tests = 0
        for node in body:
            if isinstance(node, ast.ClassDef):
                own = self._ids_in(node.decorator_list) + self._own_marks(node.body)
                name = f"{owner}::{node.name}"
                found = self._read_body(node.body, name, inherited + own)
                if own and not found:  # its tests are inherited
                    self._attach(own, name)
                tests += found
            elif isinstance(node, Function):
                own = self._ids_in(node.decorator_list)
                if node.name.startswith("test"):
                    self._attach(inherited + own, f"{owner}::{node.name}")
                    tests += 1
                elif own:
                    self._problem(node, f"{node.name} carries a req mark but is not a test")
        return tests

    def _own_marks(self, body: list[ast.stmt]) -> list[str]:
        """The ids in `pytestmark = ...` of a module or class."""
        values = [node.value for node in body if isinstance(node, ast.Assign | ast.AnnAssign) and _is_pytestmark(node)]
        return self._ids_in([value for value in values if value is not None])

    def _read_strays(self, module: ast.Module) -> None:
        """Marks in parameter lists kept apart from their test: known by their line."""
        for call in _req_calls(module):
            if call not in self._seen:
                self._attach(self._ids_of(call), f"{self.path}:{call.lineno}")

    def _ids_in(self, expressions: list[ast.expr]) -> list[str]:
        return [name for expression in expressions for call in _req_calls(expression) for name in self._ids_of(call)]

    def _ids_of(self, call: ast.Call) -> list[str]:
        self._seen.add(call)
        ids = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        if not call.args or call.keywords or len(ids) != len(call.args):
            self._problem(call, 'req takes ids as plain strings: @pytest.mark.req("TIM-1", "TIM-5")')
        return ids

    def _attach(self, ids: list[str], test: str) -> None:
        self.pairs += [(name, test) for name in dict.fromkeys(ids)]

    def _problem(self, node: ast.stmt | ast.expr, text: str) -> None:
        self.problems.append(f"{self.path}:{node.lineno}: {text}")


def _is_pytestmark(node: ast.Assign | ast.AnnAssign) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(target, ast.Name) and target.id == "pytestmark" for target in targets)


def _req_calls(node: ast.AST) -> Iterator[ast.Call]:
    """Every `pytest.mark.req(...)` or `mark.req(...)` at or below the node."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "req":
            owner = call.func.value
            if (owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", None)) == "mark":
                yield call


def read_titles(text: str) -> tuple[dict[str, str], list[str]]:
    titles: dict[str, str] = {}
    problems = []
    for line in text.splitlines():
        if match := TITLE_LINE.match(line):
            name, title = match.groups()
            if name in titles:
                problems.append(f"docs/requirements.md lists {name} twice")
            titles[name] = title
    return titles, problems


def compare_with_contract(titles: dict[str, str], contract: str) -> list[str]:
    wanted = {name for line in contract.splitlines() if line.startswith("- ") for name in CONTRACT_ID.findall(line)}
    missing = [f"docs/requirements.md lacks {name} of the shared contract" for name in sorted(wanted - set(titles))]
    extra = [f"docs/requirements.md has {name}, the shared contract has not" for name in sorted(set(titles) - wanted)]
    return missing + extra


def examine(root: Path) -> Report:
    titles, problems = read_titles((root / "docs/requirements.md").read_text(encoding="utf-8"))
    contract = root.parent / "shared/REQUIREMENTS.md"
    if contract.exists():
        problems += compare_with_contract(titles, contract.read_text(encoding="utf-8"))
    report = Report(titles, problems=problems)
    for folder in TEST_FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            reader = MarkReader(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))
            report.problems += reader.problems
            for name, test in reader.pairs:
                if name in titles:
                    report.tests.setdefault(name, []).append(test)
                else:
                    report.problems.append(f"{test} names {name}, which docs/requirements.md does not have")
    return report


def show(report: Report, *, quiet: bool) -> None:
    if not quiet:
        for name, title in report.titles.items():
            print(f"{name:<7} {title}")
            for test in report.tests.get(name, []):
                print(f"          {test}")
        print(f"\nWithout a test ({len(report.unproven)}): {', '.join(report.unproven) or 'none'}")
    print(f"{len(report.titles) - len(report.unproven)} of {len(report.titles)} contract ids have tests")


def main(argv: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quiet", action="store_true", help="only the totals and what is wrong")
    arguments = parser.parse_args(argv)
    report = examine(root)
    show(report, quiet=arguments.quiet)
    for problem in report.problems:
        print(f"error: {problem}", file=sys.stderr)
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
