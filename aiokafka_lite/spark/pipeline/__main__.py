"""`python -m aiokafka_lite.spark.pipeline run SPEC`; also the file to pass to spark-submit."""

import argparse

from aiokafka_lite.spark.pipeline.commands import add_commands, execute

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m aiokafka_lite.spark.pipeline")
    add_commands(parser)
    raise SystemExit(execute(parser.parse_args()))
