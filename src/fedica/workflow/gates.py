"""What must hold before and after contributions are combined: one bad file is named; too many stop everything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fedica.errors import ContributionError, InputError
from fedica.exchange import Received, TrustedKeys, read_contributions
from fedica.exchange.files import PathLike
from fedica.records import Aggregate, Rejection, Study


def take_in(
    paths: PathLike | Iterable[PathLike], trusted: TrustedKeys | None, study: Study | None
) -> tuple[list[Received], tuple[Rejection, ...]]:
    """Read everything; a file that does not fit is a rejection, not the end."""
    received, rejected = [], []
    for item in read_contributions(paths, trusted=trusted):
        if isinstance(item, Rejection):
            rejected.append(item)
            continue
        misfit = _misfit(item, study)
        if misfit is not None:
            rejected.append(misfit)
        else:
            received.append(item)
    if not received:
        if not rejected:
            raise InputError("no contribution came. Give files, or folders of *.safetensors files.")
        raise InputError(f"no contribution can be used: {len(rejected)} were refused. The first: {rejected[0].reason}")
    return received, tuple(rejected)


def _misfit(item: Received, study: Study | None) -> Rejection | None:
    """Return why a contribution does not belong to the study, if it does not."""
    if study is None:
        return None
    contribution, source = item.contribution, item.provenance.source
    if contribution.study != study.id:
        named = contribution.study or ""
        return Rejection.because(contribution.client, "other-study", source, value=named, agreed=study.id)
    for term in ("independence", "mixing"):
        value, agreed = getattr(contribution, term), getattr(study, term)
        if value is not None and value != agreed:
            against = {"term": term, "value": value, "agreed": agreed, "study": study.id}
            return Rejection.because(contribution.client, "term-differs", source, **against)
    return None


def absences(
    trusted: TrustedKeys | None, study: Study | None, present: set[str], refused: list[str], *, require_all: bool
) -> tuple[str, ...]:
    """Say which clients with a trusted key sent nothing; refuse that if all are required."""
    if trusted is None:
        return ()
    notes = []
    absent = sorted(set(trusted) - present - set(refused))
    if absent:
        sentence = f"{len(absent)} clients with a trusted key sent nothing: {some(absent)}."
        if require_all:
            raise InputError(f"all are required, and {sentence}")
        notes.append(sentence)
    if study is None:
        notes.append("without --study, a signed contribution to another study is only noticed if most are to this one.")
    return tuple(notes)


def check_enough(n_clients: int, min_clients: int, rejected: Sequence[Rejection]) -> None:
    """Refuse to go on with too few clients."""
    if n_clients < min_clients:
        first = f" {len(rejected)} were left out, the first because: {rejected[0].reason}" if rejected else ""
        raise InputError(
            f"at least {min_clients} clients are wanted; {n_clients} can be used.{first} "
            "(--min-clients sets the number.)"
        )


def check_verdicts(result: Aggregate, cut: tuple[str, ...]) -> None:
    """Refuse a result with clients of these verdicts."""
    if cut and result.trust is not None:
        doubted = [row for row in result.trust if row.verdict in cut]
        if doubted:
            raise ContributionError(
                f"{len(doubted)} of {len(result.clients)} clients are {' or '.join(cut)}: "
                f"{some([x.client for x in doubted])}. {doubted[0].client!r}: {doubted[0].reason}. "
                "Nothing was written.",
                doubted[0].client,
            )


def some(names: Sequence[str], most: int = 5) -> str:
    """List the first few names."""
    return ", ".join(repr(name) for name in names[:most]) + (
        f" and {len(names) - most} more" if len(names) > most else ""
    )
