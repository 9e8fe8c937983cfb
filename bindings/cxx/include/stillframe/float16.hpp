/// Real numbers of 16 bits, as versions may show them. Programs that compute with a type of their own describe it by
/// specialising `element`: its dtype is "float16" or "bfloat16".
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "element.hpp"

namespace stillframe {
inline namespace STILLFRAME_NAMESPACE {
namespace detail {

inline float float_of_bits(std::uint32_t bits) noexcept {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

}  // namespace detail

/// A number of IEEE 754's binary16: 11 bits of precision, up to 65504.
struct float16 {
    std::uint16_t bits;

    /// The same number as a `float`, which has them all.
    explicit operator float() const noexcept {
        const std::uint32_t sign = std::uint32_t(bits & 0x8000u) << 16, exponent = (bits >> 10) & 31u, digits = bits & 1023u;
        if (exponent == 31) return detail::float_of_bits(sign | 0x7f800000u | digits << 13);
        if (exponent != 0) return detail::float_of_bits(sign | (exponent + 112) << 23 | digits << 13);
        const float small = static_cast<float>(digits) * 0x1p-24f;
        return sign ? -small : small;
    }
};

/// The upper half of a `float`: 8 bits of precision, as large as that.
struct bfloat16 {
    std::uint16_t bits;

    /// The same number as a `float`.
    explicit operator float() const noexcept { return detail::float_of_bits(std::uint32_t(bits) << 16); }
};

template <>
struct element<float16> {
    static std::string dtype() { return "float16"; }
};

template <>
struct element<bfloat16> {
    static std::string dtype() { return "bfloat16"; }
};

}  // namespace STILLFRAME_NAMESPACE
}  // namespace stillframe
