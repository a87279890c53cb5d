from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from scripts import requirements

TITLES = "# Contract\n- TIM-1 Triggers\n- TIM-2 Cron\n- EXE-1 States\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An empty project, one folder down so that a shared folder can stand beside it."""
    root = tmp_path / "main"
    write(root, "docs/requirements.md", TITLES)
    return root


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(text))


def proven_by(project: Path, source: str) -> dict[str, list[str]]:
    write(project, "tests/test_it.py", source)
    report = requirements.examine(project)
    assert report.problems == []
    return report.tests


def test_a_mark_on_a_function(project: Path) -> None:
    source = """
        @pytest.mark.req("TIM-1", "EXE-1")
        async def test_fires(): ...
    """
    assert proven_by(project, source) == {
        "TIM-1": ["tests/test_it.py::test_fires"],
        "EXE-1": ["tests/test_it.py::test_fires"],
    }


def test_marks_of_module_class_and_function_add_up(project: Path) -> None:
    source = """
        pytestmark = [pytest.mark.req("TIM-1"), pytest.mark.timeout(5)]

        @pytest.mark.req("TIM-2")
        class TestCron:
            @mark.req("EXE-1", "TIM-1")
            def test_names(self): ...

        def test_plain(): ...
    """
    assert proven_by(project, source) == {
        "TIM-1": ["tests/test_it.py::TestCron::test_names", "tests/test_it.py::test_plain"],
        "TIM-2": ["tests/test_it.py::TestCron::test_names"],
        "EXE-1": ["tests/test_it.py::TestCron::test_names"],
    }


def test_a_class_whose_tests_are_inherited_counts_itself(project: Path) -> None:
    source = """
        class TestMemory(StoreConformance):
            pytestmark = pytest.mark.req("TIM-1")
    """
    assert proven_by(project, source) == {"TIM-1": ["tests/test_it.py::TestMemory"]}


def test_marks_inside_parametrize(project: Path) -> None:
    source = """
        @pytest.mark.parametrize("text", [pytest.param("* * * * *", marks=pytest.mark.req("TIM-2")), "@hourly"])
        def test_reads(text): ...
    """
    assert proven_by(project, source) == {"TIM-2": ["tests/test_it.py::test_reads"]}


def test_marks_in_a_list_of_parameters_are_known_by_line(project: Path) -> None:
    source = 'CASES = [pytest.param(1, marks=pytest.mark.req("TIM-2"))]\n'
    assert proven_by(project, source) == {"TIM-2": ["tests/test_it.py:1"]}


def test_the_shipped_conformance_suite_is_read(project: Path) -> None:
    write(
        project,
        "src/mainspring/testing/conformance.py",
        """
        class StoreConformance:
            @pytest.mark.req("EXE-1")
            async def test_claim(self): ...
        """,
    )
    report = requirements.examine(project)
    assert report.tests == {"EXE-1": ["src/mainspring/testing/conformance.py::StoreConformance::test_claim"]}


def test_ids_without_a_test_are_listed_and_are_no_failure(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(project, "tests/test_it.py", '@pytest.mark.req("TIM-2")\ndef test_a(): ...\n')
    assert requirements.main([], root=project) == 0
    shown = capsys.readouterr().out
    assert "TIM-2   Cron\n          tests/test_it.py::test_a" in shown
    assert "Without a test (2): TIM-1, EXE-1" in shown
    assert "1 of 3 contract ids have tests" in shown


def test_an_unknown_id_fails(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(project, "tests/test_it.py", '@pytest.mark.req("TIM-99")\ndef test_a(): ...\n')
    assert requirements.main(["--quiet"], root=project) == 1
    assert "tests/test_it.py::test_a names TIM-99" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("@pytest.mark.req(*IDS)\ndef test_a(): ...\n", "plain strings"),
        ("@pytest.mark.req()\ndef test_a(): ...\n", "plain strings"),
        ('@pytest.mark.req("TIM-1")\ndef helper(): ...\n', "is not a test"),
    ],
)
def test_a_mark_that_proves_nothing_is_a_problem(project: Path, source: str, problem: str) -> None:
    write(project, "tests/test_it.py", source)
    (found,) = requirements.examine(project).problems
    assert problem in found


def test_a_title_given_twice_is_a_problem(project: Path) -> None:
    write(project, "docs/requirements.md", TITLES + "- TIM-1 Again\n")
    assert requirements.examine(project).problems == ["docs/requirements.md lists TIM-1 twice"]


def test_the_ids_must_match_the_shared_contract(project: Path) -> None:
    write(project.parent, "shared/REQUIREMENTS.md", "- TIM-1 Triggers. TIM-2 Cron; see EXE-9 too\n- TIM-3 Zones\n")
    assert requirements.examine(project).problems == [
        "docs/requirements.md lacks TIM-3 of the shared contract",
        "docs/requirements.md has EXE-1, the shared contract has not",
    ]
