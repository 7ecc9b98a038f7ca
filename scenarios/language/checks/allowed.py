"""What the checks share: lists of allowed names, and Kafka properties."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from kafkasim.model.client.producer.producer import producer_config
from kafkasim.model.config import Config, ConfigError, ProducerConfig

SHOWN = 12
"""How many allowed names an error line lists at most."""


def some(names: Iterable[str]) -> str:
    """Return names separated by commas; a long list is cut and ends with its length."""
    every = list(names)
    cut = f", … ({len(every)} in all)" if len(every) > SHOWN else ""
    return ", ".join(every[:SHOWN]) + cut


def meant(name: str, names: Iterable[str]) -> str:
    """Return which of the allowed names a user may have meant, and all of them."""
    every = list(names)
    near = difflib.get_close_matches(name, every, n=2, cutoff=0.6)
    asked = f"did you mean {' or '.join(near)}? " if near else ""
    return f"{asked}allowed: {', '.join(every)}"


def check_properties(place: str, config: type[Config], properties: Mapping[str, object]) -> None:
    """Check properties against one of the model's configurations.

    Raises:
        ValueError: for the first property that is unknown or out of range.
    """
    try:
        if config is ProducerConfig:
            # Each property on its own first, then what KafkaProducer derives from all of them.
            alone = {key: each for key, each in properties.items() if key != "transactional.id"}
            config.from_properties({"enable.idempotence": False, **alone})
            producer_config(properties)
        else:
            config.from_properties(properties)
    except ConfigError as error:
        raise ValueError(f"{place}.{error.key}: {error.message}") from None
