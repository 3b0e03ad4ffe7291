"""`acl list|create|delete`: administers ACLs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from aiokafka_lite.cli.administration.actions import Actions, report, run_action
from aiokafka_lite.cli.administration.confirmation import add_confirmation_flags, confirmed
from aiokafka_lite.cli.administration.output import Output
from aiokafka_lite.cli.failures import FAILED, OK, UsageError, complain

if TYPE_CHECKING:
    from aiokafka_lite.admin.client import AIOKafkaAdminClient
    from aiokafka_lite.admin.security.acl_types import AclBinding, AclBindingFilter

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES: Final = """
examples:
  aiokafka-lite acl list
  aiokafka-lite acl list --topic orders
  aiokafka-lite acl create --allow User:alice --operation read,describe --topic orders
  aiokafka-lite acl create --allow User:alice --operation read --group kitchen- --prefixed
  aiokafka-lite acl delete --principal User:alice --topic orders
"""

_RESOURCES: Final = ("topic", "group", "transactional-id", "cluster")
_ANY: Final = ("any", "match", "unknown")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `acl`."""
    actions = Actions(parser)
    listed = actions.add("list", "list ACLs", _list)
    _resources(listed)
    _filters(listed)
    created = actions.add("create", "create ACLs", _create, prints=False)
    _resources(created)
    for flag, purpose in (("--allow", "allow it to"), ("--deny", "deny it to")):
        created.add_argument(
            flag, metavar="PRINCIPAL", action="append", default=[], help=f"{purpose} User:NAME"
        )
    created.add_argument("--operation", metavar="NAME,..", required=True, help="read, write, ...")
    created.add_argument("--host", metavar="ADDRESS", default="*", help="default: every host")
    created.add_argument(
        "--prefixed", action="store_true", help="match every name with this prefix"
    )
    created.add_argument("--dry-run", action="store_true", help="print what would be created")
    deleted = actions.add("delete", "delete the ACLs that match", _delete, prints=False)
    _resources(deleted)
    _filters(deleted)
    add_confirmation_flags(deleted)


def run(args: argparse.Namespace) -> int:
    """Run the action."""
    return run_action("acl", args)


def _resources(parser: argparse.ArgumentParser) -> None:
    for name in _RESOURCES[:-1]:
        parser.add_argument(f"--{name}", metavar="NAME", help=f"this {name.replace('-', ' ')}")
    parser.add_argument("--cluster", action="store_true", help="the cluster itself")


def _filters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--principal", metavar="PRINCIPAL", help="only of User:NAME")
    parser.add_argument("--operation", metavar="NAME", help="only of this operation")


def _resource(args: argparse.Namespace) -> tuple[str, str] | None:
    """Return the type and the name of the given resource; None if there is none."""
    named = [
        (name.upper().replace("-", "_"), getattr(args, name.replace("-", "_")))
        for name in _RESOURCES[:-1]
        if getattr(args, name.replace("-", "_")) is not None
    ]
    if args.cluster:
        named.append(("CLUSTER", "kafka-cluster"))
    if len(named) > 1:
        raise UsageError("name one resource: --topic, --group, --transactional-id or --cluster")
    return named[0] if named else None


def _operation(text: str) -> Any:
    from aiokafka_lite.admin import AclOperation

    name = text.strip().upper().replace("-", "_")
    if name not in AclOperation.__members__ or name.lower() in _ANY:
        known = [each.name.lower().replace("_", "-") for each in AclOperation]
        raise UsageError(
            f"--operation {text!r}: use {', '.join(each for each in known if each not in _ANY)}"
        )
    return AclOperation[name]


def _filter(args: argparse.Namespace) -> AclBindingFilter:
    from aiokafka_lite.admin import AclBindingFilter, ResourcePatternFilter, ResourceType

    given: dict[str, Any] = {}
    resource = _resource(args)
    if resource is not None:
        given["pattern"] = ResourcePatternFilter(ResourceType[resource[0]], resource[1])
    if args.principal is not None:
        given["principal"] = args.principal
    if args.operation is not None:
        given["operation"] = _operation(args.operation)
    return AclBindingFilter(**given)


async def _list(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    found = await admin.describe_acls(_filter(args))
    rows = sorted((_row(each) for each in found), key=lambda row: [str(row[key]) for key in row])
    Output(args).rows(list(_COLUMNS), rows)
    return OK


async def _create(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    from aiokafka_lite.admin import (
        AclBinding,
        AclPermission,
        PatternType,
        ResourcePattern,
        ResourceType,
    )

    resource = _resource(args)
    if resource is None or not (args.allow or args.deny):
        raise UsageError("name a resource, such as --topic, and who: --allow or --deny")
    pattern = ResourcePattern(
        ResourceType[resource[0]],
        resource[1],
        PatternType.PREFIXED if args.prefixed else PatternType.LITERAL,
    )
    wanted = [
        AclBinding(pattern, principal, _operation(operation), permission, args.host)
        for permission, principals in (
            (AclPermission.ALLOW, args.allow),
            (AclPermission.DENY, args.deny),
        )
        for principal in principals
        for operation in args.operation.split(",")
    ]
    if args.dry_run:
        for each in wanted:
            print(f"create {_line(each)}")
        return OK
    created = await admin.create_acls(wanted)
    return report("acl", created.errors())


async def _delete(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    wanted = _filter(args)
    found = await admin.describe_acls(wanted)
    if not found:
        complain("acl", "no ACL matches")
        return FAILED
    if not await confirmed(args, [f"delete {_line(each)}" for each in found]):
        return OK
    # Exactly those that were shown: others may match now.
    deleted = await admin.delete_acls([each.to_filter() for each in found])
    kept = [error for each in deleted.valid().values() for error in each.errors().values()]
    return report("acl", {**deleted.errors(), **dict(enumerate(kept))})


_COLUMNS: Final = ("principal", "permission", "operation", "resource", "name", "pattern", "host")


def _row(acl: AclBinding) -> dict[str, Any]:
    return {
        "principal": acl.principal,
        "permission": acl.permission.name.lower(),
        "operation": acl.operation.name.lower(),
        "resource": acl.pattern.resource_type.name.lower(),
        "name": acl.pattern.name,
        "pattern": acl.pattern.pattern_type.name.lower(),
        "host": acl.host,
    }


def _line(acl: AclBinding) -> str:
    return " ".join(str(value) for value in _row(acl).values())
