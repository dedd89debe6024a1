"""The package as a project: what is public, documented, shipped, and not imported."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from numpydoc.validate import validate

import fedica

ROOT = Path(__file__).parents[1]
PUBLIC = sorted(set(fedica.__all__) - {"__version__"})
ASKED_OF_DOCSTRINGS = {
    "GL08",  # there is a docstring
    "SS01",  # it opens with a summary
    "SS03",  # ... which ends with a period
    "PR01",  # every parameter is documented
    "PR02",  # no parameter is documented that does not exist
    "PR03",  # in the order of the signature
    "PR04",  # with a type
    "PR07",  # and a description
    "RT03",  # what is returned is described
    "YD01",  # yields are documented
}


EXTRAS = {
    *("anndata", "dask", "distributed", "edfio", "flwr", "matplotlib", "mne", "nibabel", "nilearn", "pandas"),
    *("picard", "plotly", "pyarrow", "safetensors", "skimage", "sphinx"),
}
"""What may be missing, and what only reports need."""
FILES_OF_EXTRAS = {"flower/": "flwr", "blocks/dask_": "dask"}
"""Files that are imported only where the extra is already there."""


def extra_of(file):
    """Return the extra without which a file of the package is never imported."""
    return next((extra for start, extra in FILES_OF_EXTRAS.items() if file.startswith(start)), None)


def imported_at_once(tree):
    """Roots of what a module imports when it is imported: not in functions, not for the type checker alone."""
    roots, left = set(), list(tree.body)
    while left:
        node = left.pop()
        if isinstance(node, ast.Import):
            roots |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            roots.add((node.module or "").partition(".")[0])
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            left += node.orelse
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            left += ast.iter_child_nodes(node)
    return roots


def modules_imported_by(statement):
    code = f"import sys; {statement}; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    return set(result.stdout.split())


def methods_of(name):
    """Methods of a public class that are written in fedica, also those that it inherits."""
    thing = getattr(fedica, name)
    if not inspect.isclass(thing):
        return []
    ours = [kind for kind in thing.__mro__ if kind.__module__.startswith("fedica")]
    members = {member for kind in ours for member in vars(kind) if not member.startswith("_")}
    return [f"{name}.{member}" for member in sorted(members) if callable(getattr(thing, member, None))]


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_there_and_documented(name):
    """Summary, every parameter with type and description, in order."""
    faults = [
        (code, text)
        for path in [name, *methods_of(name)]
        for code, text in validate(f"fedica.{path}")["errors"]
        if code in ASKED_OF_DOCSTRINGS
    ]
    assert faults == []


def test_the_public_names_are_listed_once_and_in_order():
    """``__all__`` is sorted, has no doubles, and dir() shows all of it."""
    assert len(set(fedica.__all__)) == len(fedica.__all__)
    assert set(fedica.__all__) <= set(dir(fedica))
    assert {name for name in vars(fedica.public) if not name.startswith("_")} == set(PUBLIC)


def test_an_unknown_name_is_an_attribute_error():
    """As in any module: also what ``hasattr`` and typing mistakes meet."""
    with pytest.raises(AttributeError, match="LocalIca"):
        fedica.LocalIca  # noqa: B018
    with pytest.raises(ImportError, match="LocalIca"):
        exec("from fedica import LocalIca")  # noqa: S102


def test_importing_fedica_loads_nothing_optional():
    """``import fedica`` needs no extra; all public names together none that scikit-learn has not loaded by itself."""
    assert sorted(modules_imported_by("import fedica") & EXTRAS) == []
    by_scikit_learn = modules_imported_by("import sklearn")  # a new one looks for pandas, which looks for pyarrow
    assert sorted((modules_imported_by("from fedica import *") - by_scikit_learn) & EXTRAS) == []


def test_extras_are_imported_where_they_are_used():
    """No module imports an extra when it is itself imported; but for those that Flower or a Dask array asks for."""
    package = Path(fedica.__file__).parent
    found = {
        (path.relative_to(package).as_posix(), root)
        for path in package.rglob("*.py")
        for root in imported_at_once(ast.parse(path.read_text(encoding="utf-8"))) & EXTRAS
    }
    asked_for = {("flower/", "flwr"), ("blocks/dask_", "dask")}
    assert [
        (file, root) for file, root in found if not any(file.startswith(a) and root == b for a, b in asked_for)
    ] == []


def function_lengths():
    """Lines of the body of every function of the package, its docstring not counted, by the function's place."""
    package = Path(fedica.__file__).parent
    lengths = {}
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node) is not None else node.body
                lines = body[-1].end_lineno - body[0].lineno + 1 if body else 0
                lengths[f"{path.relative_to(package).as_posix()}:{node.lineno} {node.name}"] = lines
    return lengths


