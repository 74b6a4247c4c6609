"""Parse meshes in Object File Format (OFF).

trimesh reads them too, but would be one more dependency, and accepts files that lack faces.
"""

import re

import numpy as np

from flrml.exceptions import DatasetError


def parse_off(content: bytes, origin: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the vertices and triangles of an OFF file; larger faces are split into fans.

    Also reads files whose header runs into the counts (``OFF490 518 0``).
    """
    try:
        return _parse(content)
    except (ValueError, OverflowError) as error:
        raise DatasetError(f"{origin}: not a usable OFF file ({error}); fetch or export it again") from error


def check_off(content: bytes, origin: str) -> None:
    """Refuse what `parse_off` refuses, but parse only files that have fewer lines than vertices and faces."""
    counts = re.match(rb"OFF\s*(\d+)\s+(\d+)\s", content)
    if counts is None or content.count(b"\n") < int(counts[1]) + int(counts[2]) + 2:
        parse_off(content, origin)


def _parse(content: bytes) -> tuple[np.ndarray, np.ndarray]:
    if b"#" in content:
        content = b"\n".join(line.partition(b"#")[0] for line in content.split(b"\n"))
    tokens = content.split()
    if tokens[:1] == [b"ply"]:
        raise ValueError("it is a PLY file; convert it to OFF")
    if not tokens or not tokens[0].startswith(b"OFF"):
        raise ValueError("it does not start with OFF")
    tokens[:1] = [tokens[0][3:]] if len(tokens[0]) > 3 else []
    n_vertices, n_faces = (int(token) for token in tokens[:2]) if len(tokens) >= 3 else (0, 0)
    if n_vertices < 1 or n_faces < 1:
        raise ValueError(f"{n_vertices} vertices and {n_faces} faces announced")
    numbers = tokens[3 : 3 + 3 * n_vertices]
    if len(numbers) < 3 * n_vertices:
        raise ValueError(f"{n_vertices} vertices announced, but only {len(numbers) // 3} present")
    vertices = np.array(numbers, dtype=np.float64).reshape(-1, 3)
    if not np.isfinite(vertices).all():
        raise ValueError(f"vertex {int(np.argmin(np.isfinite(vertices).all(axis=1)))} is not finite")
    if np.abs(vertices).max() > 1e100:
        raise ValueError("a coordinate exceeds 1e100")
    faces = _triangles(tokens[3 + 3 * n_vertices :], n_faces, content, n_vertices)
    out_of_range = ((faces < 0) | (faces >= n_vertices)).any(axis=1)
    if out_of_range.any():
        raise ValueError(f"a face refers to vertices {faces[np.argmax(out_of_range)].tolist()} of {n_vertices}")
    return vertices, faces


def _triangles(tokens: list[bytes], n_faces: int, content: bytes, n_vertices: int) -> np.ndarray:
    """Return the triangles of the faces; the rest of a line, such as a colour, is ignored."""
    if len(tokens) == 4 * n_faces:
        table = np.array(tokens, dtype=np.int64).reshape(-1, 4)
        if (table[:, 0] == 3).all():
            return table[:, 1:]
    lines = [line for line in content.split(b"\n") if line.strip()]
    n_header = 2 if lines[0].strip() == b"OFF" else 1
    lines = lines[n_header + n_vertices :][:n_faces]
    if len(lines) < n_faces:
        raise ValueError(f"{n_faces} faces announced, but only {len(lines)} lines present")
    triangles = []
    for number, line in enumerate(lines):
        fields = line.split()
        corners = [int(field) for field in fields[1 : 1 + int(fields[0])]]
        if len(corners) != int(fields[0]) or len(corners) < 3:
            raise ValueError(
                f"face {number} has {len(corners)} corners, {fields[0].decode(errors='replace')} announced"
            )
        triangles += [(corners[0], corners[i], corners[i + 1]) for i in range(1, len(corners) - 1)]
    return np.array(triangles, dtype=np.int64)
