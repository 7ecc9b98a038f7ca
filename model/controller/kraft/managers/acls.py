"""Changes of access control lists as records (org.apache.kafka.controller.AclControlManager).

Without an authorizer.class.name a controller answers SECURITY_DISABLED. Left out: the bound of
10,000 records of a request.
"""

from __future__ import annotations

import random
from typing import Any

from kafkasim.model.config import BrokerConfig
from kafkasim.model.controller.common.acls import (
    binding_problem,
    is_binding,
    selects,
)
from kafkasim.model.controller.common.image import MetadataImage
from kafkasim.model.controller.common.records import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
)
from kafkasim.model.controller.common.responses import without_authorizer
from kafkasim.model.controller.kraft.rules import ControllerRules
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    AclBinding,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


class AclControlManager:
    """Judges changes of access control lists; changes nothing itself."""

    def __init__(
        self,
        image: MetadataImage,
        config: BrokerConfig,
        rules: ControllerRules,
        rng: random.Random,
    ) -> None:
        self._image = image
        self._secured = bool(config.authorizer_class_name)
        self._rules = rules
        self._rng = rng

    def create(self, request: CreateAclsRequest) -> tuple[list[Any], CreateAclsResponse]:
        """Return the records of the entries that are new, and a result for each binding.

        An entry that exists, or that the request names twice, is no error and no record
        (KAFKA-19347).
        """
        if not self._secured:
            return [], without_authorizer(request)
        if not all(map(is_binding, request.bindings)):
            failed = (Errors.UNKNOWN_SERVER_ERROR, "")
            return [], CreateAclsResponse(Errors.NONE, (failed,) * len(request.bindings))
        records: list[Any] = []
        results: list[tuple[Errors, str]] = []
        known = dict.fromkeys(self._image.acls.values())
        for binding in request.bindings:
            problem = binding_problem(binding)
            results.append((Errors.INVALID_REQUEST if problem else Errors.NONE, problem))
            if problem or not self._rules.is_new_entry(binding, known):
                continue
            known[binding] = None
            records.append(AccessControlEntryRecord(self._new_id(), binding))
        return records, CreateAclsResponse(Errors.NONE, tuple(results))

    def delete(self, request: DeleteAclsRequest) -> tuple[list[Any], DeleteAclsResponse]:
        """Return the records of the entries that go, and what each filter has deleted.

        An entry that two filters name is a result of both, and one record (KAFKA-13892).
        """
        if not self._secured:
            return [], without_authorizer(request)
        removed: list[str] = []
        results: list[tuple[Errors, str, tuple[AclBinding, ...]]] = []
        for wanted in request.filters:
            found = [key for key, each in self._image.acls.items() if selects(wanted, each)]
            removed += found
            results.append((Errors.NONE, "", tuple([self._image.acls[key] for key in found])))
        records: list[Any] = [RemoveAccessControlEntryRecord(key) for key in dict.fromkeys(removed)]
        return records, DeleteAclsResponse(Errors.NONE, tuple(results))

    def _new_id(self) -> str:
        return f"{self._rng.getrandbits(64):016x}"
