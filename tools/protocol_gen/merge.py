"""Merges the schemas of two releases.

The newest release defines everything that it still supports. The versions that 4.0 dropped, and the
fields that only those versions have, come from the last 3.x release. Fields are matched by name
within their struct. Otherwise the releases differ only in ways that change no byte of a version
that both support (checked against both jars by tools.oracle):

- a newer field has an upper bound because a later version replaced it (topic names of Produce 13);
- `ignorable` was relaxed for those fields, and withdrawn from the header's client id with the one
  version that lacks it: a field that either release ignores is ignored;
- fields were renamed (`TxnOffsetCommit.GenerationId`): the newer name stays;
- the unstable first versions of the share group APIs in 3.9 were never released: they are omitted.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable
from typing import Any

from tools.protocol_gen import jars
from tools.protocol_gen.schema import Message, Versions, load

CLIENT_LISTENERS = {"broker"}
DATA_SCHEMAS = (
    "RequestHeader",
    "ResponseHeader",
    "ConsumerProtocolSubscription",
    "ConsumerProtocolAssignment",
    "ControlRecordTypeSchema",
    "EndTxnMarker",
)
OLD_BROKER_APIS = ("ControlledShutdown",)
"""Used only between brokers, but kept: its version 0 is the only user of request header v0."""


def messages() -> list[Message]:
    """Every message that clients and brokers exchange."""
    newest = jars.read_schemas(jars.NEWEST)
    oldest = jars.read_schemas(jars.OLDEST)
    chosen = []
    for name in sorted(newest):
        request = newest[re.sub("Response$", "Request", name) if _is_rpc(newest[name]) else name]
        api = name.removesuffix("Request").removesuffix("Response")
        if (
            name in DATA_SCHEMAS
            or api in OLD_BROKER_APIS
            or CLIENT_LISTENERS & set(request.get("listeners") or ())
        ):
            chosen.append(_merged(name, newest[name], oldest))
    return chosen


def _is_rpc(schema: dict[str, Any]) -> bool:
    return schema["type"] in ("request", "response")


def _merged(name: str, newest: dict[str, Any], oldest: dict[str, dict[str, Any]]) -> Message:
    request = oldest.get(re.sub("Response$", "Request", name))
    older = oldest.get(name)
    if older is not None and request is not None and request.get("latestVersionUnstable"):
        older = None
    releases = {jars.NEWEST: Versions.parse(newest["validVersions"])}
    if older is None:
        merged = newest
    else:
        releases[jars.OLDEST] = Versions.parse(older["validVersions"])
        merged = merge(newest, older)
    message = load(merged)
    message.releases = {release: found for release, found in releases.items() if found}
    return message


def merge(newest: dict[str, Any], oldest: dict[str, Any]) -> dict[str, Any]:
    new_versions = Versions.parse(newest["validVersions"])
    old_versions = Versions.parse(oldest["validVersions"])
    if not new_versions:
        return oldest
    merged = copy.deepcopy(newest)
    merged["validVersions"] = str(new_versions.hull(old_versions))
    dropped = Versions(old_versions.low, new_versions.low - 1)
    merged["fields"] = _merge_fields(newest.get("fields", ()), oldest.get("fields", ()), dropped)
    old_common = {common["name"]: common for common in oldest.get("commonStructs", ())}
    for common in merged.get("commonStructs", ()):
        if common["name"] in old_common:
            common["fields"] = _merge_fields(
                common["fields"], old_common[common["name"]]["fields"], dropped
            )
    return merged


def _merge_fields(
    newest: Iterable[dict[str, Any]], oldest: Iterable[dict[str, Any]], dropped: Versions
) -> list[dict[str, Any]]:
    """The newest fields and, in their places, older ones that only dropped versions have."""
    merged = [copy.deepcopy(item) for item in newest]
    place = 0
    for old in oldest:
        names = [item["name"] for item in merged]
        if old["name"] in names:
            place = names.index(old["name"])
            item = merged[place]
            if old.get("ignorable") and dropped:
                item["ignorable"] = True
            if "fields" in old and "fields" in item:
                item["fields"] = _merge_fields(item["fields"], old["fields"], dropped)
            place += 1
        elif versions := Versions.parse(old["versions"]) & dropped:
            merged.insert(place, {**copy.deepcopy(old), "versions": str(versions)})
            place += 1
    return merged
