"""What a joiner says of a settled plan."""

from typing import Annotated, Literal

from pydantic import Field

from fleet.core.value import Tagged


class Finish(Tagged):
    """The goal is met: this is the answer."""

    kind: Literal["finish"] = "finish"
    answer: str
    thought: str = ""


class Replan(Tagged):
    """What came out does not meet the goal: plan what is missing, for this reason."""

    kind: Literal["replan"] = "replan"
    reason: str
    thought: str = ""


class Ask(Tagged):
    """Only a person can say: ask them."""

    kind: Literal["ask"] = "ask"
    question: str
    thought: str = ""


Verdict = Annotated[Finish | Replan | Ask, Field(discriminator="kind")]
