# Makes the folder $VENV with $PYTHON, or with the first Python on PATH that will do. Leaves alone one that works.
set -u

oldest='import sys; sys.exit(sys.version_info < (3, 11))'
able='import venv, ensurepip'
tell() { echo "$*" >&2; exit 1; }

if "$VENV/bin/python" -c "$oldest" 2>/dev/null && "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
    exit 0
fi

if [ -n "$PYTHON" ]; then
    said=$("$PYTHON" -c 'import platform; print(platform.python_version())' 2>/dev/null) ||
        tell "PYTHON=$PYTHON is no Python that runs: name one of version 3.11 or newer"
    "$PYTHON" -c "$oldest" 2>/dev/null ||
        tell "PYTHON=$PYTHON is Python $said, and 3.11 or newer is needed: name another with PYTHON=/path/to/python3"
else
    found=
    for name in python3 python3.13 python3.12 python3.11 python3.14; do
        "$name" -c "$oldest" 2>/dev/null || continue
        found=${found:-$name}
        "$name" -c "$able" 2>/dev/null || continue
        PYTHON=$name
        break
    done
    PYTHON=${PYTHON:-$found}
    [ -n "$PYTHON" ] ||
        tell "No Python 3.11 or newer is on PATH: install one, or name it with PYTHON=/path/to/python3"
fi

"$PYTHON" -c "$able" 2>/dev/null ||
    tell "$PYTHON has no module venv: install it (Debian and Ubuntu: the package python3-venv), or name another" \
        "Python with PYTHON=/path/to/python3"
"$PYTHON" -m venv --clear "$VENV" || tell "$PYTHON can't make the folder $VENV"
