"""pick: which of several things has the largest or the smallest value."""

from typing import Annotated, Literal

from pydantic import Field

from fleet.core.outcome import FailureClass
from fleet.tools.decorator import tool
from fleet.tools.tool import ToolFailed

Figure = Annotated[float, Field(strict=True, allow_inf_nan=False)]


@tool(effect="pure", seconds=0.01, timeout=10)
def pick(
    mode: Annotated[Literal["max", "min"], "whether the largest or the smallest value wins"],
    labels: Annotated[list[str], Field(min_length=2)],
    values: Annotated[list[Figure], Field(min_length=2, description="one number for each label")],
) -> str:
    """The label whose value is the largest (max) or smallest (min); of equal ones, the first.

    Raises ToolFailed: bad_argument when there are not as many values as labels.
    """
    if len(labels) != len(values):
        raise ToolFailed(
            "bad_argument",
            f'pick: argument "values" has {len(values)} numbers for {len(labels)} labels',
            FailureClass.MISUSE,
        )
    best = max(values) if mode == "max" else min(values)
    return labels[values.index(best)]
