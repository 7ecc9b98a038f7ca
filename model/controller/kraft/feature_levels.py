"""Levels of features: what each release supports, and what kafka-storage format writes (KIP-584).

Models MetadataVersion, EligibleLeaderReplicasVersion, TransactionVersion, GroupVersion,
ShareVersion and Formatter. Left out: kraft.version, which the quorum's own log has (model/raft).
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkasim.model.controller.common.records import (
    ELR_FEATURE,
    GROUP_VERSION,
    METADATA_VERSION,
    METADATA_VERSION_4_0_IV2,
    SHARE_VERSION,
    TRANSACTION_VERSION,
)

METADATA_VERSION_3_6_IV0 = 12  # an ISR shrink does not raise the leader epoch (KAFKA-15021)
METADATA_VERSION_3_7_IV2 = 17  # brokers may have several log directories (KIP-858)
METADATA_VERSION_4_0_IV1 = 23  # partitions may have eligible leader replicas (KIP-966)
METADATA_VERSION_4_1_IV0 = 26  # they have them unless told otherwise

METADATA_CHANGES = (1, 3, 5, 6, 7, 8, 11, 13, 14, 15, 17, 23)
"""The metadata versions with records or fields that older ones do not know (didMetadataChange)."""

Ranges = tuple[tuple[str, int, int], ...]
"""What a release supports: (feature, lowest level, highest level) of each feature."""

SUPPORTED: dict[str, Ranges] = {
    "3.9": ((METADATA_VERSION, 1, 21),),  # 3.0-IV1 to 3.9-IV0
    "4.0": ((METADATA_VERSION, 7, 25), (ELR_FEATURE, 0, 1)),  # 3.3-IV3 to 4.0-IV3
    "4.1": ((METADATA_VERSION, 7, 27), (ELR_FEATURE, 0, 1)),  # 3.3-IV3 to 4.1-IV1
}
"""Release to what its servers say that they support; :func:`all_ranges` has the rest."""


def all_ranges(ranges: Ranges) -> Ranges:
    """Return what servers support, with what they do not say.

    group.version and transaction.version came with metadata versions, share.version with a
    release. They are implied by the newest metadata version: a registration that named them would
    be another record in every run. share.version 1 has no dependency, and is never a default
    (ShareVersion: a preview in 4.1).
    """
    newest = {name: high for name, _, high in ranges}.get(METADATA_VERSION, 0)
    if newest < METADATA_VERSION_4_0_IV2:
        return ranges
    groups = (GROUP_VERSION, 0, 1)
    shares = ((SHARE_VERSION, 0, 1),) if newest >= METADATA_VERSION_4_1_IV0 else ()
    return (*ranges, groups, (TRANSACTION_VERSION, 0, 2), *shares)


def unsupported(ranges: Ranges, levels: Mapping[str, int]) -> str | None:
    """Return the first feature whose level is outside ``ranges``, None if there is none.

    Level 0 means that a feature is off; every release supports it.
    """
    known = {name: (low, high) for name, low, high in all_ranges(ranges)}
    for name, level in levels.items():
        low, high = known.get(name, (0, 0))
        if level != 0 and not low <= level <= high:
            return name
    return None


def missing_dependency(levels: Mapping[str, int]) -> tuple[str, int] | None:
    """Return a feature and the level of it that ``levels`` lack for ELR; None: nothing is lacking.

    (EligibleLeaderReplicasVersion.dependencies)
    """
    if not levels.get(ELR_FEATURE, 0) or levels[METADATA_VERSION] >= METADATA_VERSION_4_0_IV1:
        return None
    return METADATA_VERSION, METADATA_VERSION_4_0_IV1


def formatted(ranges: Ranges, requested: Mapping[str, int]) -> dict[str, int]:
    """Return the levels that kafka-storage format writes, by feature.

    ``requested`` are those that its --feature options name. metadata.version is the newest of the
    release by default, and the default of each other feature is that of the metadata version
    (Formatter.calculateEffectiveFeatureLevels).
    """
    newest = {name: high for name, _, high in ranges}
    levels = {METADATA_VERSION: requested.get(METADATA_VERSION, newest[METADATA_VERSION])}
    if ELR_FEATURE in newest:
        levels[ELR_FEATURE] = int(levels[METADATA_VERSION] >= METADATA_VERSION_4_1_IV0)
    return {**levels, **requested}
