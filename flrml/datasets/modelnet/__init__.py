"""Voxel grids of ModelNet and of procedural shapes: meshes, poses, and the voxeliser that both go through."""
