"""The turns that the scripted model of the shared fleet answers with."""

from fleet.llm.turns import Fail, Observation, Turn

COMPARE = "Compare three and four"
REPLAN = "Mend what broke"
RUBBISH = "Answer me rubbish"
REPAIR = "Repair the plan"
BRACKETS = "Name the film"
MUMBLE = "Mumble a verdict"
ASKING = "Ask me first"
AGAIN = "Plan the same again"
ENDLESS = "Never be content"
MANY = "Do eight hundred things"
MIDSTREAM = "Die while planning"
PONDER = "Think long about the plan"
JUDGE = "Think long about the verdict"

TURNS = (
    Turn(purpose="planner", goal=COMPARE, text='1. calc("3 * 2")\n2. calc("4 * 2")\n3. calc("max($1, $2)")\n4. join()'),
    Turn(
        purpose="joiner",
        goal=COMPARE,
        text="Thought: done.\nAction: Finish(8)",
        expect_observations=(
            Observation(id="1", status="ok", value=6),
            Observation(id="2", status="ok", value=8),
            Observation(id="3", status="ok", value=8),
        ),
    ),
    Turn(
        purpose="planner",
        goal=REPLAN,
        text='1. noop("kept")\n2. broken("no")\n3. length("$2")\n4. join()',
        delay_s=0.8,
    ),
    Turn(
        purpose="joiner",
        goal=REPLAN,
        text="Thought: 2 failed.\nAction: Replan(step 2 (broken) said no)",
        expect_observations=(
            Observation(id="1", status="ok", value="kept"),
            Observation(id="2", status="error", type="broken", message="no"),
            Observation(id="3", status="skipped", because=("2",)),
        ),
    ),
    Turn(purpose="planner", round=2, goal=REPLAN, text='5. noop("kept")\n6. length("$1")\n7. join()'),
    Turn(
        purpose="joiner",
        round=2,
        goal=REPLAN,
        text="Thought: done.\nAction: Finish(4 letters)",
        expect_observations=(
            Observation(id="1", status="ok", value="kept"),
            Observation(id="2", status="error", type="broken", message="no"),
            Observation(id="3", status="skipped", because=("2",)),
            Observation(id="6", status="ok", value=4),
        ),
    ),
    Turn(purpose="planner", goal=RUBBISH, text="I would rather sing than plan."),
    Turn(purpose="planner", goal=REPAIR, text='1. nop("x")\n2. join()'),
    Turn(purpose="planner", goal=REPAIR, contains=("nop",), text='1. noop("mended")\n2. join()'),
    Turn(purpose="joiner", goal=REPAIR, text="Action: Finish(mended)"),
    Turn(purpose="planner", goal=BRACKETS, text='1. noop("x")\n2. join()'),
    Turn(purpose="joiner", goal=BRACKETS, text="Thought: ok\nAction: Finish(Star Wars (1977),\nby George Lucas (USA))"),
    Turn(purpose="planner", goal=MUMBLE, text='1. noop("x")\n2. join()'),
    Turn(purpose="joiner", goal=MUMBLE, text="Hm."),
    Turn(purpose="planner", goal=ASKING, text='1. noop("x")\n2. join()'),
    Turn(purpose="joiner", goal=ASKING, text="Action: Ask(Which colour?)"),
    Turn(purpose="planner", round=2, goal=ASKING, contains=("blue",), text='4. noop("blue paint")\n5. join()'),
    Turn(purpose="joiner", round=2, goal=ASKING, text="Action: Finish(painted blue)"),
    Turn(purpose="planner", goal=AGAIN, text='1. noop("same")\n2. join()'),
    Turn(purpose="joiner", goal=AGAIN, text="Action: Replan(not enough)"),
    Turn(purpose="planner", round=2, goal=AGAIN, text='4. noop("same")\n5. join()'),
    *(
        turn
        for n in range(1, 8)
        for turn in (
            Turn(purpose="planner", round=n, goal=ENDLESS, text=f'{n * 10}. noop("part {n}")\n{n * 10 + 1}. join()'),
            Turn(purpose="joiner", round=n, goal=ENDLESS, text="Action: Replan(more)"),
        )
    ),
    Turn(
        purpose="planner",
        goal=MANY,
        text="\n".join(f"{i}. noop({i})" for i in range(1, 801)) + "\n801. join()",
    ),
    Turn(
        purpose="planner",
        goal=MIDSTREAM,
        text='1. noop("first")\n2. noop("second")\n3. join()',
        fail=Fail(type="disconnected", message="the stream broke", after_chunks=2),
    ),
    Turn(purpose="planner", goal=PONDER, text='1. noop("x")\n2. join()', delay_s=90.0),
    Turn(purpose="planner", goal=JUDGE, text='1. noop("x")\n2. join()'),
    Turn(purpose="joiner", goal=JUDGE, text="Action: Finish(x)", delay_s=90.0),
)
