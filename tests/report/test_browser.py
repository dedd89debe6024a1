"""The report in a real Chromium: quiet, alone, right, alive, tidy, and open to everybody."""

from __future__ import annotations

import struct
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from fedica.report import headline
from fedica.text import show_text

BOXES = Path(__file__).with_name("boxes.js").read_text(encoding="utf-8")
CASES = ["demo", "attack", "alone", "large", "images", "hostile", "scalp", "slices"]
SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"


@pytest.fixture(scope="module", params=CASES)
def opened(request, make_case, chrome):
    """A report, open in the browser; what it said and asked for."""
    case = make_case(request.param)
    chrome.open(case.path)
    return case, chrome, chrome.complaints(), chrome.requests()


def rows(chrome, table, column):
    """Texts of one column of a table, as they stand."""
    cells = "Array.from(document.getElementById(arguments[0]).tBodies[0].rows, (row) => row.cells[arguments[1]])"
    return chrome.run(f"return {cells}.map((cell) => cell.innerText)", table, column)


def click(chrome, selector):
    chrome.run("document.querySelector(arguments[0]).click()", selector)


def test_the_page_is_quiet_and_asks_for_nothing(opened):
    """No word on the console; the only address asked for is the file itself."""
    case, _, complaints, requests = opened
    assert complaints == []
    assert [address for address in requests if not address.startswith("data:")] == [case.path.resolve().as_uri()]


def test_it_is_small(opened):
    """Under 8 MB: 300 clients x 20 components too. How soon it is made and ready, `make bench` measures."""
    case, _, _, _ = opened
    assert case.path.stat().st_size < 8e6


def test_the_headline_names_the_right_clients(opened):
    """As many as there are; the outlying ones by name, as text."""
    case, chrome, _, _ = opened
    lead = chrome.run("return document.querySelector('.lead').innerText")
    title = chrome.run("return document.querySelector('h1').textContent")
    said = headline(case.aggregate)
    assert title.startswith(said.agreement)
    named = chrome.run("return Array.from(document.querySelectorAll('.lead .pick'), (x) => x.textContent)")
    doubted = set(case.aggregate.trust.named("outlying")) | set(case.aggregate.trust.named("weak"))
    assert set(case.outlying) <= doubted
    assert set(named) <= doubted
    assert len(named) == sum(len(group.named) for group in said.doubts)
    if len(case.outlying) > len(named):
        assert f"and {len(case.outlying) - len(named)} more" in lead


def test_clicking_a_client_highlights_it_everywhere(opened):
    """Heat map, table of trust, cards, chooser and map of atoms show the same client; a second click lets go."""
    case, chrome, _, _ = opened
    client = case.aggregate.clients[-1]
    number = len(case.aggregate.clients) - 1
    button = f"#heat .pick[data-client='{number}']"
    click(chrome, button)
    for table in ("heat", "trust-table"):
        selected = chrome.run(
            "return Array.from(document.querySelectorAll(`#${arguments[0]} tr.selected .pick`), (x) => x.textContent)",
            table,
        )
        assert selected == [client]
    assert chrome.run("return document.getElementById('choose').value") == str(number)
    assert chrome.run("return document.querySelector(arguments[0]).getAttribute('aria-pressed')", button) == "true"
    mine = chrome.run("return Array.from(document.querySelectorAll('.card .mine'), (x) => [x.hidden, x.innerText])")
    assert not any(hidden for hidden, _ in mine)
    angles = case.aggregate.trust.angles[number]
    for (_, text), angle in zip(mine, angles, strict=True):
        shown = text.splitlines()[-1]
        assert (
            shown == "no atom" if angle >= 90 else abs(float(shown.removesuffix("°")) - angle) < 0.06
        )  # rounded twice
    marked = chrome.run(
        "const chosen = (trace) => (trace.selectedpoints || []).map((i) => trace.customdata[i][0]);"
        "return document.getElementById('atoms').data.flatMap(chosen)"
    )
    assert len(marked) == int((case.aggregate.client_of_atom == number).sum())
    assert set(marked) == {number}
    click(chrome, button)
    assert chrome.run("return document.querySelectorAll('tr.selected, .mine:not([hidden])').length") == 0


def test_the_chooser_and_the_keyboard_select_too(opened):
    """The list of clients selects; Escape lets go; every control can be reached by the tab key."""
    case, chrome, _, _ = opened
    chrome.run("const s = document.getElementById('choose'); s.value = '0'; s.dispatchEvent(new Event('change'))")
    selected = chrome.run("return document.querySelector('#trust-table tr.selected .pick').textContent")
    assert selected == case.aggregate.clients[0]
    said = chrome.run("return document.getElementById('chosen').textContent")
    assert case.aggregate.trust.reason[0] in said
    chrome.run("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}))")
    assert chrome.run("return document.querySelectorAll('tr.selected').length") == 0
    controls = "Array.from(document.querySelectorAll('button, select, a, summary'))"
    assert chrome.run(f"return {controls}.filter((x) => x.tabIndex < 0).length") == 0


