/// What of the language and its library there is: spans, exceptions.
#pragma once

#include <cstddef>
#include <type_traits>

#if defined(__has_include)
#if __has_include(<version>)
#include <version>
#endif
#endif

#if defined(__cpp_exceptions)
#define STILLFRAME_EXCEPTIONS 1
#else
#define STILLFRAME_EXCEPTIONS 0
#endif

// Types whose members differ between language versions are of different namespaces, so that files compiled for different
// ones fail to link rather than misunderstand each other.
#if defined(__cpp_lib_span)
#include <span>
#define STILLFRAME_NAMESPACE cxx20
#else
#define STILLFRAME_NAMESPACE cxx17
#endif

namespace stillframe {
inline namespace STILLFRAME_NAMESPACE {

#if defined(__cpp_lib_span)
template <class T>
using span = std::span<T>;
#else
/// Elements that follow each other in memory, which is somebody else's; `std::span` where C++20 offers it.
template <class T>
class span {
public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;
    using size_type = std::size_t;
    using iterator = T*;

    constexpr span() noexcept = default;
    constexpr span(T* data, std::size_t size) noexcept : data_(data), size_(size) {}
    template <std::size_t N>
    constexpr span(T (&array)[N]) noexcept : data_(array), size_(N) {}
    template <class Container, class = std::enable_if_t<std::is_convertible_v<
                                   std::remove_pointer_t<decltype(std::declval<Container&>().data())> (*)[], T (*)[]>>>
    constexpr span(Container&& container) noexcept : data_(container.data()), size_(container.size()) {}

    constexpr T* data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr std::size_t size_bytes() const noexcept { return size_ * sizeof(T); }
    constexpr bool empty() const noexcept { return size_ == 0; }
    constexpr T* begin() const noexcept { return data_; }
    constexpr T* end() const noexcept { return data_ + size_; }
    constexpr T& front() const { return data_[0]; }
    constexpr T& back() const { return data_[size_ - 1]; }
    constexpr T& operator[](std::size_t index) const { return data_[index]; }
    constexpr span first(std::size_t count) const { return {data_, count}; }
    constexpr span last(std::size_t count) const { return {data_ + (size_ - count), count}; }
    constexpr span subspan(std::size_t offset, std::size_t count) const { return {data_ + offset, count}; }

private:
    T* data_ = nullptr;
    std::size_t size_ = 0;
};
#endif

namespace detail {

template <class T>
using bare = std::remove_cv_t<std::remove_reference_t<T>>;

template <class T>
inline constexpr bool never = false;

}  // namespace detail
}  // namespace STILLFRAME_NAMESPACE
}  // namespace stillframe
