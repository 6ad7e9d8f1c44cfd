"""summarise: the sentences that say most, chosen without a model, or a summary by one."""

from collections import Counter
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from fleet.core.value import Json
from fleet.tools.asking import ask, filled
from fleet.tools.context import ToolContext
from fleet.tools.decorator import tool
from fleet.tools.passages import Passage, passages
from fleet.tools.prose import sentences as split
from fleet.tools.prose import stem, words

MOST_SENTENCES = 5000
QUERY_WEIGHT = 2.0
FIRST_WEIGHT = 0.3
REPEAT_PENALTY = 0.6


class Sentence(NamedTuple):
    """A sentence, the source that its passage names (or none), and its place (0, 1, ...) in that passage."""

    text: str
    source: str
    place: int

    def cited(self) -> str:
        return f"{self.text} [{self.source}]" if self.source else self.text


@tool(effect="pure", model=True, seconds=0.1, timeout=180)
async def summarise(
    text: Annotated[Json, "a text, a list of texts, or what search or fetch gave"],
    ctx: ToolContext,
    sentences: Annotated[int, Field(ge=1, le=50, description="how many at most")] = 3,
    query: Annotated[str, "what the summary is to be about"] = "",
    by: Annotated[Literal["extract", "model"], "choose sentences, or let a language model write"] = "extract",
) -> str:
    """Summarise texts in a few of their own sentences, each followed by its [source] where it has one.

    A sentence scores by how common its words are in the whole (Luhn, "The Automatic Creation of Literature Abstracts",
    1958), by whether it opens its passage, and by the words it shares with the query; what is already said scores less.
    by="model" asks the light model, where one is configured. Raises ToolFailed: bad_argument, or the model's failure.
    """
    given = passages(text, "summarise")
    if by == "model" and ctx.model is not None:
        return await ask(ctx, _prompt(given, sentences, query))
    if by == "model":
        ctx.log.info("summarise: no model is configured, so sentences are chosen")
    return " ".join(chosen.cited() for chosen in choose(given, sentences, query))


def choose(given: list[Passage], count: int, query: str = "") -> list[Sentence]:
    """The `count` best sentences of the passages, in the order in which they stand there."""
    every = [Sentence(each, source, n) for text, source in given for n, each in enumerate(split(text))]
    every = every[:MOST_SENTENCES]
    terms = [frozenset(stem(word) for word in words(each.text)) for each in every]
    asked = frozenset(stem(word) for word in words(query))
    common = Counter(term for each in terms for term in each)
    scores = [_score(every[n].place, terms[n], asked, common) for n in range(len(every))]
    said: set[str] = set()
    best: list[int] = []
    left = set(range(len(every)))
    while left and len(best) < count:
        fresh = {n: scores[n] * (1 - REPEAT_PENALTY * _share(terms[n], said)) for n in left}
        winner = min(left, key=lambda n: (-fresh[n], n))
        best.append(winner)
        said |= terms[winner]
        left.remove(winner)
    return [every[n] for n in sorted(best)]


def _score(place: int, terms: frozenset[str], asked: frozenset[str], common: Counter[str]) -> float:
    if not terms:
        return 0.0
    top = max(common.values())
    frequency = sum(common[term] / top for term in terms) / (len(terms) + 3)
    return frequency + FIRST_WEIGHT / (1 + place) * frequency + QUERY_WEIGHT * _share(asked, terms)


def _share(some: frozenset[str], of: "frozenset[str] | set[str]") -> float:
    return len(some & of) / len(some) if some else 0.0


def _prompt(given: list[Passage], count: int, query: str) -> str:
    return filled(
        "summarise",
        sentences=count,
        focus=f" It is to be about: {query}." if query.strip() else "",
        text="\n\n".join(f"[{source}] {text}" if source else text for text, source in given),
    )
