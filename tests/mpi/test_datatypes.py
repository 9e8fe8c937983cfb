"""Texts of the layout language from datatypes of MPI: what MPI packs is what the view has."""

import numpy as np
import pytest
from mpi4py import MPI
from stillframe import drepl

PARTICLE = MPI.Datatype.Create_struct([1, 2], [0, 8], [MPI.INT, MPI.DOUBLE])


def move(source, target):
    """As a message that this process sends to itself."""
    MPI.COMM_SELF.Sendrecv(source, 0, 0, target, 0, 0)


@pytest.mark.parametrize(
    "datatype",
    [
        MPI.DOUBLE,
        MPI.INT.Create_contiguous(5),
        MPI.DOUBLE.Create_vector(3, 2, 5),
        MPI.DOUBLE.Create_hvector(3, 1, 40),
        MPI.INT.Create_indexed([2, 1, 3], [1, 7, 19]),
        MPI.INT.Create_indexed_block(1, [3, 7, 19]),
        PARTICLE,
        PARTICLE.Create_resized(0, 32),
        PARTICLE.Create_contiguous(4),
        MPI.DOUBLE_INT,
        MPI.FLOAT.Create_subarray([4, 6], [2, 3], [1, 2]),
        MPI.FLOAT.Create_subarray([4, 6], [2, 3], [1, 2], order=MPI.ORDER_F),
        MPI.FLOAT.Create_subarray([4, 6], [4, 6], [0, 0]),
        MPI.INT.Create_subarray([3, 4, 5], [1, 2, 2], [2, 0, 3]).Dup(),
    ],
    ids=lambda datatype: f"{datatype.decode()[1]}-{datatype.Get_size()}",
)
def test_a_view_has_what_mpi_packs(datatype):
    text = drepl.describe({"data": datatype})
    # MPI packs elements as they lie in memory.
    order = "columnmajor" if "columnmajor" in text else "rowmajor"
    schema = drepl.parse(f"{text}\nview dense {order} {{ var data = data }}")
    bytes_there = schema["data"].size_bytes
    datatype.Commit()
    buffer = np.random.default_rng(1).integers(0, 256, bytes_there + 64, "u1")
    packed = bytearray(datatype.Get_size())
    move([buffer, 1, datatype], [packed, len(packed), MPI.BYTE])
    found = bytearray(schema["dense"].size_bytes)
    drepl.convert(schema["data"], buffer[:bytes_there], schema["dense"], found)
    assert found == packed
    # And back, where nothing but the elements is written.
    given, wanted = buffer[:bytes_there] ^ 255, buffer ^ 255
    drepl.convert(schema["dense"], found, schema["data"], given)
    move([packed, len(packed), MPI.BYTE], [wanted, 1, datatype])
    assert np.array_equal(given, wanted[:bytes_there]) and (wanted[bytes_there:] == buffer[bytes_there:] ^ 255).all()


def test_a_datatype_that_cannot_be_described_says_what_to_do():
    with pytest.raises(drepl.DreplError, match="Give a subarray by itself"):
        drepl.describe({"data": MPI.DOUBLE.Create_resized(-8, 32)})
    with pytest.raises(drepl.DreplError, match="a view of that"):
        drepl.describe({"data": PARTICLE.Create_subarray([4, 4], [2, 2], [1, 1])})
    assert drepl.type_of(PARTICLE) == "struct { f0 int32; f1 [2]float64 }"
