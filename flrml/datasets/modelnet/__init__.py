"""Voxel grids of ModelNet and of procedural shapes: meshes, poses, and the voxeliser that both go through."""

from flrml.datasets.modelnet.shapes import load_shapes
from flrml.datasets.modelnet.source import load_modelnet

__all__ = ["load_modelnet", "load_shapes"]
