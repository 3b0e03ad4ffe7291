#!/bin/sh
# Builds the native modules with AddressSanitizer in a scratch copy, and runs there what exercises
# them: the unit tests of the codecs, the producer and the consumer, and the native fuzz.
#
#     sh tools/test_asan.sh PYTHON FOLDER [arguments of pytest]
#
# SUITES and PROGRAMS choose what is run, and for how long. With FRAMES, it runs all fuzzers instead,
# each with so many inputs, in pieces of PIECE inputs with a seed each; a fuzzer that fails does not
# keep the others from running. Needs a compiler with libasan (gcc).
set -eu

python=$(command -v "$1")
folder=$2
shift 2
suites=${SUITES:-"tests/unit/protocol tests/unit/record tests/unit/producer tests/unit/consumer"}
programs=${PROGRAMS:-20000}
compiler=${CC:-gcc}

library=$($compiler -print-file-name=libasan.so)
if [ ! -f "$library" ]; then
    echo "$compiler has no libasan.so: install gcc's AddressSanitizer (Debian: libasan6 or newer)" >&2
    exit 1
fi

case $python in /*) ;; *) python=$PWD/$python ;; esac # the tests run in another folder
mkdir -p "$folder"
tar -c --exclude='*.so' --exclude=__pycache__ aiokafka_lite benchmarks docs examples tests tools \
    setup.py pyproject.toml README.md CHANGELOG.md LICENSE docker-compose.yml \
    pytest_aiokafka_lite.py pyspark_aiokafka_lite.py | tar -x -C "$folder"
cd "$folder"

echo "building with AddressSanitizer in $folder"
AIOKAFKA_LITE_REQUIRE_NATIVE=1 LDFLAGS="-fsanitize=address" \
    AIOKAFKA_LITE_COMPILER_FLAGS="-O1 -g -fsanitize=address -fno-omit-frame-pointer" \
    "$python" setup.py build_ext --inplace > build.log 2>&1 || { cat build.log; exit 1; }

# Python's own allocator would hide what is freed; what CPython never frees is no leak of these.
export LD_PRELOAD="$library" ASAN_OPTIONS="detect_leaks=0:quarantine_size_mb=32" PYTHONMALLOC=malloc
export PYTHONPATH="$PWD" AIOKAFKA_LITE_REQUIRE_NATIVE=1

failed=
fuzz() { # MODULE OPTION INPUTS
    left=$3
    while [ "$left" -gt 0 ]; do
        piece=$((left < ${PIECE:-1000000} ? left : ${PIECE:-1000000}))
        "$python" -m "tests.fuzz.$1" "$2" "$piece" || { failed="$failed $1"; return; }
        left=$((left - piece))
    done
}
if [ -n "${FRAMES:-}" ]; then
    fuzz protocol --frames "$FRAMES"
    fuzz records --sets "$FRAMES"
    fuzz native --programs "$FRAMES"
    fuzz broker --frames "$FRAMES"
    fuzz handshake --bytes "$FRAMES"
    fuzz extremes --limit "$((FRAMES / 1000 + 1))"
    [ -z "$failed" ] || { echo "failed:$failed" >&2; exit 1; }
    exit
fi
"$python" -m tests.fuzz.native --programs "$programs"
"$python" -m tests.fuzz.records --sets "$programs"
# shellcheck disable=SC2086  # several folders
exec "$python" -m pytest $suites -m "not real and not java and not spark" \
    -q -p no:cacheprovider -o timeout=600 "$@"