def test_clicking_an_atom_selects_its_client(opened):
    """A click on a point of the map, as plotly reports it."""
    _, chrome, _, _ = opened
    script = """
        const plot = document.getElementById('atoms'), trace = plot.data.length - 1;
        plot.emit('plotly_click', {points: [{customdata: plot.data[trace].customdata[0]}]});
        const row = document.querySelector('#heat tr.selected');
        const found = [plot.data[trace].customdata[0][0], row && Number(row.dataset.client)];
        document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}));
        return found;"""
    clicked, selected = chrome.run(script)
    assert clicked == selected


def test_sorting_sorts(opened):
    """Each column of both tables, up and then down; the heading says so; rows stay whole."""
    case, chrome, _, _ = opened
    before = sorted(rows(chrome, "heat", 0))
    for table, column in (("heat", 2), ("heat", 1), ("trust-table", 3), ("trust-table", 4), ("trust-table", 6)):
        heading = f"#{table} thead th:nth-child({column + 1}) .sort"
        for direction in ("ascending", "descending"):
            click(chrome, heading)
            state = chrome.run(
                "return document.querySelector(arguments[0]).closest('th').getAttribute('aria-sort')", heading
            )
            assert state == direction
            keys = chrome.run(
                "return Array.from(document.getElementById(arguments[0]).tBodies[0].rows, (row) => {"
                " const cell = row.cells[arguments[1]], value = parseFloat(cell.dataset.v ?? cell.textContent);"
                " return isNaN(value) ? 1e9 : value })",
                table,
                column,
            )
            assert keys == sorted(keys, reverse=direction == "descending")
    click(chrome, "#heat thead th:first-child .sort")
    assert sorted(rows(chrome, "heat", 0)) == before
    number = {name: k for k, name in enumerate(case.aggregate.clients)}
    data = chrome.run(
        "const pair = (row) => [row.querySelector('.pick').textContent, row.cells[2].innerText];"
        "return Array.from(document.getElementById('heat').tBodies[0].rows, pair)"
    )
    for client, shown in data:
        likeness = np.cos(np.radians(case.aggregate.trust.angles[number[client], 0]))
        assert shown == "–" or float(shown) == pytest.approx(likeness, abs=0.0051)
    assert chrome.run("return document.querySelectorAll('#heat th[aria-sort]').length") == 1


@pytest.mark.parametrize("width", [1400, 390])
def test_nothing_overlaps_or_sticks_out(opened, width):
    """Measured from boxes, with nothing selected and with a client highlighted; pictures are kept."""
    case, chrome, _, _ = opened
    chrome.resize(width)
    assert chrome.run(BOXES) == []
    chrome.screenshot(SCREENSHOTS / f"{case.name}-{width}-light.png")
    click(chrome, "#heat .pick")
    click(chrome, ".card:nth-child(2) .sent summary, .card .sent summary")
    assert chrome.run(BOXES) == []
    chrome.theme("dark")
    chrome.screenshot(SCREENSHOTS / f"{case.name}-{width}-dark.png")
    chrome.theme("light")
    click(chrome, "#heat .pick")
    click(chrome, ".card .sent[open] summary")


@pytest.mark.parametrize("width", [1400, 390])
def test_long_names_are_whole(make_case, chrome, width):
    """Names of features are read from left to right; those of clients, on a wide page, in two lines at most."""
    chrome.open(make_case("long").path, width=width)
    assert chrome.run(BOXES) == []
    if width == 1400:
        name = "const name = document.querySelector('#heat .pick');"
        lines = "return name.offsetHeight / parseFloat(getComputedStyle(name).lineHeight)"
        assert chrome.run(f"{name} {lines}") < 2.5


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_serious_fault(opened, axe, theme):
    """Contrast, names, headers, regions: nothing serious or critical, in either theme."""
    _, chrome, _, _ = opened
    chrome.resize(1400)
    chrome.theme(theme)
    click(chrome, "#heat .pick")
    chrome.run(
        "document.querySelectorAll('details').forEach((x) => { x.open = true });"
        "document.querySelectorAll('tbody tr:nth-child(n+25), #atoms .points path:nth-child(n+25)')"
        ".forEach((x) => x.remove())"  # all rows and points are alike, and axe looks at each for long
    )
    found = chrome.driver.execute_async_script(
        axe + ";const done = arguments[arguments.length - 1];"
        "axe.run({exclude: ['#atoms svg']}, {resultTypes: ['violations']}).then((found) => done(found.violations),"
        " (error) => done([{id: String(error), impact: 'critical', nodes: []}]))"
    )
    chrome.run("document.querySelectorAll('details').forEach((x) => { x.open = false })")
    click(chrome, "#heat .pick")
    chrome.theme("light")
    serious = [
        (fault["id"], fault["nodes"][0]["html"][:150] if fault["nodes"] else "")
        for fault in found
        if fault["impact"] in ("serious", "critical")
    ]
    assert serious == []


