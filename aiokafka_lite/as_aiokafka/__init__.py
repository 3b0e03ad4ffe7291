"""Compatibility with libraries that import aiokafka.

`import_alias` makes `import aiokafka` import this package; `python -m aiokafka_lite.as_aiokafka`
runs a program in this way. `private_names` lists names that begin with an underscore in aiokafka,
which libraries read nevertheless.
"""
