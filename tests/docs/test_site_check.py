"""The check that ends ``make docs``: it finds what leads nowhere, and is content with a site that is whole."""

from __future__ import annotations

import importlib.util
import sys

import pytest
from repository_pages import ROOT


@pytest.fixture(scope="module")
def check_site():
    """The script, as a module."""
    spec = importlib.util.spec_from_file_location("check_site", ROOT / "docs" / "check_site.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["check_site"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def site(tmp_path):
    """Two pages and a picture."""
    (tmp_path / "a.png").write_bytes(b"png")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "index.html").write_text('<a href="../index.html#there">up</a>', encoding="utf-8")
    text = '<h1 id="there">x</h1><img src="a.png"><a href="folder/">b</a><a href="https://example.org">out</a>'
    (tmp_path / "index.html").write_text(text, encoding="utf-8")
    return tmp_path


def test_a_site_that_is_whole_has_no_faults(check_site, site):
    """Links to pages, folders and anchors; links that leave the site are not followed."""
    assert check_site.faults_of(site) == []


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        ('<a href="gone.html">x</a>', "gone.html does not exist"),
        ('<a href="folder/index.html#gone">x</a>', "no such anchor"),
        ('<img src="gone.png">', "gone.png does not exist"),
        ('<script src="https://cdn.example.org/x.js"></script>', "needs a network"),
    ],
)
def test_each_kind_of_fault_is_found(check_site, site, broken, sentence):
    """A page, an anchor or a picture that is not there; something that a browser would fetch from elsewhere."""
    (site / "new.html").write_text(broken, encoding="utf-8")
    (fault,) = check_site.faults_of(site)
    assert sentence in fault
    with pytest.raises(SystemExit):
        check_site.main(site)
