"""Tries seed after seed, those that once failed first, and keeps one that fails."""

from collections.abc import Callable, Iterable
from pathlib import Path


def known_bad(kept: Path) -> list[int]:
    """The seeds of a file: the first word of each line; what stands behind it says why."""
    lines = kept.read_text().splitlines() if kept.exists() else []
    return [int(line.split()[0]) for line in lines if line.strip() and not line.startswith("#")]


def try_seeds(simulate: Callable[[int], object], seeds: Iterable[int], kept: Path) -> int:
    """Call simulate(seed) for the seeds in the file `kept`, then for the others: how many there were.

    One that fails is written into the file, so that it comes first from then on. Raises what it failed with, and a note
    with it that says how to see it again.
    """
    known = known_bad(kept)
    tried = [*known, *(seed for seed in seeds if seed not in known)]
    for seed in tried:
        try:
            simulate(seed)
        except Exception as wrong:
            if seed not in known:
                with kept.open("a") as file:
                    file.write(f"{seed} {type(wrong).__name__}\n")
            wrong.add_note(f"seed {seed} failed; it is kept in {kept.name}: run this test again, and it comes first")
            raise
    return len(tried)
