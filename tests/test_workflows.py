"""The workflows of .github, which cannot run here: they call what there is, with the Pythons that ibkeys is for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TARGETS = set(re.findall(r"^([a-z]+(?: [a-z]+)*):", (ROOT / "Makefile").read_text(), re.M))


def jobs(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(path.read_text())
    return document["jobs"]


def matrix_of(job: dict[str, Any]) -> dict[str, list[str]]:
    return job.get("strategy", {}).get("matrix", {})


def test_each_has_jobs_that_may_read_only() -> None:
    assert [path.stem for path in WORKFLOWS] == ["build", "test"]
    for path in WORKFLOWS:
        document = yaml.safe_load(path.read_text())
        assert document["permissions"] == {"contents": "read"}
        for name, job in document["jobs"].items():
            assert job["timeout-minutes"], name


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_what_they_make_is_in_the_makefile(path: Path) -> None:
    targets = {target for line in TARGETS for target in line.split()}
    for job in jobs(path).values():
        called = [word for step in job["steps"] for word in re.findall(r"^make (?:-C \S+ )?(\S+)", step.get("run", ""))]
        for word in called:
            for target in matrix_of(job)["target"] if "matrix.target" in word or word == "${{" else [word]:
                assert target in targets


def test_they_run_with_each_python_that_ibkeys_is_for_and_the_oldest_click() -> None:
    pythons = [
        each.rpartition(" ")[2]
        for each in PROJECT["classifiers"]
        if re.search(r"Python :: \d+\.\d+$", each) is not None
    ]
    assert f">={pythons[0]}" == PROJECT["requires-python"]
    for path, name in (("test", "python"), ("build", "install")):
        job = jobs(ROOT / ".github" / "workflows" / f"{path}.yml")[name]
        assert matrix_of(job)["python"] == pythons
    oldest = matrix_of(jobs(ROOT / ".github" / "workflows" / "test.yml")["python"])["click"][0]
    (needed,) = [each for each in PROJECT["dependencies"] if each.startswith("click")]
    assert needed == f"click>={oldest.removeprefix('==')}"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_of_others_are_named_with_a_version(path: Path) -> None:
    for job in jobs(path).values():
        for step in job["steps"]:
            assert re.fullmatch(r"actions/[a-z-]+@v\d+\.\d+\.\d+", step.get("uses", "actions/x@v1.0.0"))
