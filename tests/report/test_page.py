"""The page as a file, the figures of notebooks and papers, and the command."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import shlex
import sys
from dataclasses import replace
from importlib.resources import files

import numpy as np
import plotly.graph_objects as go
import pytest
from numpydoc.validate import validate
from typer.testing import CliRunner

import fedica.report
from fedica import LocalICA, aggregate, refine, score
from fedica.cli import app
from fedica.cli.report import parse_image
from fedica.errors import FormatError, MissingExtraError, OptionError
from fedica.exchange import Provenance, write_folder
from fedica.records import Certificate, Rejection
from fedica.report import (
    headline,
    plot_atoms,
    plot_components,
    plot_likeness,
    plot_spectrum,
    plot_trust,
    render_report,
    show,
    write_figures,
    write_report,
)
from fedica.report.forms import form_of
from fedica.report.provenance import command, facts
from fedica.simulate import federation
from fedica.simulate.atoms import atoms_federation

CHANNELS = ("Fp1", "Fp2", "F3", "F4", "C3", "C4", "P3", "P4", "O1", "O2")
HOSTILE = "</script><script>alert(1)</script>"
PLOTLY = ("4.1.1", "99784e3abfb07b142a15e521a439e6d9addceadb3f79553fd24c72774f0649ba")


@pytest.fixture(scope="module")
def contributions():
    drawn = atoms_federation(6, 3, n_features=4)
    features = ("Fz", "<b>Cz</b>", "P$z$", "🧠")
    names = ["client-a", HOSTILE, "<b>&amp;</b>", "$\\frac$", "🧠", "z" * 200]
    return [
        replace(c, client=name, features=features, study="a <study>")
        for c, name in zip(drawn.contributions, names, strict=True)
    ]


@pytest.fixture(scope="module")
def result(contributions):
    return aggregate(contributions, 3)


def test_the_contents_lead_to_every_section(result):
    """One link for each heading, in their order, with its words."""
    page = render_report(result)
    headings = re.findall(r'<h2 id="([a-z]+-title)">([^<]*)</h2>', page)
    contents = page.split('<nav class="contents"')[1].split("</nav>")[0]
    assert re.findall(r'<a href="#([^"]*)">([^<]*)</a>', contents) == headings
    assert len(headings) == 8


def test_the_page_is_one_file_that_asks_for_nothing(result):
    """No address in any tag but inside the file; no import in its styles; a policy that forbids the rest."""
    text = render_report(result)
    body = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    addresses = re.findall(r"""(?:src|href|action|data-src|srcset)\s*=\s*["']?([^"'\s>]+)""", body)
    assert addresses
    assert all(address.startswith(("#", "data:")) for address in addresses)
    assert "@import" not in body
    assert "url(" not in body
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)[1]
    assert policy.startswith("default-src &#39;none&#39;")


def test_names_never_end_a_script_or_open_a_tag(result):
    """Three scripts: the data and our two; the data come back as they were."""
    text = render_report(result)
    assert len(re.findall(r"</script", text, flags=re.IGNORECASE)) == 3
    assert "<b>" not in re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, flags=re.DOTALL)[1])
    assert data["clients"][str(result.clients.index(HOSTILE))][0] == HOSTILE


def test_without_a_script_everything_but_the_moving_figures_is_there(result):
    """Components are drawn, clients' atoms open by themselves; controls that would do nothing are hidden."""
    text = render_report(result)
    cards = text.split('<article class="card"')[1:]
    assert all(card.count("<details") == 1 and card.count("<li data-client=") == 6 for card in cards)
    assert re.findall(r'<div class="finder"[^>]*>', text)[0].endswith(" hidden>")
    assert text.count('<p class="save" hidden>') == text.count('class="save"') == 3 + len(cards)


def test_reading_order(result):
    """Headline, clients, likeness, spectrum, atoms, components, trust, rejected, provenance."""
    titles = re.findall(r"<h[12][^>]*>([^<]+)</h[12]>", render_report(result))
    assert titles == [
        "5 of 6 clients agree on 3 components; 1 is weak.",
        *("Clients and components", "Likeness and chance", "Number of components", "All atoms", "Components"),
        *("Verdicts", "Rejected", "Provenance"),
    ]


