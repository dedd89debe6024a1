"""Second messages: what each client asks for, who counts, and the step that is taken."""

from fedica.server.refinement.refine import refine

__all__ = ["refine"]
