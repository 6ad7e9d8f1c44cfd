"""What a goal may use, and what it used. Money is in US dollars, time in seconds."""

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from fleet.core.value import Value


class Usage(Value):
    """What calls used. Sums are exact per field (money to the float)."""

    calls: NonNegativeInt = 0
    input_tokens: NonNegativeInt = 0
    output_tokens: NonNegativeInt = 0
    money: NonNegativeFloat = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            money=self.money + other.money,
        )

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


class Budget(Value):
    """The bounds of one run. None is no bound. seconds: wall time from submission to the end."""

    steps: PositiveInt = 500
    replans: NonNegativeInt = 3
    tokens: PositiveInt | None = None
    money: PositiveFloat | None = None
    seconds: PositiveFloat | None = None

    def over(self, used: Usage) -> str | None:
        """The name of the first bound that `used` has reached, or None."""
        if self.tokens is not None and used.tokens >= self.tokens:
            return "tokens"
        if self.money is not None and used.money >= self.money:
            return "money"
        return None
