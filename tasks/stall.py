"""How long a worker's interpreter has been held by one step, and whether there is any hope left that it is let go."""


class Stall:
    """Time is what whoever looks has seen pass, so that a machine that slept makes nothing look held.

    limit: seconds that a held interpreter is given once the first step is past its deadline, or once nothing that the
    worker holds is wanted any more.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._ticks = -1
        self._over: float | None = None
        self.seconds = 0.0

    def look(self, ticks: int, passed: float, *, unwanted: bool) -> None:
        """ticks: another number whenever the interpreter has run. passed: seconds since the last look."""
        if ticks != self._ticks:
            self._ticks = ticks
            self.clear()
            return
        self.seconds += passed
        if unwanted:
            self.deadline()

    def deadline(self) -> None:
        """A step that the worker holds has been refused for its deadline."""
        if self._over is None:
            self._over = self.seconds

    def clear(self) -> None:
        self.seconds, self._over = 0.0, None

    @property
    def hopeless(self) -> bool:
        return self._over is not None and self.seconds - self._over >= self._limit