def test_hostile_names_are_text(make_case, chrome):
    """Scripts, tags, templates, very long, right-to-left and emoji names: shown letter by letter, run by nobody."""
    case = make_case("hostile")
    chrome.open(case.path)
    names = set(case.aggregate.clients)
    for table in ("heat", "trust-table"):
        shown = chrome.run(
            "return Array.from(document.querySelectorAll(`#${arguments[0]} .pick`), (x) => x.textContent)", table
        )
        assert set(shown) == names
    features = chrome.run(
        "return Array.from(document.querySelectorAll('.card:first-child .bars th bdi'), (x) => x.textContent)"
    )
    assert features == list(map(show_text, case.aggregate.terms.features))  # marks that turn the writing are spelt out
    assert chrome.run("return document.scripts.length") == 3
    assert (
        chrome.run("return document.querySelectorAll('img, iframe, object, main b, main i:not(.scale i)').length") == 0
    )
    text = chrome.run("return document.querySelector('main').textContent")
    assert "<i>refused</i>" in text
    assert "its atoms are <b>not finite</b>." in text
    for k in range(len(names)):  # a hover label each: plotly would take some tags for markup
        name = case.aggregate.clients[k]
        chrome.run(
            """const client = arguments[0], plot = document.getElementById('atoms');
            const places = plot.data.map((t) => (t.customdata || []).findIndex((about) => about[0] === client));
            const curve = places.findIndex((p) => p >= 0);
            Plotly.Fx.unhover(plot);
            Plotly.Fx.hover(plot, [{curveNumber: curve, pointNumber: places[curve]}]);""",
            k,
        )
        shown = name if len(name) <= 40 else name[:20]
        label = "return document.querySelector('#atoms .hoverlayer').textContent"
        chrome.wait(label, accept=lambda text, shown=shown: shown in text)
    assert chrome.complaints() == []


SENT = "return document.querySelector('.card[data-number=\"1\"] .sent')"


@pytest.mark.parametrize("name", ["images", "scalp", "slices"])
def test_clicking_a_component_shows_what_each_client_sent_beside_it(make_case, chrome, name):
    """A picture for each client that has it, on the right of the component's; a name there selects the client."""
    case = make_case(name)
    chrome.open(case.path)
    assert not chrome.run(f"{SENT}.open")
    chrome.run("document.getElementById('drawing-1').dispatchEvent(new MouseEvent('click', {bubbles: true}))")
    assert chrome.run(f"{SENT}.open")
    shown = f"Array.from({SENT.removeprefix('return ')}.querySelectorAll('li'))"
    assert sorted(chrome.run(f"return {shown}.map((x) => Number(x.dataset.client))")) == sorted(
        set(case.aggregate.client_of_atom[case.aggregate.labels == 1].tolist())
    )
    chrome.wait(f"return {shown}.every((x) => x.querySelector('img').naturalWidth > 20)")
    right = chrome.run("return document.getElementById('drawing-1').getBoundingClientRect().right")
    assert chrome.run(f"return {shown}.every((x) => x.getBoundingClientRect().left >= arguments[0])", right)
    chrome.run(f"{shown}[0].querySelector('.pick').click()")
    assert chrome.run(f"return {shown}.filter((x) => x.matches('.selected')).length") == 1
    others = chrome.run(
        "return Array.from(document.querySelectorAll('.card'), (x) => x.querySelectorAll('.beside img').length)"
    )
    assert others[1] == 0  # its own list shows it
    assert sum(others) == len(
        set(
            case.aggregate.labels[
                case.aggregate.client_of_atom == chrome.run(f"return Number({shown}[0].dataset.client)")
            ].tolist()
        )
        - {1, -1}
    )
    assert chrome.complaints() == []


def numbers(chrome):
    """The components that are shown, in their order."""
    cards = "Array.from(document.querySelectorAll('.card')).filter((x) => x.checkVisibility())"
    return chrome.run(f"return {cards}.map((x) => Number(x.dataset.number))")


def put(chrome, field, value, event):
    """Enter a value as a reader does."""
    chrome.run(
        "const field = document.getElementById(arguments[0]); field.value = arguments[1];"
        "field.dispatchEvent(new Event(arguments[2]))",
        *(field, value, event),
    )


