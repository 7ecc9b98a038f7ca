"""Finalized features: who must support a level, and who may not register any more (KIP-584)."""

from __future__ import annotations

import pytest

from kafkasim.model.controller.common.image import MetadataImage
from kafkasim.model.controller.common.records import (
    ELR_FEATURE,
    GROUP_VERSION,
    METADATA_VERSION,
    TRANSACTION_VERSION,
    FeatureLevelRecord,
    RegisterBrokerRecord,
)
from kafkasim.model.controller.kraft.feature_levels import SUPPORTED, formatted, unsupported
from kafkasim.model.controller.kraft.managers.features import FeatureControlManager
from kafkasim.model.errors import Errors
from kafkasim.model.messages import UpdateFeaturesRequest
from kafkasim.model.messages.clients.admin import SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, UPGRADE

OLD = SUPPORTED["3.9"]
NEW = SUPPORTED["4.0"]


@pytest.mark.parametrize(
    ("release", "requested", "levels"),
    [  # as kafka-storage format of 4.0.0 and 4.1.0 wrote them
        ("3.9", {}, {METADATA_VERSION: 21}),
        ("4.0", {}, {METADATA_VERSION: 25, ELR_FEATURE: 0}),
        ("4.0", {ELR_FEATURE: 1}, {METADATA_VERSION: 25, ELR_FEATURE: 1}),
        ("4.1", {}, {METADATA_VERSION: 27, ELR_FEATURE: 1}),
        ("4.1", {METADATA_VERSION: 25}, {METADATA_VERSION: 25, ELR_FEATURE: 0}),
        ("4.1", {ELR_FEATURE: 0}, {METADATA_VERSION: 27, ELR_FEATURE: 0}),
    ],
)
def test_other_features_are_formatted_at_the_default_of_the_metadata_version(
    release: str, requested: dict[str, int], levels: dict[str, int]
) -> None:
    assert formatted(SUPPORTED[release], requested) == levels


def manager(*brokers: tuple[tuple[str, int, int], ...], own=NEW) -> FeatureControlManager:
    image = MetadataImage()
    image.apply(FeatureLevelRecord(METADATA_VERSION, 21), 0, 1)
    for number, ranges in enumerate(brokers, 1):
        record = RegisterBrokerRecord(number, "i", f"broker-{number}", None, features=ranges)
        image.apply(record, number, 1)
    return FeatureControlManager(image, own)


def test_levels_are_finalized_together_once_all_support_them() -> None:
    records, answer = manager(NEW, NEW).update(
        UpdateFeaturesRequest(((METADATA_VERSION, 25), (ELR_FEATURE, 1)))
    )
    assert answer.error is Errors.NONE
    assert records == [FeatureLevelRecord(METADATA_VERSION, 25), FeatureLevelRecord(ELR_FEATURE, 1)]


def test_the_level_that_is_there_is_written_again() -> None:  # FeatureControlManager.updateFeature
    records, answer = manager(NEW).update(UpdateFeaturesRequest(((METADATA_VERSION, 21),)))
    assert (records, answer.error) == ([FeatureLevelRecord(METADATA_VERSION, 21)], Errors.NONE)


@pytest.mark.parametrize(
    ("features", "brokers", "own", "told"),
    [
        (((METADATA_VERSION, 25),), (NEW, OLD), NEW, "Broker 2 supports versions 1-21."),
        (((ELR_FEATURE, 1),), (NEW, OLD), NEW, "Broker 2 supports none of it."),
        (((METADATA_VERSION, 25),), (NEW,), OLD, "The controller does not support it"),
        (((METADATA_VERSION, 20),), (NEW,), NEW, "A downgrade has to be asked for."),
        (((ELR_FEATURE, 1),), (NEW,), NEW, "It depends on metadata.version 23."),
    ],
)
def test_what_somebody_does_not_support_is_refused(features, brokers, own, told) -> None:
    records, answer = manager(*brokers, own=own).update(UpdateFeaturesRequest(features))
    assert (records, answer.error) == ([], Errors.INVALID_UPDATE_VERSION)
    assert told in answer.message


