#!/bin/sh
# other_python.sh PYTHON: print the newest CPython from 3.12 on that is installed and is of another
# version than PYTHON; print nothing if there is none. Looks on the path and in pyenv's folder.
set -eu
own=$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
for version in 3.14 3.13 3.12; do
    [ "$version" = "$own" ] && continue
    for python in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python; do
        if "$python" -c 'import ensurepip, venv' 2> /dev/null; then
            command -v "$python"
            exit
        fi
    done
done
