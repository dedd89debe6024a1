"""The commands of clients and coordinator: what they print, for people and for programs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fedica.cli import app
from fedica.cli.pages import cli_page
from fedica.exchange import read_folder, read_study, write_contribution
from fedica.records import Contribution
from fedica.report import headline
from fedica.simulate import federation

PROGRAM = [sys.executable, "-c", "from fedica.cli import main; main()"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with six clients' data, which is the current folder; the last one's is noise."""
    monkeypatch.chdir(tmp_path)
    fed = federation(6, 3, n_features=4, n_samples=1500, condition=2, random_state=1)
    for k, client in enumerate(fed.clients):
        X = np.random.default_rng(9).laplace(size=(1500, 4)) if k == 5 else client.X
        np.savetxt(f"client-{k}.csv", X, delimiter=",", header="a,b,c,d", comments="")
    return tmp_path


def run(line, code=0, **options):
    result = CliRunner().invoke(app, line.split(" "), prog_name="fedica", **options)
    assert result.exit_code == code, (result.output, result.exception)
    return result


def contribute_all(folder="inbox"):
    Path(folder).mkdir()
    for k in range(6):
        run(f"local client-{k}.csv -o {folder}/client-{k}.safetensors --components 3 --quiet")


def test_local_lists_what_leaves_and_what_does_not(place):
    """Every field with its size; the same list without writing."""
    shown = run("local client-0.csv -o mine.safetensors --components 3 --dry-run").stdout
    assert not Path("mine.safetensors").exists()
    written = run("local client-0.csv -o mine.safetensors --components 3").stdout
    assert "What would leave (nothing was written):" in shown
    size = Path("mine.safetensors").stat().st_size
    assert f"mine.safetensors: {size} bytes. Send this file" in written
    for part in ("4 x 3 numbers, from", "n_samples", "1500", "What does not leave:", "not one value of it"):
        assert part in shown
        assert part in written


def test_loudness(place):
    """Quiet prints nothing, verbose says on stderr what is done, JSON is one object and nothing else."""
    quiet = run("local client-0.csv -o a.safetensors --quiet")
    assert (quiet.stdout, quiet.stderr) == ("", "")
    loud = run("local client-0.csv -o a.safetensors -v")
    assert "reading client-0.csv" in loud.stderr
    assert "fitting ICA to 1500 samples of 4 features" in loud.stderr
    machine = run("local client-0.csv -o a.safetensors --json")
    assert json.loads(machine.stdout)["client"] == "a"
    assert machine.stderr == ""


def test_inspect_shows_every_file_of_the_story(place):
    """Contribution, aggregate, details, study, summary, public key."""
    contribute_all()
    run("aggregate inbox -o result --quiet")
    run("study new --id s --from client-0.csv -o study.json --quiet")
    run("keygen c -o keys --quiet")
    files = [
        *("inbox/client-0.safetensors", "result/aggregate.safetensors", "result/details.safetensors"),
        *("result/summary.json", "study.json", "keys/c.pub"),
    ]
    shown = json.loads(run(f"inspect --json {' '.join(files)}").stdout)["files"]
    formats = ["contribution", "aggregate", "details", "summary", "study", "key"]
    assert [item["format"] for item in shown] == [f"fedica.{name}" for name in formats]
    assert shown[4]["fields"]["features"]["value"] == "4: a, b, c, d"
    text = run(f"inspect {files[0]}").stdout
    assert "4 x 3 numbers" in text
    assert "SHA-256" in text


def test_aggregate_ends_with_whom_not_to_trust(place):
    """Named with verdict and reason, plain in a pipe; and what withdrawing it changes."""
    contribute_all()
    shown = run("aggregate inbox -o result --components 3").stdout
    assert "client-5" in shown
    assert "outlying" in shown
    assert "5 of 6 clients agree on 3 components; 1 is outlying: client-5" in " ".join(shown.split())
    assert "\x1b" not in shown
    without = run("aggregate inbox -o without --components 3 --exclude client-5").stdout
    assert "Against the aggregate with the withdrawn clients:" in without
    assert "clients that left: client-5" in without
    assert "withdrawn by the coordinator" in without
    failed = run("aggregate inbox -o doubted --components 3 --fail-on outlying", code=3)
    assert "Not to be relied on: 1 of 6 clients is outlying: 'client-5'" in failed.stderr
    assert Path("doubted/aggregate.safetensors").exists()
    run("aggregate inbox -o fine --components 3 --exclude client-5 --fail-on outlying")


def test_the_judgement_in_words_is_the_headline_of_the_report(place):
    """On the terminal, in JSON and on the page: one sentence, the same."""
    contribute_all()
    shown = run("aggregate inbox -o result --components 3 --report").stdout
    told = headline(read_folder("result").aggregate)
    assert " ".join(str(told).split()) in " ".join(shown.split())
    fields = json.loads(run("aggregate inbox -o other --components 3 --json").stdout)
    assert (fields["headline"], fields["warning"]) == (str(told), told.warning)
    page = unescape(re.sub(r"<[^>]+>", "", Path("result/report.html").read_text(encoding="utf-8")))
    assert told.agreement in page


def test_aggregate_writes_the_page_for_people_when_asked(place):
    """--report puts report.html beside the result, and it names the outlying client."""
    contribute_all()
    run("aggregate inbox -o result --components 3 --report --quiet")
    page = Path("result/report.html").read_text(encoding="utf-8")
    assert "client-5" in page
    assert "5 of 6 clients agree on 3 components" in page


