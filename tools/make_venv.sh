#!/bin/sh
# Make .venv with the newest Python >= 3.11 on this machine that really runs.
# A name on the PATH proves nothing (a version manager's shim may point nowhere), so each is tried.
set -u
folder=${1:-.venv}
without_venv=""

for python in ${PYTHON:-python3.14 python3.13 python3.12 python3.11 python3 python}; do
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue
    if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
        without_venv="$without_venv $python"
        continue
    fi
    echo "making $folder with $("$python" -V)"
    "$python" -m venv "$folder" || exit 1
    exec "$folder/bin/python" -m pip install -q --disable-pip-version-check -U pip
done

if [ -n "$without_venv" ]; then
    echo "Found$without_venv, but without the venv module. On Debian and Ubuntu it is a package:" >&2
    echo "    sudo apt-get install python3-venv" >&2
else
    echo "No Python >= 3.11 found. Install one, or name it: make PYTHON=/path/to/python3 ..." >&2
fi
exit 1
