"""The leaf apps `tasks` and `scheduler`, always imported as `fleet._apps.tasks` and `fleet._apps.scheduler`.

In a wheel the two folders lie here. In a checkout they lie at the root, which this puts on the package's path
(and never on sys.path, so that a user's own `tasks.py` stays theirs).
"""

from pathlib import Path

_root = Path(__file__).resolve().parents[2]
if not (Path(__file__).parent / "tasks").is_dir() and (_root / "tasks" / "__init__.py").is_file():
    __path__.append(str(_root))
