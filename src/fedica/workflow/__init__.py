"""What each command and each Flower handler calls: from files and records to records; nothing here prints."""

from __future__ import annotations

from fedica.workflow.apply import Applied, apply_global
from fedica.workflow.combine import Combined, combine
from fedica.workflow.contribute import Contributed, contribute
from fedica.workflow.export import Exported, export
from fedica.workflow.inspect import Field, Inspected, inspect_file
from fedica.workflow.refine import Scored, refine_result, send_scores
from fedica.workflow.study import new_study

__all__ = [
    "Applied",
    "Combined",
    "Contributed",
    "Exported",
    "Field",
    "Inspected",
    "Scored",
    "apply_global",
    "combine",
    "contribute",
    "export",
    "inspect_file",
    "new_study",
    "refine_result",
    "send_scores",
]
