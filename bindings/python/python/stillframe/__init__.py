"""Look at a running simulation without stopping it.

A running program publishes consistent versions of its arrays through shared memory (:func:`create`), and other programs
attach, read immutable snapshots and leave (:func:`open`). The ranks of a parallel program are seen together
(:func:`open_group`). Data that many processes hold has one name, whoever has which part (:func:`create_object`, :func:`object`).
Many small regions lie in one file (:class:`Arena`). :mod:`stillframe.drepl` describes layouts of data, and gets any other layout of it.
"""

from ._arena import Arena, ArenaRegion, ArenaUsage
from ._checkpoint import Checkpointer, CheckpointStatus, checkpoint, is_safe, newest_safe, wait_safe, wait_safe_from
from ._errors import (
    CorruptError,
    DreplError,
    Ended,
    Error,
    ForkError,
    InUse,
    Lost,
    MisuseError,
    NoArena,
    NoCheckpoint,
    NodeOutOfMemory,
    NoObject,
    NoRegion,
    NoVersion,
    ObjectPart,
    OutOfMemory,
    OutOfSpace,
    Overlap,
    ProducerGone,
    RankGone,
    RankMissing,
    ResourceError,
    Timeout,
    UnknownVariable,
    VersionGone,
)
from ._group import Group, GroupSnapshot, RankInfo, open_group
from ._inspect import RegionInfo
from ._inspect import list_regions as list
from ._inspect import remove_region as remove
from ._native import __version__
from ._object import Object, ObjectVersion, ReadFragment, WriteFragment, WriterInfo, create_object
from ._object import open_object as object
from ._object_array import ObjectArray
from ._observer import Chunk, Observer, Snapshot, Variable, VersionInfo
from ._observer import open_region as open
from ._polite import Polite
from ._publication import Published
from ._recovery import Origin, recover
from ._region import Loan, Region, create
from ._types import Part, RecoveredVariable

__all__ = [
    "Arena",
    "ArenaRegion",
    "ArenaUsage",
    "CheckpointStatus",
    "Checkpointer",
    "Chunk",
    "CorruptError",
    "DreplError",
    "Ended",
    "Error",
    "ForkError",
    "Group",
    "GroupSnapshot",
    "InUse",
    "Loan",
    "Lost",
    "MisuseError",
    "NoArena",
    "NoCheckpoint",
    "NoObject",
    "NoRegion",
    "NoVersion",
    "NodeOutOfMemory",
    "Object",
    "ObjectArray",
    "ObjectPart",
    "ObjectVersion",
    "Observer",
    "Origin",
    "OutOfMemory",
    "OutOfSpace",
    "Overlap",
    "Part",
    "Polite",
    "ProducerGone",
    "Published",
    "RankGone",
    "RankInfo",
    "RankMissing",
    "ReadFragment",
    "RecoveredVariable",
    "Region",
    "RegionInfo",
    "ResourceError",
    "Snapshot",
    "Timeout",
    "UnknownVariable",
    "Variable",
    "VersionGone",
    "VersionInfo",
    "WriteFragment",
    "WriterInfo",
    "__version__",
    "checkpoint",
    "create",
    "create_object",
    "is_safe",
    "list",
    "newest_safe",
    "object",
    "open",
    "open_group",
    "recover",
    "remove",
    "wait_safe",
    "wait_safe_from",
]
