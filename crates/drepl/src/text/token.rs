//! From characters to tokens.
