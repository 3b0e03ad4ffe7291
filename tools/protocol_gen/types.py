"""The Python code of each schema type: annotation, default, reading and writing."""

from __future__ import annotations

from tools.protocol_gen.schema import Field, Versions

LAYOUT_CODES = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint16": "H",
    "uint32": "I",
    "float64": "d",
    "bool": "?",
}
LAYOUT_NAMES = {
    "b": "I8",
    "h": "I16",
    "i": "I32",
    "q": "I64",
    "H": "U16",
    "I": "U32",
    "d": "F64",
    "?": "BOOL",
}
SINGLE_LAYOUTS = {
    "int8": "INT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
    "uint16": "UINT16",
    "float64": "FLOAT64",
    "bool": "BOOL",
}
ANNOTATIONS = {
    "string": "str",
    "bytes": "bytes",
    "records": "Buffer",
    "uuid": "UUID",
    "bool": "bool",
    "float64": "float",
}


def is_fixed(item: Field) -> bool:
    """True if the field can be part of a run packed by one struct layout."""
    return not item.array and item.struct is None and item.element in LAYOUT_CODES


def element_annotation(item: Field) -> str:
    if item.struct is not None:
        return item.struct.python_name
    return ANNOTATIONS.get(item.element, "int")


def annotation(item: Field) -> str:
    text = element_annotation(item)
    if item.array:
        text = f"list[{text}]"
    return f"{text} | None" if item.nullable or default(item) == "None" else text


def default(item: Field) -> str:
    """The default as an expression that makes a new value each time."""
    given = item.default
    if given == "null":
        return "None"
    if item.array:
        return "[]"
    if item.struct is not None:
        if item.nullable:
            raise ValueError(f"{item.schema_name}: a nullable struct without a null default")
        return f"{item.struct.python_name}()"
    if item.element == "records":
        return "None" if item.nullable else 'b""'
    if item.element == "string":
        return f'"{given}"' if given else '""'
    if item.element == "bytes":
        return 'b""'
    if item.element == "uuid":
        return "ZERO_UUID"
    if item.element == "bool":
        return str(str(given).lower() == "true")
    if item.element == "float64":
        return str(float(given or 0))
    return str(int(str(given), 0)) if given not in (None, "") else "0"


def parameter(item: Field) -> tuple[str, str]:
    """The parameter of the field in `__init__`, and the assigned value."""
    value = default(item)
    if value == "[]":
        return (
            f"{item.name}: {annotation(item)} = EMPTY",
            f"self.{item.name} = [] if {item.name} is EMPTY else {item.name}",
        )
    if item.is_struct and value != "None":
        return (
            f"{item.name}: {annotation(item)} | None = None",
            f"self.{item.name} = {value} if {item.name} is None else {item.name}",
        )
    return f"{item.name}: {annotation(item)} = {value}", f"self.{item.name} = {item.name}"


def is_set(item: Field) -> str:
    """The condition that the field differs from its default."""
    attribute = f"self.{item.name}"
    value = default(item)
    if value == "None":
        return f"{attribute} is not None"
    if value in ("[]", '""', 'b""', "False") and not item.nullable:
        return attribute
    if value == "True":
        return f"not {attribute}"
    return f"{attribute} != {value}"


def condition(versions: Versions, within: Versions) -> str:
    """The condition that `version` is in `versions`, given that it is in `within`; "" if it
    always is."""
    low = versions.low > within.low
    high = versions.high < within.high
    if versions.low == versions.high and (low or high):
        return f"version == {versions.low}"
    if low and high:
        return f"{versions.low} <= version <= {versions.high}"
    if low:
        return f"version >= {versions.low}"
    return f"version <= {versions.high}" if high else ""


def negation(versions: Versions, within: Versions) -> str:
    low = versions.low > within.low
    high = versions.high < within.high
    if low and not high:
        return f"version < {versions.low}"
    if high and not low:
        return f"version > {versions.high}"
    return f"not {versions.low} <= version <= {versions.high}"
