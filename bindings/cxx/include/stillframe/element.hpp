/// Types of elements: which C++ type is which dtype.
#pragma once

#include <array>
#include <complex>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <type_traits>

#include "language.hpp"

namespace stillframe {
inline namespace STILLFRAME_NAMESPACE {

/// The dtype of `T`, as the C interface writes it: `element<double>::dtype()` is "float64".
///
/// There are integers and enumerations of up to 8 bytes, `float`, `double`, `std::complex` of them, `bool`, `std::byte`
/// (uint8), and text: `char`, `char[N]` and `std::array<char, N>` are "bytesN". Records of your own are described once:
///
///     struct cell { double rho; std::int32_t id; };
///     template <>
///     struct stillframe::element<cell> {
///         static std::string dtype() { return stillframe::record<cell>({{"rho", &cell::rho}, {"id", &cell::id}}); }
///     };
///
/// `long double` has no dtype. Elements may be arrays, as in `std::vector<std::array<double, 3>>`: these become the last
/// dimensions.
template <class T, class = void>
struct element {};

namespace detail {

template <class T, class = void>
inline constexpr bool is_element = false;
template <class T>
inline constexpr bool is_element<T, std::void_t<decltype(element<T>::dtype())>> = true;

template <class T>
inline constexpr bool is_number =
    std::is_integral_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char> && sizeof(T) <= 8;

}  // namespace detail

template <class T>
struct element<T, std::enable_if_t<detail::is_number<T>>> {
    static std::string dtype() { return (std::is_signed_v<T> ? "int" : "uint") + std::to_string(sizeof(T) * 8); }
};

template <class T>
struct element<T, std::enable_if_t<std::is_enum_v<T>>> : element<std::underlying_type_t<T>> {};

template <>
struct element<float> {
    static std::string dtype() { return "float32"; }
};

template <>
struct element<double> {
    static std::string dtype() { return "float64"; }
};

template <>
struct element<std::complex<float>> {
    static std::string dtype() { return "complex64"; }
};

template <>
struct element<std::complex<double>> {
    static std::string dtype() { return "complex128"; }
};

template <>
struct element<bool> {
    static_assert(sizeof(bool) == 1, "Stillframe's bool has one byte");
    static std::string dtype() { return "bool"; }
};

template <>
struct element<char> {
    static std::string dtype() { return "bytes1"; }
};

template <std::size_t N>
struct element<char[N]> {
    static std::string dtype() { return "bytes" + std::to_string(N); }
};

template <std::size_t N>
struct element<std::array<char, N>> {
    static_assert(N > 0, "an element has at least one byte");
    static std::string dtype() { return "bytes" + std::to_string(N); }
};

/// A field of a record: its name and the member that holds it. A member that is an array of one dimension becomes fields
/// with its indices behind the name: `double x[3]` is "x0", "x1" and "x2".
template <class T>
class field {
public:
    template <class Member>
    field(const char* name, Member T::* member) {
        // The object need not exist for its layout to be known.
        union probe {
            char none;
            T object;
            probe() : none() {}
            ~probe() {}
        } const probe;
        const auto* begin = reinterpret_cast<const unsigned char*>(&probe);
        const auto* at = reinterpret_cast<const unsigned char*>(&(probe.object.*member));
        add<Member>(name, static_cast<std::size_t>(at - begin));
    }

    /// The field, or fields, in JSON.
    const std::string& json() const noexcept { return json_; }

private:
    template <class Member>
    void add(const std::string& name, std::size_t offset) {
        if constexpr (detail::is_element<Member>) {
            const std::string dtype = element<Member>::dtype();
            const bool is_record = dtype.front() == '{';
            if (!json_.empty()) json_ += ',';
            json_ += "{\"name\":\"" + name + "\",\"dtype\":" + (is_record ? dtype : '"' + dtype + '"') +
                     ",\"offset\":" + std::to_string(offset) + '}';
        } else if constexpr (std::is_array_v<Member>) {
            using item = std::remove_extent_t<Member>;
            for (std::size_t index = 0; index < std::extent_v<Member>; ++index)
                add<item>(name + std::to_string(index), offset + index * sizeof(item));
        } else {
            static_assert(detail::never<Member>, "a field's type has to be an element: describe it with stillframe::element");
        }
    }

    std::string json_;
};

/// The dtype of a record: its fields, in the order in which observers shall see them, and `sizeof(T)`.
template <class T>
std::string record(std::initializer_list<field<T>> fields) {
    static_assert(std::is_trivially_copyable_v<T>, "a record is published as its bytes, so it has to be trivially copyable");
    std::string json = "{\"fields\":[";
    const char* comma = "";
    for (const field<T>& field : fields) {
        json += comma + field.json();
        comma = ",";
    }
    return json + "],\"bytes\":" + std::to_string(sizeof(T)) + '}';
}

namespace detail {

/// What an item of a container is made of: scalars, which have a dtype, in arrays, which are dimensions.
template <class T, class = void>
struct item {
    static_assert(is_element<T>,
                  "this type has no dtype: use a number, std::complex, bool, char[N], an array of those, or describe a record "
                  "by specialising stillframe::element; nested containers are not contiguous");
    static_assert(std::is_trivially_copyable_v<T>, "elements are published as their bytes, so they have to be trivially copyable");
    using scalar = T;
    static constexpr std::array<std::size_t, 0> extents() { return {}; }
};

template <class Inner, std::size_t N>
struct item_array {
    using scalar = typename item<Inner>::scalar;
    static constexpr auto extents() {
        constexpr auto inner = item<Inner>::extents();
        std::array<std::size_t, inner.size() + 1> all{};
        all[0] = N;
        for (std::size_t index = 0; index < inner.size(); ++index) all[index + 1] = inner[index];
        return all;
    }
};

template <class Inner, std::size_t N>
struct item<Inner[N], std::enable_if_t<!is_element<Inner[N]>>> : item_array<Inner, N> {};

template <class Inner, std::size_t N>
struct item<std::array<Inner, N>, std::enable_if_t<!is_element<std::array<Inner, N>>>> : item_array<Inner, N> {
    static_assert(sizeof(std::array<Inner, N>) == N * sizeof(Inner), "arrays have to lie closely");
};

template <class T>
std::string dtype_of() {
    return element<typename item<T>::scalar>::dtype();
}

}  // namespace detail
}  // namespace STILLFRAME_NAMESPACE
}  // namespace stillframe
