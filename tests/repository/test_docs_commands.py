"""The commands of README and docs: each exists and takes its options; what it reads is there; the cheap ones run."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from balancer.console.commands import cli as balancer
from emulator.cli import main as emulator
from emulator.commands.run import run as run_command
from emulator.commands.run import scenario_of
from emulator.live.job.program import _parser as job_parser
from emulator.runs.runner import make_mechanism
from emulator.runs.scenario import ScenarioError

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "traces" / "README.md", *(ROOT / "docs").rglob("*.md")])
OURS = {"emulator", "balancer", "emulator-job", "python"}
GIVEN = {
    "mine.swf", "torque.swf.gz", "history.csv", "reserve.yaml", "realtime.yaml", "out", "server.yaml", "agent.yaml",
    "site.yaml",
    "/var/spool/torque/server_priv/accounting", "/var/lib/balancer/ledger.db", "/etc/balancer/balancer.yaml",
    "/backup/ledger-monday.db",
}  # fmt: skip
"""What a page has its reader bring along."""
QUICK = re.compile(
    r"emulator (mechanisms|schedulers|report|compare|sweep .*--dry-run|run (?!.*--clock live)|trace (info|generate)"
    r"|trace pack \S+\.xz)|balancer (predictor list|algorithms)"
)
_READ = re.compile(r"(scenarios|traces|tests|benchmarks)/|.*\.yaml$")
SLOW = re.compile(
    r"emulator (reproduce \w+ --quick$|trace weeks|trace pack traces/aps |study merge .*--quick$)"
)


def lines_of(page: Path) -> list[str]:
    """Lines of indented and fenced blocks, those that go on after a backslash joined."""
    found, fenced = [], False
    for line in page.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
        if line.startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            found.append(line.strip().removeprefix("$ "))
    return found


def commands_of(page: Path) -> list[list[str]]:
    """The commands of a page as words, without environment, redirections and comments."""
    found: list[list[str]] = []
    variables: dict[str, str] = {}
    for line in lines_of(page):
        if re.match(r"([A-Za-z_]+=\S* )*(emulator|balancer|emulator-job|python|scripts/[\w-]+)( |$)", line):
            lexer = shlex.shlex(string_with(line, variables), posix=True, punctuation_chars=True)
            lexer.whitespace_split = True
            found += split(list(lexer))
        elif given := re.fullmatch(r'(\w+)="([^"]*)"', line):
            variables[given[1]] = given[2]
    return found


def string_with(line: str, variables: dict[str, str]) -> str:
    for name, value in variables.items():
        line = line.replace(f"${name}", value)
    return line


def split(words: list[str]) -> list[list[str]]:
    """The simple commands of a line that are ours."""
    commands: list[list[str]] = [[]]
    to_file = False
    for word in words:
        if re.fullmatch(r"[;&|()]+", word):
            commands.append([])
        elif re.fullmatch(r"[<>]+", word):
            to_file = True
        elif to_file:
            to_file = False
        elif commands[-1] or not re.fullmatch(r"\w+=.*", word):
            commands[-1].append(word)
    return [words for words in commands if words and (words[0] in OURS or words[0].startswith("scripts/"))]


COMMANDS = [
    pytest.param(command, id=f"{page.relative_to(ROOT)}: {shlex.join(command)}")
    for page in PAGES
    for command in commands_of(page)
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A place like the checkout after the commands before, with what readers bring along."""
    for name in ("scenarios", "traces", "tests", "benchmarks", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    for name in GIVEN:
        path = tmp_path / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for name in ("default", "default-live", "unilu-r7", "unilu-m4"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    for page, file in (("plugins.md", "my.py"), ("own-policy.md", "policies.py")):
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        begin = text.index(f"# {file}\n")
        (tmp_path / file).write_text(text[begin : text.index("```", begin)])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check_click(command: click.Command, name: str, words: list[str]) -> None:
    """Parse without running: unknown commands and options and missing files are errors of click."""
    context = command.make_context(name, words)
    if isinstance(command, click.Group):
        name, found, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        assert found is not None
        check_click(found, str(name), rest)


def check(words: list[str]) -> None:
    missing = [word for word in words if _READ.match(word) and not Path(word).exists()]
    assert missing == []
    program, *rest = words
    if program == "emulator":
        check_click(emulator, program, rest)
    elif program == "balancer":
        check_click(balancer, program, rest)
    elif program == "emulator-job":
        job_parser().parse_args(rest)
    elif program == "python" and rest[0] == "-m":
        assert importlib.util.find_spec(rest[1]) is not None
    elif program != "python" or rest[0] != "-c":
        script = ROOT / (rest.pop(0) if program == "python" else program)
        text = script.read_text(encoding="utf-8")
        assert program == "python" or os.access(script, os.X_OK)
        if script.name == "simulate":
            text = (ROOT / "tests" / "simulation" / "__main__.py").read_text(encoding="utf-8")
        unknown = [word for word in rest if word.startswith("--") and word.partition("=")[0] not in text]
        assert unknown == []


def here(words: list[str], folder: Path) -> list[str]:
    return [f"{folder}{word}" if word in GIVEN and word.startswith("/") else word for word in words]


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_of_the_docs_exists_and_finds_its_files(words, folder):
    check(here(words, folder))


RUNS = [
    param
    for param in COMMANDS
    if param.values[0][:2] == ["emulator", "run"] and not {*GIVEN, "--from-accounting"} & {*param.values[0]}
]


def make(words: list[str]) -> None:
    """The scenario of `emulator run`, with its mechanism: unknown keys and wrong values are errors."""
    with run_command.make_context("run", words[2:]) as context:
        given = context.params
        names = ("trace", "nodes", "scheduler", "overrun", "time_zone", "seed", "speed")
        make_mechanism(
            scenario_of(given["scenario_file"], given["changes"], **{name: given[name] for name in names})
        )


@pytest.mark.parametrize("words", RUNS)
def test_the_scenario_of_a_command_can_be_made(words, folder):
    make(here(words, folder))


def test_a_wrong_key_of_a_mechanism_is_noticed(folder):
    with pytest.raises(ScenarioError, match="has no parameter 'notice'"):
        make(["emulator", "run", "scenarios/default.yaml", "--set", "mechanism={hybrid: {notice: n}}"])


@pytest.mark.parametrize(
    "words",
    [
        ["emulator", "runn"],
        ["emulator", "run", "--no-such-option"],
        ["emulator", "trace", "info", "scenarios/absent.swf", "--plott", "x"],
        ["emulator", "sweep", "absent.yaml"],
        ["balancer", "ledger", "tale"],
        ["scripts/simulate", "--no-such-option"],
    ],
)
def test_a_wrong_command_is_noticed(words, folder):
    with pytest.raises((click.ClickException, AssertionError)):
        check(words)


def run(words: list[str]) -> None:
    command = {"emulator": emulator, "balancer": balancer}[words[0]]
    done = CliRunner().invoke(command, words[1:], prog_name=words[0])
    assert done.exit_code == 0, done.output


def those(pattern: re.Pattern[str]) -> list[list[str]]:
    """Different commands of all pages but tutorials that match, without those that need what a reader brings along."""
    pages = [param for param in COMMANDS if not str(param.id).startswith("docs/tutorials/")]
    found = {shlex.join(param.values[0]): param.values[0] for param in pages}
    return [words for text, words in found.items() if pattern.match(text) and not GIVEN & {*words}]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_quick_commands_of_the_docs_run(folder):
    # What these have is made by a run of minutes, by a real Slurm, and by another program.
    elsewhere = ("runs/unilu-r7", "runs/mine", "runs/mine/results", "THEIRS.csv")
    commands = [words for words in those(QUICK) if not {*elsewhere}.intersection(words)]
    assert len(commands) > 15
    for name in ("default", "default-live"):  # in virtual time both
        run(["emulator", "run", "scenarios/default.yaml", "--out", f"runs/{name}"])
    # Folders named by a page are made before another command of the page reads them.
    for words in sorted(
        commands, key=lambda words: ("--out" not in words, words[1] not in {"report", "compare"})
    ):
        run(words)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["first-run", "own-log"])
def test_the_quick_commands_of_a_tutorial_run_one_after_the_other(name, folder):
    texts = [shlex.join(words) for words in commands_of(ROOT / "docs" / "tutorials" / f"{name}.md")]
    quick = [shlex.split(text) for text in texts if QUICK.match(text) and "default-live" not in text]
    assert len(quick) > 3
    for words in quick:
        if words[1:2] == ["compare"]:
            done = CliRunner().invoke(emulator, words[1:], prog_name="emulator")
            assert done.exit_code in {0, 1}, done.output  # 1: the two differ, with --same
        else:
            run(words)


def slower() -> list[Any]:
    """Papers are rerun at night: each takes a minute or more of all cores (`test_claims.py` runs one with few runs)."""
    return [
        pytest.param(
            words,
            id=shlex.join(words),
            marks=[pytest.mark.nightly] if words[1] == "reproduce" else [],
        )
        for words in those(SLOW)
    ]


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("words", slower())
def test_the_slower_commands_of_the_docs_run(words, folder):
    run(words)


def test_the_sweep_of_the_page_is_the_one_in_the_checkout():
    (block,) = re.findall(
        r"```yaml\n(.*?)```", (ROOT / "docs" / "sweeps.md").read_text(encoding="utf-8"), re.DOTALL
    )
    file = ROOT / "scenarios" / "sweeps" / "reserve.yaml"
    assert yaml.safe_load(block) == yaml.safe_load(file.read_text(encoding="utf-8"))
