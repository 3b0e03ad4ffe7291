#!/bin/sh
# wheel_test.sh PYTHON FOLDER [ARGUMENT OF PYTEST...]: build the source archive and a wheel from a
# copy without git, install the wheel into a new venv in FOLDER, and run the unit tests with it.
# The copy is on Python's path for `tests` and `tools`, but after the wheel. Its package lacks the
# compiled modules, so importing it by accident fails. The environment's TESTS chooses the tests; with
# OPTIONAL=1, dependencies that cannot be installed skip them.
set -eu
python=$1
mkdir -p "$2"
folder=$(cd "$2" && pwd)
shift 2

rm -rf "$folder/venv" "$folder/source" "$folder/dist"
"$python" -m venv "$folder/venv"
bin=$folder/venv/bin
missing() {
    [ "${OPTIONAL:-}" = 1 ] || exit 1
    echo "SKIPPED: the dependencies could not be installed"
    exit 0
}
"$bin/python" -m pip install -q --disable-pip-version-check -U pip build twine || missing
mkdir "$folder/source"
git ls-files -z | xargs -0 cp --parents -t "$folder/source"
cd "$folder/source"
unset PYTHONPATH
export AIOKAFKA_LITE_REQUIRE_NATIVE=1
"$bin/python" -m build -o "$folder/dist" . > "$folder/build.log" 2>&1 ||
    { tail -40 "$folder/build.log" >&2; exit 1; }
"$bin/python" -m twine check --strict "$folder"/dist/*
"$bin/python" -m pip install -q --prefer-binary "$(echo "$folder"/dist/*.whl)[dev,interop]" 'pyarrow>=17' 'pandas>=2.2,<3' \
    'setuptools>=77' 'Cython>=3.1,<4' || missing # the last two are for the tests of setup.py

packages=$("$bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
export PYTHONSAFEPATH=1 PYTHONPATH="$packages:$folder/source"
"$bin/python" - "$packages" <<'CHECK'
import sys
from pathlib import Path

import aiokafka_lite as package

assert Path(package.__file__).is_relative_to(sys.argv[1]), package.__file__
print(f"{package.__version__}, {package.__build__}, in Python {sys.version.split()[0]}")
CHECK
exec "$bin/python" -m pytest -o pythonpath= -q -p no:cacheprovider \
    -m "not real and not java and not brokers and not spark and not long" ${TESTS:-tests/unit} "$@"
