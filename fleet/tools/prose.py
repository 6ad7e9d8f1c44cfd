"""Plain text: its sentences, and its words as a search or a count compares them."""

import re

ENDS = re.compile(r"""(?:(?<=[.!?])|(?<=[.!?]["'”’)\]]))\s+(?=["'“‘(\[]*[A-Z0-9À-ÖØ-Þ])""")
ABBREVIATED = re.compile(
    r"\b(?:(?i:e\.g|i\.e|cf|vs|approx|figs?|eq|vol|pp|dr|mrs?|ms|prof|inc|ltd|jr|sr|jan|feb|apr|aug|sept|oct|nov|dec)"
    r"|[A-Z])\.$"
)
WORD = re.compile(r"\w+(?:[.,]\d+)*", re.UNICODE)
_COMMON = """a about an and are as at be been between but by can could did do does for from had has have how i if in
into is it its me more most much of on one or our over should so such than that the their them then there these they
this those to was we were what when where which who whom whose why will with would you your"""
STOP_WORDS = frozenset(_COMMON.split())


def sentences(text: str) -> list[str]:
    """The sentences of a paragraph, white space made single; an abbreviation or an initial ends none."""
    found: list[str] = []
    for piece in ENDS.split(" ".join(text.split())):
        if found and ABBREVIATED.search(found[-1]):
            found[-1] = f"{found[-1]} {piece}"
        elif piece:
            found.append(piece)
    return found


def words(text: str) -> list[str]:
    """The words of a text in lower case, numbers whole, stop words left out (unless there are no others)."""
    every = [word.lower() for word in WORD.findall(text)]
    return [word for word in every if word not in STOP_WORDS] or every


def stem(word: str) -> str:
    """The word without a common English ending: enough to count `battery` and `batteries` as one."""
    for ending, instead in (("ies", "y"), ("sses", "ss"), ("ing", ""), ("ed", ""), ("es", "e"), ("s", "")):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return word.removesuffix(ending) + instead
    return word