def test_a_result_without_verdicts_or_names_has_a_page_too(result):
    """What is not known is left out, not made up."""
    bare = replace(
        result,
        trust=None,
        certificate=None,
        terms=replace(result.terms, features=None, study=None),
        spectrum=result.spectrum[:0],
    )
    text = render_report(bare)
    assert "no client was judged" in text
    assert "feature_3" in text
    assert ">Study" not in text


def test_of_very_many_clients_those_to_worry_about_are_shown(result, monkeypatch):
    """The page says how many are left out."""
    monkeypatch.setattr(fedica.report.page, "MAX_ROWS", 4)
    text = render_report(result)
    assert "4 clients are shown, outlying and weak ones first; 2 more are in clients.csv." in text
    assert text.count("<tr data-client=") == 8


def test_the_report_goes_into_its_folder(result, tmp_path):
    """By default; or where one says; a new result replaces the folder with it."""
    write_folder(result, tmp_path / "result")
    assert write_report(tmp_path / "result") == tmp_path / "result" / "report.html"
    assert (
        write_report(tmp_path / "result", tmp_path / "page.html")
        .read_text(encoding="utf-8")
        .startswith("<!doctype html>")
    )
    write_folder(result, tmp_path / "result")


def test_an_unwritable_place_is_one_sentence(result, tmp_path):
    """As for every file that fedica writes."""
    with pytest.raises(fedica.errors.InputError, match="cannot be written"):
        write_report(result, tmp_path / "no" / "such" / "folder" / "page.html")
    with pytest.raises(FormatError, match="there is no result folder"):
        write_report(tmp_path / "nothing")


def test_plotly_is_the_one_that_was_checked():
    """The vendored build, its version, its licence."""
    script = files("fedica.report").joinpath("vendor", "plotly-basic.min.js").read_bytes()
    assert (script[:60].split(b" v")[1].split()[0].decode(), hashlib.sha256(script).hexdigest()) == PLOTLY
    assert "MIT License" in files("fedica.report").joinpath("vendor", "LICENSE-plotly.txt").read_text()


# --- provenance -----------------------------------------------------------------------------------------------------


def origins(result, folder):
    return [
        Provenance(c, 100, f"{folder}/{k}.safetensors", 10, "0" * 64, "0.1.0", None, False)
        for k, c in enumerate(result.clients)
    ]


def test_the_command_names_the_files_or_the_folder_that_holds_them_alone(result, tmp_path):
    """A folder with anything else in it would give another result."""
    for k in range(6):
        (tmp_path / f"{k}.safetensors").touch()
    words = shlex.split(command(result, origins(result, tmp_path), "out"))
    assert words[:5] == ["fedica", "aggregate", str(tmp_path), "-o", "out"]
    assert words[5:] == ["--components", "3", "--method", "consensus", "--affinity", "squared", "--random-state", "0"]
    (tmp_path / "another.safetensors").touch()
    words = shlex.split(command(result, origins(result, tmp_path), "out"))
    assert words[2:8] == [str(tmp_path / f"{k}.safetensors") for k in range(6)]
    withdrawn = replace(result, rejected=(Rejection.because("a b", "withdrawn"),))
    words = shlex.split(command(withdrawn, origins(result, tmp_path), "out"))
    assert words[2:7] == [str(tmp_path), "-o", "out", "--exclude", "a b"]


def test_the_command_can_be_parsed_by_the_program(result, tmp_path):
    """Every option exists."""
    import typer

    words = shlex.split(command(result, origins(result, tmp_path), "out"))
    parser = typer.main.get_command(app).commands["aggregate"]
    assert parser.make_context("aggregate", words[2:]).params["components"] == 3


