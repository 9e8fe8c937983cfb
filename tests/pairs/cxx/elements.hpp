// The types of elements of the cases, by their dtype. See ../run.py.
#pragma once

#include <array>
#include <complex>
#include <cstdint>
#include <stdexcept>
#include <string>

#include <stillframe.hpp>

struct particle {
    double t;
    std::int32_t id;
};

template <>
struct stillframe::element<particle> {
    static std::string dtype() { return stillframe::record<particle>({{"t", &particle::t}, {"id", &particle::id}}); }
};

// Calls work with a value of the type that is called dtype.
template <class Work>
void with_element(const std::string& dtype, Work work) {
    bool found = false;
    const auto try_type = [&](auto value) {
        if (found || stillframe::element<decltype(value)>::dtype() != dtype) return;
        found = true;
        work(value);
    };
    const auto try_types = [&](auto... values) { (try_type(values), ...); };
    try_types(std::int8_t(), std::int16_t(), std::int32_t(), std::int64_t());
    try_types(std::uint8_t(), std::uint16_t(), std::uint32_t(), std::uint64_t());
    try_types(stillframe::float16(), stillframe::bfloat16());
    try_types(float(), double(), std::complex<float>(), std::complex<double>(), bool());
    try_types(std::array<char, 5>(), particle());
    if (!found) throw std::runtime_error("no C++ type is called " + dtype);
}
