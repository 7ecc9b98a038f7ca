"""The tables of Kafka Streams in a scenario: what they refuse, and what they mean."""

from __future__ import annotations

import pytest

from kafkasim.model import facts
from kafkasim.model.facts import StreamsStarted
from kafkasim.scenarios.language import library
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.running.runner import ScenarioRun


def test_one_group_instance_id_for_several_instances_is_refused() -> None:
    data, place = library.source("streams-rolling-restart")
    data["streams"][0]["config"]["group.instance.id"] = "one"
    with pytest.raises(ValueError, match=r"streams\.0\.config\.group\.instance\.id: 'one' is"):
        parse(data, place)


@pytest.mark.slow
def test_instances_start_one_after_the_other_and_threads_are_members_of_their_own() -> None:
    data, place = library.source("streams-rolling-restart")
    data["streams"][0]["start-every"] = "2s"
    data["streams"][0]["config"]["num.stream.threads"] = 2
    data |= {"duration": "6s", "operations": [], "expect": {}}
    data.pop("twin")
    run = ScenarioRun(parse(data, place), 1, None, [])
    started: list[int] = []
    joined: dict[str, None] = {}
    run.trace.subscribe(StreamsStarted, lambda _s, t, _n, _f: started.append(t))
    run.trace.subscribe(
        facts.MemberRequest, lambda _s, _t, _n, fact: joined.setdefault(fact.instance_id)
    )
    run.execute()
    assert [(each - started[0]) // 1_000_000 for each in started] == [0, 2, 4]
    assert sorted(joined) == [
        f"counting-streams-{instance}-{thread}" for instance in (1, 2, 3) for thread in (1, 2)
    ]
