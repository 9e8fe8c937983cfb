//! Parts of global arrays.