def test_functions_are_short():
    """No body is longer than 45 lines, and nine of ten are at most 18."""
    lengths = function_lengths()
    assert [(place, lines) for place, lines in lengths.items() if lines > 45] == []
    assert sorted(lengths.values())[int(0.9 * len(lengths))] <= 18


def test_the_server_lists_the_steps_of_the_algorithm():
    """One file per step: few enough to read their names."""
    assert len(list((Path(fedica.__file__).parent / "server").glob("*.py"))) <= 15


def test_importing_loads_about_as_much_as_scikit_learn():
    """With every public name: less than 1.3 times the modules of one estimator of scikit-learn.

    How long that takes, `make bench` measures.
    """
    ours, theirs = map(modules_imported_by, ("from fedica import *", "from sklearn.decomposition import FastICA"))
    assert len(ours) < 1.3 * len(theirs)


def test_every_module_can_be_imported_by_itself():
    """No module relies on another having been imported before it; those of an extra that is not there are left out."""
    package = Path(fedica.__file__).parent
    files = [path.relative_to(package) for path in package.rglob("*.py")]
    names = sorted(
        ".".join(("fedica", *file.with_suffix("").parts)).removesuffix(".__init__")
        for file in files
        if (extra := extra_of(file.as_posix())) is None or importlib.util.find_spec(extra) is not None
    )
    assert len(names) > 100
    code = (
        "import importlib, sys\n"
        f"for name in {names!r}:\n"
        "    for loaded in [m for m in sys.modules if m.partition('.')[0] == 'fedica']: del sys.modules[loaded]\n"
        "    importlib.import_module(name)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False)
    assert result.returncode == 0, result.stderr


def test_what_is_installed_is_what_the_source_tree_holds():
    """The wheel ships every file of src/fedica, the marker of its types among them."""
    source, installed = ROOT / "src" / "fedica", Path(fedica.__file__).parent

    def files(folder):
        return {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }

    assert files(installed) == files(source)
    assert "py.typed" in files(installed)


def test_the_version_stands_in_one_place_and_in_the_changelog():
    """The package's version is the newest release of the changelog, or still to be released; the citation agrees."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## \[([^\]]+)\]", changelog, flags=re.MULTILINE)
    assert newest is not None
    assert newest[1] in ("Unreleased", fedica.__version__)
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {fedica.__version__}\n" in citation


def test_readme_links_and_pictures_exist():
    """Every relative link of the front pages leads to a file."""
    for page in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", text)
        missing = [link for link in links if not (ROOT / link).exists()]
        assert missing == []


def test_readme_lists_every_target_and_every_command():
    """The front page names each make target and each command of the program, and none that does not exist."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):.*##", makefile, flags=re.MULTILINE))
    assert set(re.findall(r"`make ([a-z]+)`", readme)) <= targets
    commands = importlib.import_module("typer.main").get_command(importlib.import_module("fedica.cli").app).commands
    named = set(re.findall(r"`fedica ([a-z]+)", readme))
    assert set(commands) == named


def test_extras_are_those_that_the_sentences_name():
    """``pip install 'fedica[x]'`` in an error message names an extra that exists."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    named = {
        extra
        for path in (ROOT / "src").rglob("*.py")
        for extra in re.findall(r"fedica\[([a-z]+)\]", path.read_text(encoding="utf-8"))
    }
    assert named <= set(extras)


def test_the_oldest_versions_are_those_that_are_tested():
    """requirements/oldest.txt is the lower bound of every dependency of the core and of its tests, no more, no less."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted, left = [*project["dependencies"]], ["fedica[test]"]
    while left:
        inner = re.fullmatch(r"fedica\[(.*)\]", left.pop())
        for requirement in (x for extra in inner[1].split(",") for x in project["optional-dependencies"][extra]):
            (left if requirement.startswith("fedica[") else wanted).append(requirement)
    lines = (ROOT / "requirements" / "oldest.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert sorted(pins) == sorted(requirement.replace(">=", "==") for requirement in wanted)
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9.]+", pin) for pin in pins)
