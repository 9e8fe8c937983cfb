//! What a checkpointer says of itself.
