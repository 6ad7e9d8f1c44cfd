"""A join of 50,000 parents, which several slots carry at the same time."""

import threading
from collections import Counter

from fleet.core.attempt import Attempt
from fleet.core.events import EventType
from fleet.core.plan import Settled
from fleet.store.live import Live
from fleet.store.steps import Answer, Place
from tests.store.test_steps import DONE, FAILED, RUN, opened, step

PARENTS = 50_000
SLOTS = 3


class Slot(threading.Thread):
    """Carries steps until the join has run; some fail, and some outcomes are delivered twice."""

    def __init__(self, live: Live, name: str, over: threading.Event) -> None:
        super().__init__(name=name)
        self.live, self.over = live, over
        self.place = Place(name, "main", 60.0)
        self.ran: Counter[str] = Counter()
        self.duplicates: Counter[Answer] = Counter()

    def run(self) -> None:
        attempt = None
        while not self.over.is_set():
            attempt = self.carry(attempt) if attempt else self.live.steps.claim(self.place)[0]

    def carry(self, attempt: Attempt) -> Attempt | None:
        self.ran[attempt.step.id] += 1
        outcome = FAILED if attempt.step.id.endswith("33") else DONE
        done = self.live.steps.commit(attempt, outcome, self.place)
        if attempt.step.id.endswith("7"):
            self.duplicates[self.live.steps.commit(attempt, outcome, self.place, want=False).answer] += 1
        more = done.more
        while more:
            more, _ = self.live.steps.cascade(RUN)
        if attempt.step.id == "j":
            self.over.set()
        return done.attempt


def test_a_join_of_fifty_thousand_parents_fires_once(live: Live) -> None:
    """R16: with three slots at it, failures among the parents, and outcomes that are delivered twice."""
    names = [f"p{i}" for i in range(PARENTS)]
    opened(live, step("root"), *(step(n, "root") for n in names), step("j", *names, join=Settled()))
    over = threading.Event()
    slots = [Slot(live, f"w{n}", over) for n in range(SLOTS)]
    for slot in slots:
        slot.start()
    for slot in slots:
        slot.join()
    ran = sum((slot.ran for slot in slots), Counter())
    assert ran == Counter({"root": 1, "j": 1, **dict.fromkeys(names, 1)})
    assert sum((slot.duplicates for slot in slots), Counter()) == {Answer.DUPLICATE: PARENTS // 10}
    assert live.runs.about(RUN)["left"] == "0"
    assert live.client.exists(live.keys.run(RUN, "cascade")) == 0
    last = live.streams.last(RUN)
    assert last is not None
    assert (last.type, last.step) == (EventType.STEP_ENDED, "j")