def test_one_client_alone_is_repeated_too(tmp_path):
    """By default the program refuses to publish one client's atoms."""
    alone = aggregate(atoms_federation(1, 3).contributions, 3)
    assert shlex.split(command(alone, origins(alone, tmp_path), "out"))[-4:-2] == ["--affinity", "squared"]
    assert "--min-clients 1" in command(alone, origins(alone, tmp_path), "out")


def test_without_files_the_command_is_python(result):
    """As a call that can be pasted."""
    assert command(result, [], None) == (
        "fedica.aggregate(contributions, 3, method='consensus', affinity='squared', weights=None, n_init=10, "
        "random_state=0)"
    )


def test_facts_say_how_and_how_well(result):
    """Options, terms, proofs; nothing that is not known."""
    shown = facts(result, None)
    assert shown["method"] == "consensus"
    assert shown["study"] == "a <study>"
    assert shown["random state"] == "0"
    assert re.fullmatch(
        r"k-means put the atoms into groups; their squared distance to the centres of their groups is at most [\d.]+% "
        r"above the smallest possible \(proven\)",
        shown["grouping"],
    )
    assert "aggregated by fedica" not in shown
    median = facts(aggregate(atoms_federation(6, 3).contributions, 3, method="srf-ica"), {"fedica": "0.0.1"})
    assert "times the best median's distance" in median["centres"]
    assert median["aggregated by fedica"] == "0.0.1"


@pytest.mark.parametrize(
    ("objective", "bound", "words"),
    [(1.0, 1.0, "is the smallest possible (proven)"), (3.5, 1.0, "at most 250% above"), (1.0, 0.0, "not be proven")],
)
def test_the_proven_factor_of_kmeans_is_told_in_words(result, objective, bound, words):
    """Exact, far from the bound, and without a bound."""
    proof = Certificate(kmeans_objective=objective, kmeans_lower_bound=bound, median_gap=np.zeros(3))
    assert words in facts(replace(result, certificate=proof), None)["grouping"]


def test_what_second_messages_changed_is_told():
    """Why the step was taken or not, and by how many degrees each component turned."""
    fed = federation(20, 3, n_samples=60, law="laplace", condition=4.0, random_state=1)
    sent = [LocalICA(3, random_state=0).fit(c.X).contribution(c.name) for c in fed.clients]
    first = aggregate(sent, 3)
    result = refine(first, [score(c.X, first, client=c.name) for c in fed.clients])
    told = facts(result, None)["second message"]
    assert told.startswith(f"message 2 of each client: {result.refinement.reason} Components turned")
    assert f"2: {result.refinement.turned[2]:.2f}" in told
    stands = refine(first, [score(c.X, first, client=c.name) for c in fed.clients], min_gain=1e9)
    assert "Nothing was changed." in facts(stands, None)["second message"]
    assert "second message" not in facts(first, None)


# --- notebooks and papers -------------------------------------------------------------------------------------------


def test_what_components_explain_is_told_where_strengths_were_sent(result):
    """In all on the card; of each client for the page's script."""
    assert "<dt>Variance</dt>" not in render_report(result)
    shares = np.full((len(result.clients), result.n_components), np.nan)
    shares[0] = 0.0123
    told = render_report(replace(result, explained_variance=shares, trust=None))
    assert told.count("<dt>Variance</dt><dd>1.2%</dd>") == result.n_components
    assert '"explained":{"0":["1.2%"' in told.replace(" ", "")


@pytest.mark.parametrize("plot", [plot_trust, plot_likeness, plot_spectrum, plot_atoms, plot_components])
def test_figures_of_notebooks_are_plotly_figures(plot, result):
    """Valid for plotly, which checks every field; names of clients never as markup."""
    figure = plot(result)
    assert isinstance(figure, go.Figure)
    assert figure.data
    said = figure.to_json()
    assert "<script" not in said
    assert "<b>&amp;" not in said


@pytest.mark.parametrize("plot", [plot_trust, plot_likeness, plot_spectrum, plot_atoms, plot_components])
def test_both_axes_of_every_figure_say_what_they_show(plot, result):
    """In words, not by position."""
    layout = plot(result).layout
    axes = [layout[name] for name in layout if re.match(r"[xy]axis", name)]
    assert len(axes) >= 2
    assert all(axis.title.text for axis in axes)