def test_a_late_client_keeps_the_order(place):
    """The summary for programs says which component is which."""
    contribute_all()
    late = Path("inbox/client-2.safetensors")
    late.rename("late.safetensors")
    run("aggregate inbox -o old --components 3 --exclude client-5 --quiet")
    line = "aggregate inbox late.safetensors -o new --components 3 --exclude client-5 --like old --json"
    change = json.loads(run(line).stdout)["change"]
    assert change["places"] == [0, 1, 2]
    assert change["joined"] == ["client-2"]
    assert max(change["angles"]) < 10


def test_signed_from_end_to_end(place):
    """Keys, signed files, a folder of trusted keys; an unsigned one stays outside."""
    Path("inbox").mkdir()
    run("study new --id s --from client-0.csv --components 3 -o study.json --quiet")
    for k in range(3):
        run(f"keygen client-{k} -o private --quiet")
        run(f"local client-{k}.csv --study study.json --key private/client-{k}.key -o inbox/{k}.safetensors --quiet")
    assert os.name == "nt" or Path("private/client-0.key").stat().st_mode & 0o077 == 0
    Path("keys").mkdir()
    for public in Path("private").glob("*.pub"):
        public.rename(Path("keys") / public.name)
    run("local client-3.csv --study study.json -o inbox/3.safetensors --quiet")
    line = "aggregate inbox --study study.json --trust-keys keys -o result --json"
    summary = json.loads(run(line).stdout)
    assert summary["n_clients"] == 3
    assert [row["verified"] for row in summary["contributions"]] == [True] * 3
    assert "unsigned" in summary["rejected"][0]["reason"]
    run(f"{line} --require-all", code=1)


def test_a_study_is_what_was_asked_for(place):
    """From a file of names or from data; it is not replaced."""
    run(
        "study new --id s --from client-0.csv --unit uV --scale 2.5 --components 3 --independence features "
        "--min-samples 50 --declare-samples no -o study.json"
    )
    study = read_study("study.json")
    assert (study.id, tuple(study.features), study.n_components) == ("s", ("a", "b", "c", "d"), 3)
    assert study.units == ("uV",) * 4
    assert study.scales == (2.5,) * 4
    assert (study.independence, study.min_samples, study.declare_samples) == ("features", 50, "no")
    assert "there is a study already" in run("study new --id t --from client-0.csv -o study.json", code=1).stderr


def test_apply_says_which_sources_are_better(place):
    """As csv, with the number of each component in the header."""
    contribute_all()
    run("aggregate inbox -o result --components 3 --quiet")
    shown = run("apply result/aggregate.safetensors client-0.csv -o sources.csv")
    assert "independent than those of its own fit" in shown.stdout
    assert Path("sources.csv").read_text().startswith("component_0,component_1,component_2\n")
    said = json.loads(run("apply result client-0.csv -o sources.npy --json").stdout)
    assert said["components"] == [0, 1, 2]
    assert said["more_independent"] is (said["global_dependence"] < said["own_dependence"])


def test_asked_on_a_terminal_about_doubtful_columns(place, monkeypatch):
    """The answer decides; the rest of the run is the same."""
    text = Path("client-0.csv").read_text().replace("a,b", "id,b", 1)
    Path("doubt.csv").write_text(text)
    monkeypatch.setattr("fedica.cli.output.Output.may_ask", property(lambda self: True))
    for answer, names in (("y\n", "4: id, b, c, d"), ("n\n", "3: b, c, d")):
        result = run("local doubt.csv -o a.safetensors --components 2", input=answer)
        assert "Column 'id' holds an identifier, by its name. Use it all the same?" in result.stderr
        assert names in result.stdout


def test_completion_is_there():
    """The shell's script is printed."""
    environment = {**os.environ, "_FEDICA_COMPLETE": "complete_bash", "COMP_WORDS": "fedica agg", "COMP_CWORD": "1"}
    result = subprocess.run(PROGRAM, capture_output=True, text=True, env=environment, timeout=600, check=False)
    assert "aggregate" in result.stdout


def test_the_page_of_the_commands_is_up_to_date():
    """docs/cli.md is what ``python -m fedica.cli.pages`` prints."""
    page = Path(__file__).parents[2] / "docs" / "cli.md"
    assert page.read_text(encoding="utf-8") == cli_page()


def test_two_unrelated_clients_do_not_agree(place):
    """The command says so, and writes nothing for the clients."""
    Path("two").mkdir()
    for k in range(2):
        atoms = np.random.default_rng(k).standard_normal((20, 4))
        write_contribution(Contribution(f"c{k}", atoms, 5000), f"two/c{k}.safetensors")
    told = run("aggregate two --components 4 -o result").stdout
    assert "Nobody agrees: the atoms of the 2 clients are no more alike than chance makes them." in told
    assert "All clients agree" not in told
    assert "nothing in it may go to the clients" in told
    assert not Path("result/aggregate.safetensors").exists()


def test_a_study_that_names_an_identifier_says_so(place):
    """Every client would fit it, because the study tells it to."""
    Path("names.txt").write_text("x\npatient_id\ny\n")
    told = run("study new --id s --features names.txt -o other.json").stderr
    assert "Study 's' has the feature 'patient_id', which is an identifier, by its name" in told
