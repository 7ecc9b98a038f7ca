"""The errors in a response (AbstractResponse.errorCounts), as far as anybody looks for one."""

from __future__ import annotations

from typing import Any

from kafkasim.model.errors import Errors
from kafkasim.model.messages.clients.admin import CreatePartitionsResponse, DeleteTopicsResponse
from kafkasim.model.messages.servers.cluster import CreateTopicsResponse


def errors_in(response: Any) -> tuple[Errors, ...]:
    """Return the error of the whole response, and those of the topics in it.

    Left out: errors of partitions, groups and resources.
    """
    errors = (getattr(response, "error", Errors.NONE),)
    if isinstance(response, CreateTopicsResponse | CreatePartitionsResponse):
        return (*errors, *[error for _, error, _ in response.results])
    if isinstance(response, DeleteTopicsResponse):
        return (*errors, *[error for _, _, error, _ in response.results])
    return errors