@pytest.mark.parametrize(
    ("feature", "level", "upgrade_type", "told"),
    [
        (TRANSACTION_VERSION, 1, UPGRADE, "A downgrade has to be asked for."),
        (TRANSACTION_VERSION, 1, SAFE_DOWNGRADE, ""),
        (TRANSACTION_VERSION, 0, UNSAFE_DOWNGRADE, ""),
        (TRANSACTION_VERSION, 2, SAFE_DOWNGRADE, ""),  # the level that is there
        (TRANSACTION_VERSION, 1, 7, "The controller does not support the given upgrade type."),
        (ELR_FEATURE, 1, SAFE_DOWNGRADE, "A higher level is no downgrade."),
        (METADATA_VERSION, 23, SAFE_DOWNGRADE, ""),  # 24 and 25 brought no metadata of their own
        (METADATA_VERSION, 22, SAFE_DOWNGRADE, "Metadata of level 23 would be lost."),
        (METADATA_VERSION, 22, UNSAFE_DOWNGRADE, "Metadata of level 23 would be lost."),
        (METADATA_VERSION, 0, UNSAFE_DOWNGRADE, "It is 7 at least."),
        ("no.such.feature", 0, SAFE_DOWNGRADE, "There is no such feature."),
    ],
)
def test_a_lower_level_is_asked_for_as_a_downgrade(
    feature: str, level: int, upgrade_type: int, told: str
) -> None:
    """FeatureControlManager.updateFeature, updateMetadataVersion."""
    features = manager(NEW)
    features.image.apply(FeatureLevelRecord(METADATA_VERSION, 25), 2, 1)
    features.image.apply(FeatureLevelRecord(TRANSACTION_VERSION, 2), 3, 1)
    records, answer = features.update(UpdateFeaturesRequest(((feature, level),), upgrade_type))
    if told:
        assert (records, answer.error) == ([], Errors.INVALID_UPDATE_VERSION)
        assert told in answer.message
    else:
        assert (records, answer.error) == ([FeatureLevelRecord(feature, level)], Errors.NONE)


def test_what_is_finalized_above_a_release_shuts_it_out() -> None:
    assert unsupported(OLD, {METADATA_VERSION: 21}) is None
    assert unsupported(OLD, {METADATA_VERSION: 25}) == METADATA_VERSION
    assert unsupported(OLD, {METADATA_VERSION: 21, ELR_FEATURE: 1}) == ELR_FEATURE
    assert unsupported(OLD, {METADATA_VERSION: 21, ELR_FEATURE: 0}) is None


@pytest.mark.parametrize(
    ("levels", "version"),
    [
        ((21,), 0),  # 3.9-IV0
        ((22,), 1),  # 4.0-IV0
        ((21, 25), 0),  # a newer metadata version changes no other feature
    ],
)
def test_group_version_is_that_of_the_first_metadata_version(
    levels: tuple[int, ...], version: int
) -> None:
    """GroupVersion.bootstrapMetadataVersion; consumer groups need 1 (KIP-848)."""
    image = MetadataImage()
    for offset, level in enumerate(levels):
        image.apply(FeatureLevelRecord(METADATA_VERSION, level), offset, 1)
    assert image.group_version == image.finalized_features().get(GROUP_VERSION, 0) == version
    image.apply(FeatureLevelRecord(GROUP_VERSION, 1 - version), len(levels), 1)
    assert image.group_version == 1 - version


@pytest.mark.parametrize(
    ("levels", "version"),
    [
        ({METADATA_VERSION: 21}, 0),
        ({METADATA_VERSION: 24}, 2),
        ({METADATA_VERSION: 25, TRANSACTION_VERSION: 0}, 0),
        ({METADATA_VERSION: 25, TRANSACTION_VERSION: 1}, 1),
    ],
)
def test_the_default_of_transaction_version_is_that_of_the_metadata_version(
    levels: dict[str, int], version: int
) -> None:
    image = MetadataImage()
    for offset, (name, level) in enumerate(levels.items()):
        image.apply(FeatureLevelRecord(name, level), offset, 1)
    assert image.transaction_version == version
    assert image.finalized_features().get(TRANSACTION_VERSION, 0) == version


def test_a_newer_metadata_version_leaves_transaction_version_alone() -> None:
    image = MetadataImage()
    for offset, level in enumerate((21, 25)):
        image.apply(FeatureLevelRecord(METADATA_VERSION, level), offset, 1)
    assert image.transaction_version == 0
    image.apply(FeatureLevelRecord(TRANSACTION_VERSION, 2), 2, 1)
    assert image.transaction_version == 2


def test_transaction_version_needs_servers_of_4_0() -> None:
    request = UpdateFeaturesRequest(((TRANSACTION_VERSION, 2),))
    records, answer = manager(NEW).update(request)
    assert (records, answer.error) == ([FeatureLevelRecord(TRANSACTION_VERSION, 2)], Errors.NONE)
    assert manager(OLD).update(request)[1].error is Errors.INVALID_UPDATE_VERSION
    request = UpdateFeaturesRequest(((TRANSACTION_VERSION, 3),))
    assert manager(NEW).update(request)[1].error is Errors.INVALID_UPDATE_VERSION