def test_components_are_sorted_by_choice_and_searched(make_case, chrome):
    """By support, spread and number; by numbers, and by parts of the names of features."""
    case = make_case("large")
    chrome.open(case.path)
    r = case.aggregate.n_components
    put(chrome, "order", "spread", "change")
    assert numbers(chrome) == np.argsort(case.aggregate.spread, kind="stable").tolist()
    put(chrome, "order", "support", "change")
    assert numbers(chrome) == np.argsort(-case.aggregate.support, kind="stable").tolist()
    put(chrome, "search", "17, 3", "input")
    assert sorted(numbers(chrome)) == [3, 17]
    assert chrome.run("return document.getElementById('found').textContent") == f"2 of {r} components"
    largest = np.argsort(-np.abs(case.aggregate.mixing), axis=0, kind="stable")[:8]
    put(chrome, "search", "Feature_12", "input")
    assert sorted(numbers(chrome)) == np.flatnonzero((largest == 12).any(axis=0)).tolist() != []
    put(chrome, "search", "", "input")
    put(chrome, "order", "number", "change")
    assert numbers(chrome) == list(range(r))
    click(chrome, "#heat .pick")  # the angles on the cards are those of their numbers, whatever the order
    put(chrome, "order", "spread", "change")
    told = chrome.run(
        "const pair = (card) => [Number(card.dataset.number), card.querySelector('.mine dd').textContent];"
        "return Array.from(document.querySelectorAll('.card'), pair)"
    )
    number = int(chrome.run("return document.querySelector('#heat tr.selected').dataset.client"))
    for a, text in told:
        assert abs(float(text.removesuffix("°")) - case.aggregate.trust.angles[number, a]) < 0.06


@pytest.mark.parametrize(
    ("name", "figure"), [("demo", "spectrum"), ("demo", "drawing-0"), ("scalp", "drawing-0"), ("slices", "drawing-1")]
)
def test_every_picture_can_be_saved(make_case, chrome, tmp_path, name, figure):
    """As PNG and as SVG, without a network; the SVG is a document of its own, with words on it."""
    chrome.open(make_case(name).path)
    chrome.cdp("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    for kind in ("png", "svg"):
        click(chrome, f".save button[data-figure='{figure}'][data-format='{kind}']")
        saved = tmp_path / f"{figure.replace('drawing', 'component')}.{kind}"
        chrome.wait("return true", accept=lambda _, saved=saved: saved.is_file() and saved.stat().st_size > 0)
        start = saved.read_bytes()
        if kind == "png":
            assert start.startswith(b"\x89PNG")
            width, height = struct.unpack(">II", start[16:24])
            assert min(width, height) >= 300
        else:
            words = "".join(ElementTree.fromstring(start).itertext())  # noqa: S314 - our own file
            assert "value" in words
    assert chrome.complaints() == []


def test_it_prints_in_light_colours_and_whole(make_case, chrome):
    """On paper: no controls, no frames that scroll, black on white even when the screen is dark."""
    chrome.open(make_case("attack").path)
    chrome.theme("dark", "print")
    assert chrome.run("return getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    assert chrome.run("return getComputedStyle(document.querySelector('.chooser')).display") == "none"
    headings = "Array.from(document.querySelectorAll('.sort'), (x) => getComputedStyle(x).display)"
    assert set(chrome.run(f"return {headings}")) == {"contents"}  # boxes are lost where a heading is repeated
    frames = "Array.from(document.querySelectorAll('.scroll'))"
    assert chrome.run(f"return {frames}.filter((x) => x.scrollHeight > x.clientHeight + 2).length") == 0
    assert chrome.run("return document.getElementById('spectrum').layout.font.color") == "#1b1f24"
    printed = chrome.cdp("Page.printToPDF", printBackground=True)
    assert len(printed["data"]) > 30_000
    chrome.theme("light")


def test_the_frame_of_a_notebook_shows_the_page(make_case, chrome, tmp_path):
    """In a frame without rights of its own the page comes up and sorts."""
    from fedica.report import show

    case = make_case("attack")
    page = tmp_path / "notebook.html"
    page.write_text(f"<!doctype html><html data-ready=1><body>{show(case.aggregate)._repr_html_()}", encoding="utf-8")
    chrome.open(page)
    chrome.driver.switch_to.frame(0)
    try:
        chrome.wait("return document.documentElement.dataset.ready || ''")
        assert chrome.run("return document.querySelector('h1').textContent").startswith("21 of 30 clients agree")
        click(chrome, "#heat thead th:nth-child(3) .sort")
        assert chrome.run("return document.querySelectorAll('#heat th[aria-sort]').length") == 1
    finally:
        chrome.driver.switch_to.default_content()