def test_long_names_are_whole(result):
    """Of a client of 200 characters: in every table and list of the page, and in lines under the pointer."""
    long = "z" * 200
    page = render_report(result)
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, flags=re.DOTALL)[1])
    assert data["clients"][str(result.clients.index(long))][0] == long
    assert f'<option value="{result.clients.index(long)}">{long}</option>' in page
    assert "line-clamp" not in re.sub(r"@media \(max-width.*", "", page.split("</style>")[0], flags=re.DOTALL)
    hovered = {
        text.replace("<br>", "").replace("\u2068", "").replace("\u2069", "") for text in plot_atoms(result).data[1].text
    }
    assert long in hovered


def test_maps_have_a_colour_bar_with_its_ends():
    """Below the picture, on the page, in notebooks and on paper."""
    sent = [replace(c, features=CHANNELS) for c in atoms_federation(6, 3, n_features=10).contributions]
    found = aggregate(sent, 3)
    cards = render_report(found).split('<article class="card"')[1:]
    for card, column in zip(cards, found.mixing.T, strict=True):
        assert card.count("<stop ") == 11
        assert f">{np.abs(column).max():.2g}</text>" in card
    assert all(trace.colorbar.x is not None for trace in plot_components(found).data)


def test_pictures_of_components_in_notebooks():
    """Images and scalp maps are heat maps, one a component."""
    sent = atoms_federation(6, 3, n_features=10).contributions
    as_image = plot_components(aggregate(sent, 3), image=(2, 5))
    assert [trace.type for trace in as_image.data] == ["heatmap"] * 3
    scalp = plot_components(aggregate([replace(c, features=CHANNELS) for c in sent], 3))
    assert [trace.type for trace in scalp.data] == ["heatmap"] * 3


def test_show_is_a_frame_in_a_notebook_and_a_sentence_elsewhere(result):
    """Sandboxed: the page's scripts cannot reach the notebook."""
    shown = show(result, height=500)
    assert repr(shown) == str(headline(result))
    html = shown._repr_html_()
    assert html.startswith("<iframe srcdoc=")
    assert 'sandbox="allow-scripts allow-downloads"' in html
    assert "height:500px" in html
    assert html.count("<") == 2  # the page itself is one quoted attribute


def test_figures_for_papers_are_svg_and_pdf(result, tmp_path):
    """Four of each; the same twice; hostile names neither mathematics nor warnings."""
    written = write_figures(result, tmp_path / "figures")
    assert sorted(path.name for path in written) == sorted(
        f"{name}.{kind}" for name in ("atoms", "clients", "components", "spectrum") for kind in ("pdf", "svg")
    )
    for path in written:
        start = path.read_bytes()[:40]
        assert start.startswith(b"%PDF" if path.suffix == ".pdf" else b"<?xml")
    again = write_figures(result, tmp_path / "again")
    assert [a.read_bytes() for a in written] == [b.read_bytes() for b in again]


def test_figures_of_images_and_maps(tmp_path):
    """Image and scalp features are drawn as such."""
    sent = atoms_federation(4, 3, n_features=10).contributions
    write_figures(aggregate(sent, 3), tmp_path / "image", image=(2, 5))
    write_figures(aggregate([replace(c, features=CHANNELS) for c in sent], 3), tmp_path / "scalp")
    for kind in ("image", "scalp"):
        assert b"<image" in (tmp_path / kind / "components.svg").read_bytes()


