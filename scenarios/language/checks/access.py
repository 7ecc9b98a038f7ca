"""Check who may do what: an authorizer that decides, entries that name one resource each."""

from __future__ import annotations

from kafkasim.model.config import BrokerConfig, ConfigError
from kafkasim.model.config.servers import ACL_AUTHORIZER, STANDARD_AUTHORIZER
from kafkasim.scenarios.language.tables import AclTable, Scenario

AUTHORIZER_OF = {"kraft": STANDARD_AUTHORIZER, "zookeeper": ACL_AUTHORIZER}
RESOURCES = ("topic", "group", "transactional_id", "cluster")


def check_access(scenario: Scenario) -> None:
    """Check the entries, and that the servers may work together.

    Raises:
        ValueError: for the first mistake.
    """
    tables = [(f"acls.{index}", each) for index, each in enumerate(scenario.acls)]
    for number, operation in enumerate(scenario.operations):
        place = f"operations.{number}.acls"
        tables += [(f"{place}.{index}", each) for index, each in enumerate(operation.acls)]
    for place, table in tables:
        _check_table(place, table)
    try:
        config = BrokerConfig.from_properties(scenario.cluster.config)
    except ConfigError:
        return  # check_configs says where
    if not config.authorizer_class_name:
        if tables:
            raise ValueError(f"{tables[0][0]}: needs authorizer.class.name in cluster.config")
        return
    needed = AUTHORIZER_OF[scenario.cluster.mode]
    if config.authorizer_class_name != needed:
        raise ValueError(
            f"cluster.config.authorizer.class.name: {config.authorizer_class_name!r} does not work"
            f" in {scenario.cluster.mode} mode; allowed: {needed!r}"
        )
    principal = scenario.cluster.principal
    if principal not in config.super_user_names and not config.allow_everyone_if_no_acl_found:
        raise ValueError(
            f"cluster.principal: {principal!r} is not in super.users ="
            f" {config.super_users!r}, so the brokers could not fetch from one another"
        )


def _check_table(place: str, table: AclTable) -> None:
    if (table.allow is None) == (table.deny is None):
        raise ValueError(f"{place}: give either allow or deny")
    if len([name for name in RESOURCES if getattr(table, name)]) != 1:
        raise ValueError(f"{place}: give one of topic, group, transactional-id, cluster = true")
    who = table.allow or table.deny or ""
    if not all(who.partition(":")):
        raise ValueError(f"{place}: {who!r} is not TYPE:NAME, e.g. User:alice")
