"""Packs vectors of stems into stems.vec: pack.py FOLDER, with vocabulary.txt, vectors.i8.npy and scales.f16.npy in FOLDER.

stems.vec, numbers in little endian: the number of stems (u32); a scale for each (f32); the rows, DIMENSIONS signed bytes
each; the stems, a line each, in order of their bytes. A vector is its row times its scale.
"""

import pathlib
import struct
import sys

DIMENSIONS = 64


def rows(file, size, width):
    """The items of an array file of NumPy, `width` of `size` bytes a row."""
    data = file.read_bytes()
    assert data[:6] == b"\x93NUMPY" and data[6] == 1, file
    start = 10 + struct.unpack_from("<H", data, 8)[0]
    return [data[at : at + size * width] for at in range(start, len(data), size * width)]


folder = pathlib.Path(sys.argv[1])
stems = (folder / "vocabulary.txt").read_bytes().decode().splitlines()
scales = [struct.unpack("<e", scale)[0] for scale in rows(folder / "scales.f16.npy", 2, 1)]
vectors = rows(folder / "vectors.i8.npy", 1, 128)
assert len(stems) == len(scales) == len(vectors) == len(set(stems))
order = sorted(range(len(stems)), key=lambda at: stems[at].encode())
packed = struct.pack("<I", len(stems)) + b"".join(struct.pack("<f", scales[at]) for at in order)
# The first dimensions are those with the largest variance.
packed += b"".join(vectors[at][:DIMENSIONS] for at in order)
packed += "\n".join(stems[at] for at in order).encode()
(pathlib.Path(__file__).parent / "stems.vec").write_bytes(packed)
print(f"{len(stems)} stems, {len(packed)} bytes")
