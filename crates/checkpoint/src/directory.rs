//! A store's directory: its lock, what is committed in it, and what killed writers left.
