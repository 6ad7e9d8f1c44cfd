"""When an answer of ParallelQA is right."""

import string

ARTICLES = frozenset({"a", "an", "the"})


def right(answer: str, label: str) -> bool:
    """Whether an answer agrees with the label of its question.

    A number is right strictly within a tenth of the label. A name is right when it is the same after lower-casing and
    without ASCII punctuation and the words a, an, the.
    """
    wanted = _number(label)
    if wanted is None:
        return _plain(answer) == _plain(label)
    given = _number(answer)
    return given is not None and 0.9 * wanted < given < 1.1 * wanted


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _plain(text: str) -> str:
    kept = "".join(character for character in text.lower() if character not in string.punctuation)
    return " ".join(word for word in kept.split() if word not in ARTICLES)
