//! Zarr's metadata of a checkpoint.
