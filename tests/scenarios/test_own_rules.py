"""Rules of a user's own: what they change, what is refused, and what a stored run keeps of them."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest

import kafkasim
from kafkasim.scenarios.cli import invoke
from kafkasim.scenarios.language import library
from kafkasim.scenarios.language.files.rules import rules_file, shown, with_digests
from kafkasim.scenarios.variants.compose import compose, only_mode, variant_of
from kafkasim.scenarios.variants.own_listing import all_rules
from kafkasim.scenarios.variants.variant import VariantError

SCRIPT = "B06-isr-expand-at-hw"
AT_HIGH_WATERMARK = """
    from kafkasim.model.replication.rules import ReplicationRules

    class AtHighWatermark(ReplicationRules):
        '''A follower joins the ISR when it has reached the high watermark.'''

        def reaches_epoch_start(self, follower_end, leader_epoch_start):
            return {}
"""


@pytest.fixture(name="write")
def _write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    def written(body: str = AT_HIGH_WATERMARK.format("True"), name: str = "isr.py") -> str:
        (tmp_path / name).write_text(dedent(body))
        return name

    return written


def refused(name: str) -> str:
    with pytest.raises(VariantError) as caught:
        compose(with_digests([name], Path(), "--variant"))
    return str(caught.value)


@pytest.mark.slow
def test_a_rule_of_the_users_own_breaks_what_the_built_in_one_breaks(write) -> None:
    own = kafkasim.run(SCRIPT, variants=[write()])
    assert own.digest == kafkasim.run(SCRIPT, variants=[SCRIPT]).digest
    assert (own.verdict, own.anomalies) == ("fail", ["ACKED", "ISRDATA", "lost-write"])
    assert kafkasim.run(SCRIPT).verdict == "pass"
    told = "\n".join(own.explain())
    assert "isr.py is in force, in place of Kafka's replication.reaches_epoch_start" in told
    assert "A follower joins the ISR when it has reached the high watermark." in told


@pytest.mark.slow
def test_a_stored_run_is_not_repeated_with_other_rules(write, capsys) -> None:
    assert invoke(["run", SCRIPT, "--variant", write(), "--seed", "1", "--out", "run"]) == 10
    assert "replay: kafkasim run B06-isr-expand-at-hw --seed 1 --variant isr.py" in (
        capsys.readouterr().out
    )
    assert invoke(["replay", "run"]) == 0
    assert invoke(["explain", "run"]) == 0
    assert "isr.py is in force, in place of" in capsys.readouterr().out
    write(AT_HIGH_WATERMARK.format("False"))
    assert invoke(["replay", "run"]) == 2
    assert "isr.py was changed since the run" in capsys.readouterr().err
    assert invoke(["explain", "run"]) == 0  # from the trace: the rules are not needed
    assert "isr.py is in force." in capsys.readouterr().out


@pytest.mark.slow
def test_a_shrunk_scenario_has_the_rules_as_they_are_now(write) -> None:
    command = ["shrink", SCRIPT, "--seed", "1", "--variant", write(), "--budget", "3"]
    assert invoke([*command, "--out", "small"]) == 0
    assert invoke(["run", "small/shrunk.toml", "--seed", "1"]) == 10
    write(AT_HIGH_WATERMARK.format("follower_end >= leader_epoch_start"))
    assert invoke(["run", "small/shrunk.toml", "--seed", "1"]) == 0


def test_a_file_is_found_beside_the_scenario_that_names_it(write, tmp_path: Path) -> None:
    write()
    text = library.path(SCRIPT).read_text().replace("[cluster]", "[cluster]\nvariants = ['isr.py']")
    (tmp_path / "mine.toml").write_text(text)
    scenario, _ = library.scenario(str(tmp_path / "mine.toml"))
    (named,) = scenario.cluster.variants
    assert named.startswith(f"{tmp_path}/isr.py#")
    assert shown(named) == "isr.py"
    assert not compose(scenario.cluster.variants).replication.reaches_epoch_start(1, 2) < compose(
        []
    ).replication.reaches_epoch_start(1, 2)


def test_a_search_runs_in_the_mode_that_the_rules_are_of(write) -> None:
    body = "from kafkasim.model.raft.rules import RaftRules\nclass Mine(RaftRules):\n    pass\n"
    assert only_mode([write(body, "raft.py")]) == "kraft"
    assert only_mode([write()]) is None


ONE_WRONG = AT_HIGH_WATERMARK.format("True").replace


@pytest.mark.parametrize(
    ("name", "body", "told"),
    [
        ("isr.py:Nix", AT_HIGH_WATERMARK, "isr.py: there is no class Nix; there is AtHighWat"),
        ("isr.py", "", "isr.py: there is no class of the model's rules: StorageRules, RaftRules"),
        ("isr.py", "x = (", "isr.py:1: not Python: '(' was never closed"),
        ("isr.py", "import nix", "isr.py:1: ModuleNotFoundError: No module named 'nix'"),
        ("isr.py", ONE_WRONG("epoch_start(", "epoch_strt("), "did you mean reaches_epoch_start"),
        ("isr.py", ONE_WRONG("follower_end, ", ""),
         "reaches_epoch_start takes (self, leader_epoch_start), but the rule takes (self, fol"),
        ("isr.py:A", "class A: pass", "isr.py: A is a subclass of none of the model's rules"),
    ],
)  # fmt: skip
def test_a_file_without_usable_rules_is_refused(write, name: str, body: str, told: str) -> None:
    write(body)
    assert told in refused(name)


def test_two_classes_of_a_file_that_override_one_rule_are_alternatives(write) -> None:
    body = dedent(AT_HIGH_WATERMARK.format("True"))
    write(body + body.replace("AtHighWatermark", "Other"))
    assert "name one of them: isr.py:AtHighWatermark" in refused("isr.py")
    assert variant_of("isr.py:Other").rules[0].__name__ == "Other"


def test_a_file_that_is_missing_is_named(capsys) -> None:
    assert invoke(["search", "--variant", "nix.py"]) == 2
    told = "kafkasim: error: --variant: nix.py: cannot be read: No such file or directory\n"
    assert capsys.readouterr().err == told


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run", "search"])
def test_a_rule_that_raises_is_named_with_its_line(write, command: str, capsys) -> None:
    write(AT_HIGH_WATERMARK.format("1 / 0"))
    asked = [command, SCRIPT] if command == "run" else [command, "az-loss", "--seeds", "2"]
    assert invoke([*asked, "--variant", "isr.py"]) == 2
    told = capsys.readouterr().err
    assert "isr.py:8: reaches_epoch_start raised ZeroDivisionError: division by zero" in told
    assert told.count("\n") == 1


@pytest.mark.slow
def test_a_rule_that_breaks_an_assertion_is_a_crash_with_its_name(write, capsys) -> None:
    body = """
        from kafkasim.model.group.rules import GroupRules

        class EagerHandover(GroupRules):
            def reconcile(self, member, target_epoch, target, partition_epoch, owned):
                return super().reconcile(member, target_epoch, target, lambda *_: -1, owned)
    """
    assert invoke(["run", "kip848-slow-member", "--variant", write(body, "eager.py")]) == 1
    told = capsys.readouterr().err
    assert "in update_partition_epochs" in told  # the rule that relied on it
    assert "crash: the model failed with eager.py in force; run the seed without, too" in told


def test_all_rules_are_listed_with_who_overrides_them(capsys) -> None:
    rules = {(rule.part, rule.name): rule for rule in all_rules()}
    assert rules["replication", "reaches_epoch_start"].variants == (SCRIPT,)
    assert all(rule.summary for rule in rules.values())
    assert invoke(["list", "--rules"]) == 0
    printed = capsys.readouterr().out
    assert "from kafkasim.model.replication.rules import ReplicationRules" in printed
    assert (
        "reaches_epoch_start(self, follower_end: int, leader_epoch_start: int) -> bool" in printed
    )
    assert invoke(["list", "--rules", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(rules)


def test_ids_of_built_in_variants_are_no_files() -> None:
    assert rules_file(SCRIPT) is None
    assert with_digests([SCRIPT], Path(), "--variant") == [SCRIPT]
