/// Shapes, and views of arrays that lie in a region or a snapshot.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include <stillframe.h>

#include "element.hpp"
#include "error.hpp"

namespace stillframe {
inline namespace STILLFRAME_NAMESPACE {

/// In which order the elements of an array follow each other in memory.
enum class order : std::uint32_t {
    /// Row-major, the last index runs fastest.
    c = STILLFRAME_C,
    /// Column-major, the first index runs fastest.
    fortran = STILLFRAME_FORTRAN,
};

/// Up to 8 extents, written as `{ny, nx}` with integers of any type. A scalar has none.
class shape {
public:
    shape() noexcept = default;

    template <class... Extents,
              class = std::enable_if_t<(sizeof...(Extents) > 0) && (... && std::is_integral_v<Extents>)>>
    shape(Extents... extents) noexcept {
        static_assert(sizeof...(Extents) <= STILLFRAME_RANK_MAX, "arrays have at most 8 dimensions");
        (append(extents), ...);
    }

    /// Another dimension behind those there are.
    template <class Extent>
    void append(Extent extent) noexcept {
        static_assert(std::is_integral_v<Extent>, "extents are integers");
        // An extent that cannot be stays one, so that whoever gets the shape can refuse it.
        const bool is_negative = std::is_signed_v<Extent> && static_cast<std::intmax_t>(extent) < 0;
        if (rank_ == extents_.size()) extents_.back() = impossible;
        else extents_[rank_++] = is_negative ? impossible : static_cast<std::size_t>(extent);
    }

    /// Number of dimensions.
    std::size_t rank() const noexcept { return rank_; }
    std::size_t size() const noexcept { return rank_; }
    std::size_t operator[](std::size_t dimension) const noexcept { return extents_[dimension]; }
    const std::size_t* data() const noexcept { return extents_.data(); }
    const std::size_t* begin() const noexcept { return extents_.data(); }
    const std::size_t* end() const noexcept { return extents_.data() + rank_; }

    /// Number of elements; the largest number there is if there cannot be so many.
    std::size_t elements() const noexcept {
        std::size_t product = 1;
        for (const std::size_t extent : *this)
            if (extent == 0) return 0;
        for (const std::size_t extent : *this) {
            if (extent > impossible / product) return impossible;
            product *= extent;
        }
        return product;
    }

    /// Whether no extent was negative, and there were no more than 8.
    bool is_possible() const noexcept {
        for (const std::size_t extent : *this)
            if (extent == impossible) return false;
        return true;
    }

    /// As in "[3, 4]".
    std::string text() const {
        std::string text = "[";
        const char* comma = "";
        for (const std::size_t extent : *this) {
            text += comma + (extent == impossible ? std::string("?") : std::to_string(extent));
            comma = ", ";
        }
        return text + ']';
    }

    friend bool operator==(const shape& left, const shape& right) noexcept {
        if (left.rank_ != right.rank_) return false;
        for (std::size_t dimension = 0; dimension < left.rank_; ++dimension)
            if (left[dimension] != right[dimension]) return false;
        return true;
    }
    friend bool operator!=(const shape& left, const shape& right) noexcept { return !(left == right); }

private:
    static constexpr std::size_t impossible = std::numeric_limits<std::size_t>::max();

    std::array<std::size_t, STILLFRAME_RANK_MAX> extents_{};
    std::size_t rank_ = 0;
};

/// A contiguous array of up to 8 dimensions in memory of a region (`T` can be written) or a snapshot (`T` is const). It is
/// light, and copied freely; the memory is valid for as long as what it was taken from says.
template <class T>
class array_view {
public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;

    array_view() noexcept = default;
    array_view(T* data, const stillframe::shape& shape, stillframe::order order = stillframe::order::c) noexcept
        : data_(data), shape_(shape), order_(order) {
        std::size_t stride = 1;
        const std::size_t rank = shape.rank();
        for (std::size_t step = 0; step < rank; ++step) {
            const std::size_t dimension = order == stillframe::order::c ? rank - 1 - step : step;
            strides_[dimension] = stride;
            stride *= shape[dimension];
        }
    }
    /// A view that can be written is one that can be read.
    template <class U, class = std::enable_if_t<std::is_same_v<const U, T>>>
    array_view(const array_view<U>& other) noexcept : array_view(other.data(), other.shape(), other.order()) {}

    T* data() const noexcept { return data_; }
    /// Number of elements.
    std::size_t size() const noexcept { return data_ ? shape_.elements() : 0; }
    std::size_t bytes() const noexcept { return size() * sizeof(T); }
    bool empty() const noexcept { return size() == 0; }

    std::size_t rank() const noexcept { return shape_.rank(); }
    const stillframe::shape& shape() const noexcept { return shape_; }
    std::size_t extent(std::size_t dimension) const noexcept { return shape_[dimension]; }
    /// Distance in elements between neighbours along a dimension.
    std::size_t stride(std::size_t dimension) const noexcept { return strides_[dimension]; }
    stillframe::order order() const noexcept { return order_; }

    /// The elements, in their order in memory.
    T* begin() const noexcept { return data_; }
    T* end() const noexcept { return data_ + size(); }
    T& operator[](std::size_t index) const noexcept { return data_[index]; }
    stillframe::span<T> elements() const noexcept { return {data_, size()}; }

    /// One element by as many indices as there are dimensions; not checked.
    template <class... Indices>
    T& operator()(Indices... indices) const noexcept {
        return data_[offset(static_cast<std::size_t>(indices)...)];
    }

#if STILLFRAME_EXCEPTIONS
    /// As `operator()`, checked.
    ///
    /// Throws `error` with `status::out_of_range`.
    template <class... Indices>
    T& at(Indices... indices) const {
        const std::array<std::size_t, sizeof...(Indices)> all{static_cast<std::size_t>(indices)...};
        bool inside = all.size() == rank() && data_;
        for (std::size_t dimension = 0; inside && dimension < all.size(); ++dimension)
            inside = all[dimension] < shape_[dimension];
        if (!inside) {
            stillframe::shape asked;
            (asked.append(indices), ...);
            throw error(status::out_of_range, "element " + asked.text() + " is outside an array of shape " + shape_.text());
        }
        return (*this)(indices...);
    }
#endif

private:
    template <class... Indices>
    std::size_t offset(Indices... indices) const noexcept {
        static_assert(sizeof...(Indices) <= STILLFRAME_RANK_MAX, "arrays have at most 8 dimensions");
        std::size_t dimension = 0, offset = 0;
        ((offset += indices * strides_[dimension++]), ...);
        return offset;
    }

    T* data_ = nullptr;
    stillframe::shape shape_;
    std::array<std::size_t, STILLFRAME_RANK_MAX> strides_{};
    stillframe::order order_ = stillframe::order::c;
};

namespace detail {

/// The shape in scalars of an array whose shape in items is given.
template <class Item>
shape with_items(shape shape) {
    for (const std::size_t extent : item<Item>::extents()) shape.append(extent);
    return shape;
}

}  // namespace detail
}  // namespace STILLFRAME_NAMESPACE
}  // namespace stillframe
