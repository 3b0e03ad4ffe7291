"""`python -m aiokafka_lite`: see `aiokafka_lite.cli`."""

from aiokafka_lite.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
