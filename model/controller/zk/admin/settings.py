"""Changes settings by writing znodes (ConfigAdminManager, AdminZkClient).

Settings are written below /config and announced to all brokers below /config/changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.controller.common.configs import Problem, config_problem
from kafkasim.model.controller.zk.events import Steps
from kafkasim.model.controller.zk.store.zk_data import (
    CONFIG_CHANGES,
    ConfigChange,
    ConfigEntries,
    broker_config_path,
    config_path,
)
from kafkasim.model.errors import Errors
from kafkasim.model.facts import ConfigChanged
from kafkasim.model.messages import AlterableConfig
from kafkasim.model.messages.clients.admin import TOPIC
from kafkasim.model.zookeeper.ops import Create, GetData, SetData, ZkError

if TYPE_CHECKING:
    from kafkasim.model.controller.common.image import MetadataImage


class SettingsWriter:
    """Writes settings of topics and brokers; ``out`` takes the facts."""

    def __init__(self, out: list[Any], image: MetadataImage) -> None:
        self._out = out
        self._image = image

    def alter(self, resource: AlterableConfig) -> Steps:
        """Change the settings of one resource; return the error and its message."""
        kind, name = resource.resource_type, resource.resource_name
        problem: Problem
        if kind == TOPIC and name and name not in self._image.topic_names:
            problem = Errors.UNKNOWN_TOPIC_OR_PARTITION, "The topic does not exist."
        else:
            problem = config_problem(resource, self._image, internal_segment_bytes=False)
        if problem[0] is Errors.NONE:
            yield from self._write(resource)
        return problem

    def _write(self, resource: AlterableConfig) -> Steps:
        """Read, change and write a resource's settings, and announce the change.

        The write is not conditional: of two writers the last one wins.
        """
        kind, name = resource.resource_type, resource.resource_name
        path = config_path(name) if kind == TOPIC else broker_config_path(name)
        (found,) = yield (GetData(path),)
        entries = dict(found.data.entries) if found.error is ZkError.OK else {}
        for key, text in resource.configs:
            if text is None:
                entries.pop(key, None)
            else:
                entries[key] = text
        settings = ConfigEntries(tuple(entries.items()))
        (written,) = yield (SetData(path, settings),)
        if written.error is ZkError.NONODE:
            (written,) = yield (Create(path, settings),)
        for key, text in resource.configs:
            self._out.append(ConfigChanged(written.zxid, f"{kind}:{name}", key, text))
        change = ConfigChange(kind, name)
        yield (Create(f"{CONFIG_CHANGES}/config_change_", change, sequential=True),)