def test_figures_without_matplotlib_say_how_to_install_it(result, tmp_path, monkeypatch):
    """Nothing is written."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"fedica\[figures\]"):
        write_figures(result, tmp_path / "figures")
    assert not (tmp_path / "figures").exists()


@pytest.mark.parametrize("name", fedica.report.__all__)
def test_every_public_name_is_documented(name):
    """Summary, every parameter with type and description, in order."""
    asked = {"GL08", "SS01", "SS03", "PR01", "PR02", "PR03", "PR04", "PR07", "RT03"}
    thing = getattr(fedica.report, name)
    assert [x for x in validate(f"fedica.report.{name}")["errors"] if x[0] in asked] == []
    assert inspect.getdoc(thing)


# --- the command ----------------------------------------------------------------------------------------------------


def test_the_command_writes_the_page_and_the_figures(result, tmp_path):
    """It says the headline, and where the files are."""
    write_folder(result, tmp_path / "result")
    ran = CliRunner().invoke(
        app, ["report", str(tmp_path / "result"), "--figures", str(tmp_path / "figures"), "--image", "2x2"]
    )
    assert ran.exit_code == 0, ran.output
    assert ran.stdout.splitlines()[0] == str(headline(result))
    assert (tmp_path / "result" / "report.html").is_file()
    assert len(list((tmp_path / "figures").iterdir())) == 8
    assert "data:image/png" in (tmp_path / "result" / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nothing-here"], "there is no result folder"),
        (["result", "--image", "big"], "--image must be like 28x28"),
        (["result", "--image", "9x9"], "there are 4 features"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(result, tmp_path, monkeypatch, arguments, sentence):
    """Exit code 1, no traceback, no page."""
    monkeypatch.chdir(tmp_path)
    write_folder(result, "result")
    ran = CliRunner().invoke(app, ["report", *arguments])
    assert ran.exit_code == 1
    assert sentence in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert not (tmp_path / "result" / "report.html").exists()


def test_a_recording_gives_the_places_of_its_electrodes(tmp_path):
    """Channels of any name are drawn as a map where the recording says they are; others are refused in a sentence."""
    mne = pytest.importorskip("mne")
    names = [f"electrode {k}" for k in range(16)]
    turn, height = np.linspace(0, 2 * np.pi, 16, endpoint=False), np.tile([0.05, 0.08], 8)
    places = np.column_stack(
        [np.sqrt(0.01 - height**2) * np.cos(turn), np.sqrt(0.01 - height**2) * np.sin(turn), height]
    )
    raw = mne.io.RawArray(np.zeros((16, 100)), mne.create_info(names, 100.0, "eeg"), verbose="error")
    bare = tmp_path / "bare_raw.fif"
    raw.save(bare, verbose="error")
    raw.set_montage(mne.channels.make_dig_montage(dict(zip(names, places, strict=True)), coord_frame="head"))
    recording = tmp_path / "cap_raw.fif"
    raw.save(recording, verbose="error")
    found = aggregate([replace(c, features=names) for c in atoms_federation(4, 3, n_features=16).contributions], 3)
    write_folder(found, tmp_path / "result")
    ran = CliRunner().invoke(app, ["report", str(tmp_path / "result"), "--like", str(recording)])
    assert ran.exit_code == 0, ran.output
    assert (tmp_path / "result" / "report.html").read_text(encoding="utf-8").count('clip-path="url(#head-') == 3
    form = form_of(found, like=recording)
    radius = np.linalg.norm(form.montage.places, axis=1)
    np.testing.assert_allclose(
        form.montage.places / radius[:, None], np.column_stack([np.cos(turn), np.sin(turn)]), atol=1e-5
    )
    np.testing.assert_allclose(radius, np.degrees(np.arccos(height / 0.1)) / 100, atol=1e-4)
    for like, sentence in ((bare, "positions of 0 electrodes"), (tmp_path / "none_raw.fif", "MNE cannot read it")):
        refused = CliRunner().invoke(app, ["report", str(tmp_path / "result"), "--like", str(like)])
        assert refused.exit_code == 1
        assert sentence in " ".join(refused.stderr.split())
    with pytest.raises(OptionError, match="got those of 0 of 16"):
        form_of(replace(found, terms=replace(found.terms, features=tuple(map(str, range(16))))), like=recording)


def test_image_shapes_are_read_from_the_command_line():
    """Height, then width."""
    assert parse_image("28x32") == (28, 32)
    assert parse_image("auto") == "auto"
    with pytest.raises(OptionError):
        parse_image("28")
