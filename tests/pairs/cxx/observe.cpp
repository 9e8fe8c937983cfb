// The observer in C++: observe DIR REGION VERSION. See ../run.py for what it has to print.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>

#include <stillframe.hpp>

#include "elements.hpp"

namespace {

std::string hex(std::uint64_t number, int digits) {
    std::ostringstream text;
    text << std::hex << std::setfill('0') << std::setw(digits) << number;
    return text.str();
}

template <class Bytes>
std::uint32_t crc_of(const Bytes& bytes) {
    std::uint32_t crc = UINT32_MAX;
    for (const std::byte byte : bytes) {
        crc ^= static_cast<std::uint32_t>(byte);
        for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0xedb88320) : 0);
    }
    return ~crc;
}

void print(const stillframe::attributes& attributes) {
    for (const auto& [name, value] : attributes) {
        std::cout << "attribute " << name << ' ';
        if (const auto* truth = std::get_if<bool>(&value)) std::cout << "bool " << int(*truth) << '\n';
        if (const auto* integer = std::get_if<std::int64_t>(&value)) std::cout << "int " << *integer << '\n';
        if (const auto* text = std::get_if<std::string>(&value)) std::cout << "text " << *text << '\n';
        if (const auto* real = std::get_if<double>(&value)) {
            std::uint64_t bits;
            std::memcpy(&bits, real, sizeof bits);
            std::cout << "float " << hex(bits, 16) << '\n';
        }
    }
}

}  // namespace

int main(int argc, char** argv) try {
    if (argc != 4) return 2;
    const auto options = stillframe::observer_options().dir(argv[1]).wait(std::chrono::seconds(30));
    const stillframe::observer observer(argv[2], options);
    const auto snapshot = observer.version(std::stoull(argv[3]));
    std::cout << "version " << snapshot.version() << '\n';
    print(snapshot.attributes());
    for (const auto& variable : snapshot.variables()) {
        const auto bytes = snapshot.bytes(variable.name);
        with_element(variable.dtype, [&](auto value) {
            const auto view = snapshot.view<decltype(value)>(variable.name);
            if (view.shape() != variable.shape || view.order() != variable.order || view.bytes() != bytes.size())
                throw std::runtime_error("the view of " + variable.name + " is another array than the variable");
            for (std::size_t axis = 0; axis < view.rank(); ++axis)
                if (static_cast<std::ptrdiff_t>(view.stride(axis) * sizeof value) != variable.strides[axis])
                    throw std::runtime_error("the view of " + variable.name + " has other strides than the variable");
        });
        std::cout << "variable " << variable.name << ' ' << variable.dtype << ' '
                  << (variable.order == stillframe::order::fortran ? 'F' : 'C') << ' ' << variable.units << ' '
                  << variable.bytes << " shape";
        for (const auto extent : variable.shape) std::cout << ' ' << extent;
        std::cout << " strides";
        for (const auto stride : variable.strides) std::cout << ' ' << stride;
        std::cout << " crc " << hex(crc_of(bytes), 8) << '\n';
        print(snapshot.attributes(variable.name));
    }
    return 0;
} catch (const std::exception& error) {
    std::cerr << "observe: " << error.what() << '\n';
    return 1;
}
