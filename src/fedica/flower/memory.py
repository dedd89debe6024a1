"""What a client remembers of a run beyond the life of its app's processes: the run's nonce, and whether it is over."""

from __future__ import annotations

from pathlib import Path

from fedica.errors import PolicyError
from fedica.exchange.files import PRIVATE, make_private_folder, write_atomic

_OVER = "over"


class RunMemory:
    """A file per run in the client's output folder: nonce, the runs of Flower that carried its first request, the end.

    run_id : of the run that the messages belong to.
    """

    def __init__(self, output: Path, run_id: int) -> None:
        self._path = output / ".runs" / str(run_id)
        self._words = self._path.read_text(encoding="utf-8").split() if self._path.exists() else []

    def begin(self, nonce: str, carrier: int) -> None:
        """Remember the nonce of the run's first request; refuse a second first request, unless the run is resumed.

        carrier : the run of Flower that brought it. One that resumes the run repeats the nonce.
        """
        if self._words and (self._words[0] != nonce or {str(carrier), _OVER} & set(self._words)):
            raise PolicyError("this client has been asked for its contribution to this run before.")
        self._write(*(self._words or [nonce]), str(carrier))

    def check(self, nonce: str) -> None:
        """Refuse a message of another nonce than the first request's, or after the run's last message."""
        if _OVER in self._words:
            raise PolicyError("this client has the aggregate of this run; a second one is refused.")
        if self._words[:1] != [nonce]:
            raise PolicyError("the message does not carry the nonce of this run's first request to this client.")

    def end(self, nonce: str, digest: str, carrier: int) -> None:
        """Take the run's last message: no other one follows, but the same one if the run is resumed.

        digest : of its content. carrier : the run of Flower that brought it.
        """
        last = self._words[self._words.index(_OVER) + 1 :] if _OVER in self._words else []
        if self._words[:1] == [nonce] and last[:1] == [digest] and str(carrier) not in last:
            self._write(*self._words, str(carrier))
            return
        self.check(nonce)
        self._write(*self._words, _OVER, digest, str(carrier))

    def _write(self, *words: str) -> None:
        make_private_folder(self._path.parent)
        write_atomic(self._path, [" ".join(words).encode()], mode=PRIVATE)
