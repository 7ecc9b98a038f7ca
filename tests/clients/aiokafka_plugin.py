"""A plugin of pytest: aiokafka's tests meet a server that runs, not one in a container.

aiokafka's own fixtures start a container and create certificates and Kerberos keys in it. Here they
have the values that its tests need without TLS, SASL and ACLs.
"""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest


def _server():
    host, _, port = os.environ["KAFKASIM_SERVERS"].partition(",")[0].partition(":")
    return SimpleNamespace(
        host=host, port=int(port), ssl_port=1, sasl_plain_port=1, sasl_ssl_port=1,
        container=None, hosts=[f"{host}:{port}"],
    )  # fmt: skip


FIXTURES = {
    "docker": lambda: None,
    "kafka_image": lambda: "kafka:4.1.0",
    "ssl_folder": lambda: Path("tests/ssl_cert"),
    "kafka_server": _server,
    "acl_manager": lambda: None,
    "kerberos_utils": lambda: None,
    "kafka_config": lambda: None,
}


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef, request):
    """Give the fixtures above their values."""
    make = FIXTURES.get(fixturedef.argname)
    if make is None:
        return None
    value = make()
    fixturedef.cached_result = (value, fixturedef.cache_key(request), None)
    return value or True
