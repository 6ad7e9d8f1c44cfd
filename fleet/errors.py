"""Errors that reach a caller. Named for what happened; each carries one sentence for people and an exit code."""


class FleetFault(Exception):
    """The root of every error the fleet raises on purpose. str() is a sentence that names the thing and the way out."""

    exit_code = 1


class BadSetting(FleetFault):
    """A setting is unknown, malformed or contradicts another."""

    exit_code = 2


class BadInput(FleetFault):
    """A goal, plan file or argument was refused before anything was started."""

    exit_code = 2


class PlanRejected(BadInput):
    """A plan did not compile. problems: what is wrong, each in words that its author can act on."""

    def __init__(self, problems: "tuple[object, ...]", source: str = "") -> None:
        self.problems = problems
        self.source = source
        super().__init__("the plan was rejected: " + "; ".join(str(p) for p in problems))


class ClockSimulated(BadSetting):
    """The namespace is a simulation's, whose clock is not Redis's own: leases would go by another time than theirs."""


class UnknownGoal(FleetFault):
    exit_code = 3


class UnknownLetter(FleetFault):
    exit_code = 3


class UnknownTool(BadInput):
    pass


class KeyReused(FleetFault):
    """The idempotency key was used before, with another goal."""

    exit_code = 5


class WrongState(FleetFault):
    """A goal is not in a state in which this can be done to it: it has ended, or it has not."""

    exit_code = 5


class FleetRunning(FleetFault):
    """Another fleet already runs on this data folder."""

    exit_code = 5


class PortTaken(FleetFault):
    """Another program listens on a port that the fleet was told to use."""

    exit_code = 7


class TimedOut(FleetFault):
    """Waiting took longer than the caller allowed. The goal goes on."""

    exit_code = 6


class NotNow(FleetFault):
    """The same may work later, with nothing changed by the caller. retry_after: seconds to wait before another try."""

    retry_after = 5.0

    def __init__(self, *said: object, retry_after: float | None = None) -> None:
        super().__init__(*said)
        if retry_after is not None:
            self.retry_after = retry_after


class Overloaded(NotNow):
    """The fleet refuses more work for now. Try again later, or raise the limit that the message names."""

    exit_code = 8
    retry_after = 10.0


class StoreUnreachable(NotNow):
    """Redis or the SQL database does not answer, or refuses."""

    exit_code = 9


UNTIL_SEEN_TO = 30.0
"""Seconds to wait for what does not pass by itself: somebody has to make room, or correct a password."""


class ModelUnavailable(FleetFault):
    """A model is not configured: no name, no key, no such provider."""

    exit_code = 10
