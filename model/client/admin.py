"""The admin client: Kafka's KafkaAdminClient, as far as clusters are built and operated with it.

A request goes to the least loaded node, which forwards it to the controller; what fails without an
answer or with a retriable error is tried again until default.api.timeout.ms (60 s).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from model.client.connections import Connections, backoff_us
from model.client.exceptions import KafkaTimeoutError
from model.client.metadata import Metadata
from model.effects import Reply
from model.errors import RETRIABLE, Errors
from model.messages import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    MetadataRequest,
    MetadataResponse,
)

if TYPE_CHECKING:
    from model.client.rules import ClientRules
    from model.config import ClientConfig
    from model.effects import Process

API_TIMEOUT_US = 60_000_000


class AdminCall:
    """One call of the application, retried until it has an answer."""

    def __init__(self, admin: KafkaAdmin, call: int, request: Any, now: int) -> None:
        self.admin = admin
        self.call = call
        self.request = request
        self.deadline = now + API_TIMEOUT_US
        self.attempts = 0
        self.key = ("admin", admin.name, call)

    def attempt(self, now: int) -> None:
        """Send the request, or try later."""
        self.attempts += 1
        channel = self.admin.connections.least_loaded(now)
        if channel is None:
            self.retry(now)
        else:
            channel.send(self.request, now, self.on_answer)

    def on_answer(self, answer: Any, now: int) -> None:
        """Finish with what is final; retry what is not."""
        result = self._result(answer)
        if result is None:
            self.retry(now)
        else:
            self.admin.process.out.append(Reply(self.call, result, None))

    def retry(self, now: int) -> None:
        """Try again after the backoff, unless the call's time is over."""
        process = self.admin.process
        at = now + backoff_us(self.admin.config, self.attempts, process.rng)
        if at >= self.deadline:
            name = type(self.request).__name__
            process.out.append(Reply(self.call, None, KafkaTimeoutError("TIMED_OUT", name)))
        else:
            process.timers.arm(self.key, at, "main", self.attempt)

    def _result(self, answer: Any) -> Any:
        if isinstance(answer, MetadataResponse):
            for topic in answer.topics:
                if topic.error or any(p.leader < 0 for p in topic.partitions):
                    return None
            return answer
        if isinstance(answer, CreateTopicsResponse):
            return self._created(answer)
        if isinstance(answer, ElectLeadersResponse):
            return None if answer.error in RETRIABLE else answer
        return None

    def _created(self, answer: CreateTopicsResponse) -> Any:
        """Return the results; a topic that an earlier, unanswered attempt made counts as made."""
        results = []
        for topic, error, message in answer.results:
            if error in RETRIABLE:
                return None
            if error is Errors.TOPIC_ALREADY_EXISTS and self.attempts > 1:
                results.append((topic, Errors.NONE, message))
            else:
                results.append((topic, error, message))
        return tuple(results)


class KafkaAdmin:
    """One admin client of a client process."""

    def __init__(
        self,
        process: Process,
        name: str,
        config: ClientConfig,
        bootstrap: tuple[str, ...],
        rules: ClientRules,
    ) -> None:
        self.process = process
        self.name = name
        self.config = config
        self.connections = Connections(process, name, config, bootstrap, "admin")
        self.metadata = Metadata(self.connections, rules, auto_create=False)
        self.methods = {
            "create_topics": self.create_topics,
            "elect_leaders": self.elect_leaders,
            "describe": self.describe,
            "close": self.close,
        }

    def create_topics(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Create (topics: tuple[CreatableTopic, …],): replies ((topic, error, message), …)."""
        topics: tuple[CreatableTopic, ...] = tuple(args[0])
        request = CreateTopicsRequest(topics, self.config.request_timeout_ms)
        AdminCall(self, call, request, now).attempt(now)

    def elect_leaders(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Elect (election_type, partitions or None): replies the ElectLeadersResponse."""
        election_type, partitions = args
        request = ElectLeadersRequest(election_type, partitions)
        AdminCall(self, call, request, now).attempt(now)

    def describe(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Describe (topics,): replies the MetadataResponse once all their leaders are known."""
        request = MetadataRequest(tuple(args[0]), allow_auto_topic_creation=False)
        AdminCall(self, call, request, now).attempt(now)

    def close(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Close the connections."""
        self.metadata.close()
        self.connections.close()
        self.process.out.append(Reply(call, None, None))
