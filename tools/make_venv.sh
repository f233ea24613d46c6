#!/bin/sh
# Make a virtual environment in $1 with the first Python that is new enough.
set -eu

venv=$1
is_new_enough='import sys; sys.exit(sys.version_info < (3, 11))'

for name in python3.11 python3.12 python3.13 python3; do
    if command -v "$name" >/dev/null && "$name" -c "$is_new_enough"; then
        python=$name
        break
    fi
done
if [ -z "${python:-}" ]; then
    echo "ai-model needs Python 3.11 or newer, and neither python3.11 nor a newer python3 is on PATH." >&2
    exit 1
fi

# Some systems ship Python without ensurepip; their own pip can fill the environment as well.
if "$python" -c 'import ensurepip' 2>/dev/null; then
    "$python" -m venv "$venv"
elif "$python" -m pip --version >/dev/null 2>&1; then
    "$python" -m venv --without-pip "$venv"
    "$python" -m pip --python "$venv/bin/python" install -qq pip
else
    echo "$python has no pip: install the system's python3-venv or python3-pip package." >&2
    exit 1
fi
