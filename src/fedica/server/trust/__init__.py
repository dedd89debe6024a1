"""Verdicts on clients: measured, compared with the others and with chance, judged, and told with a reason."""

from __future__ import annotations

from fedica.server.trust.judge import SAMPLES_NEEDED
from fedica.server.trust.verdicts import assess

__all__ = ["SAMPLES_NEEDED", "assess"]
