"""The habits of the repository: separate jobs in CI, systems that are marked as untried, and hooks that download nothing."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
CI = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
HOOKS = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))


def commands(job):
    return "\n".join(step["run"] for step in CI["jobs"][job]["steps"] if "run" in step)


def test_style_types_tests_and_docs_are_separate_jobs():
    assert "ruff check" in commands("style")
    assert "ruff format --check" in commands("style")
    assert "lint-imports" in commands("style")
    assert "mypy" in commands("types")
    assert "make docs" in commands("docs")
    assert ".ci/run" in commands("test")
    assert all("needs" not in job for job in CI["jobs"].values())


def test_systems_that_were_never_tried_do_not_fail_a_run():
    job = CI["jobs"]["other-systems"]
    assert job["strategy"]["matrix"]["system"] == ["macos-latest", "windows-latest"]
    assert job["continue-on-error"] is True
    assert "have not been tried yet" in (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")


def test_workflows_may_only_read_the_repository():
    assert CI["permissions"] == {"contents": "read"}


def test_hooks_run_tools_of_the_project_and_download_nothing():
    assert [repository["repo"] for repository in HOOKS["repos"]] == ["local"]
    hooks = [hook for repository in HOOKS["repos"] for hook in repository["hooks"]]
    assert {hook["language"] for hook in hooks} == {"system"}
    assert {"ruff-check", "ruff-format", "whitespace", "mypy", "layers"} == {hook["id"] for hook in hooks}
    assert all(re.match(r"\.venv/bin/|git ", hook["entry"]) for hook in hooks)


def test_templates_ask_for_what_a_report_needs():
    folder = ROOT / ".github"
    bug = yaml.safe_load((folder / "ISSUE_TEMPLATE" / "bug_report.yml").read_text(encoding="utf-8"))
    required = {part["id"] for part in bug["body"] if part.get("validations", {}).get("required")}
    assert required == {"what", "reproduce", "doctor"}
    assert yaml.safe_load((folder / "ISSUE_TEMPLATE" / "feature_request.yml").read_text(encoding="utf-8"))["body"]
    assert "CHANGELOG.md" in (folder / "pull_request_template.md").read_text(encoding="utf-8")
