"""What a mirrored topic takes over from its source besides records: settings and access control.

Models MirrorSourceConnector's targetConfig, incrementalAlterConfigs and targetAclBinding with
DefaultConfigPropertyFilter. Left out: sensitive settings, which no topic has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kafkasim.model.connect.config import MirrorConfig
from kafkasim.model.connect.policies import matches
from kafkasim.model.messages.clients.acls import ALL, ALLOW, LITERAL, READ, TOPIC, WRITE, AclBinding
from kafkasim.model.messages.clients.configs import DEFAULT, STATIC, DescribedConfig


def settings_at_creation(
    config: MirrorConfig, described: Iterable[DescribedConfig]
) -> tuple[tuple[str, str], ...]:
    """Return the settings with which a mirrored topic is created."""
    return tuple(
        [
            (each.name, each.value)
            for each in _carried(config, described)
            if each.source != DEFAULT or config.use_defaults_from == "source"
        ]
    )


def settings_to_sync(
    config: MirrorConfig, described: Iterable[DescribedConfig]
) -> tuple[tuple[str, str | None], ...]:
    """Return the changes that make a mirrored topic like its source; None removes a setting.

    What the source has by default the mirrored topic has by default too: what that is there, the
    target says, unless ``use.defaults.from`` is ``source``.
    """
    from_target = config.use_defaults_from == "target"
    return tuple(
        [
            (each.name, None if each.source == DEFAULT and from_target else each.value)
            for each in _carried(config, described)
        ]
    )


def _carried(
    config: MirrorConfig, described: Iterable[DescribedConfig]
) -> Iterator[DescribedConfig]:
    for each in described:
        excluded = matches(config.config_properties_exclude, each.name)
        if not (each.read_only or each.source == STATIC or excluded):
            yield each


def mirrored_acls(
    remote: Callable[[str], str], takes: Callable[[str], bool], bindings: Iterable[AclBinding]
) -> tuple[AclBinding, ...]:
    """Return the entries of a source cluster as they are created in the target.

    ``remote`` gives a topic's name there, ``takes`` says whether it is mirrored.

    Only entries of one topic by its name are carried over. Nobody may write to a mirrored topic
    because he may write at home: an ALLOW of WRITE stays there, one of ALL becomes READ. A DENY is
    carried over as it is. What is removed at home stays in the target.
    """
    found = []
    for each in bindings:
        if (each.resource_type, each.pattern_type) != (TOPIC, LITERAL):
            continue
        allowed = each.operation if each.permission == ALLOW else ""
        if allowed != WRITE and takes(each.name):
            mirrored = each._replace(name=remote(each.name))
            found.append(mirrored._replace(operation=READ) if allowed == ALL else mirrored)
    return tuple(found)
