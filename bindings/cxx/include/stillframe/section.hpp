/// Sections: which elements of an array a variable shows, and with how many bits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>

#include "array_view.hpp"
#include "element.hpp"
#include "error.hpp"

namespace stillframe {
inline namespace STILLFRAME_NAMESPACE {
namespace detail {

inline constexpr std::ptrdiff_t farthest = std::numeric_limits<std::ptrdiff_t>::max();

/// What would be too large is as large as can be, so that whoever gets it can refuse it.
inline std::ptrdiff_t product(std::ptrdiff_t left, std::size_t right) noexcept {
    const auto limit = static_cast<std::size_t>(farthest);
    const std::size_t size = left < 0 ? std::size_t(0) - static_cast<std::size_t>(left) : static_cast<std::size_t>(left);
    const bool fits = size == 0 || right <= limit / size;
    const std::ptrdiff_t value = fits ? static_cast<std::ptrdiff_t>(size * right) : farthest;
    return left < 0 ? -value : value;
}
inline std::ptrdiff_t sum(std::ptrdiff_t left, std::ptrdiff_t right) noexcept {
    // It stays so, whatever is added.
    if (left == farthest || left == -farthest) return left;
    if (right == farthest || right == -farthest) return right;
    if (left > 0 && right > farthest - left) return farthest;
    if (left < 0 && right < -farthest - left) return -farthest;
    return left + right;
}

/// Where the elements of a section are. All numbers count items of the array.
struct spread {
    stillframe::shape extents;
    /// Distances, which may be negative, and of the first element from the array's.
    std::array<std::ptrdiff_t, STILLFRAME_RANK_MAX> strides{};
    std::ptrdiff_t first = 0;
    /// The lowest and the highest item that it has; the latter is below the former if it has none.
    std::ptrdiff_t lowest = 0, highest = -1;

    void bound() noexcept {
        if (extents.elements() == 0) {
            first = 0;
            return;
        }
        lowest = highest = first;
        for (std::size_t dimension = 0; dimension < extents.rank(); ++dimension) {
            const std::ptrdiff_t reach = product(strides[dimension], extents[dimension] - 1);
            std::ptrdiff_t& end = reach < 0 ? lowest : highest;
            end = sum(end, reach);
        }
    }
};

}  // namespace detail

/// Which elements of an array versions show: a box of it, every n-th of them, numbers rounded to fewer bits. They are gathered
/// when a version is published; what lies between them is not copied.
///
///     heat.track("inner", u, stillframe::section::of({ny, nx}).inside({1, 1}, {ny - 1, nx - 1}));
///     heat.track("coarse", u, stillframe::section::of({ny, nx}).every({4, 4}).as<float>());
///
/// All numbers count the container's elements. Elements that are arrays add their dimensions, and are shown whole.
class section {
public:
    /// Of an array of this shape, in the order of the declaration that comes with it.
    static section of(const stillframe::shape& shape) { return section(made(), shape); }

    /// Of an array in the shape that it has by itself.
    static section whole() { return section(made(), std::nullopt); }

    /// Takes the box from the indices `first` to those before `end`.
    section& inside(const stillframe::shape& first, const stillframe::shape& end) {
        first_ = first;
        end_ = end;
        return *this;
    }

    /// Takes every n-th element along each dimension, beginning with the first of the box.
    section& every(const stillframe::shape& steps) {
        steps_ = steps;
        return *this;
    }

    /// Says how far neighbours along each dimension are from each other in memory, where the elements of the array do not lie one
    /// behind the other: `section::of({rows, columns}).strides(leading, 1)`. They may be negative; the array then begins with the
    /// element of which all indices are 0.
    template <class... Strides>
    section& strides(Strides... strides) {
        static_assert((... && std::is_integral_v<Strides>), "strides are integers, and count elements");
        static_assert(sizeof...(Strides) <= STILLFRAME_RANK_MAX, "arrays have at most 8 dimensions");
        strides_ = {static_cast<std::ptrdiff_t>(strides)...};
        stride_count_ = sizeof...(Strides);
        return *this;
    }

    /// Shows numbers as `T`: `double` as `float`, `float16` or `bfloat16`, `float` as the last two, `std::complex<double>` as
    /// `std::complex<float>`. They are rounded to the nearest, and to the even one of two that are as near.
    template <class T>
    section& as() {
        dtype_ = detail::dtype_of<T>();
        return *this;
    }

    /// The array's shape, if it was said.
    const std::optional<stillframe::shape>& array() const noexcept { return array_; }
    /// The dtype that versions show; empty if it is that of the memory.
    const std::string& dtype() const noexcept { return dtype_; }
    /// Whether the elements of the array lie elsewhere than one behind the other.
    bool has_strides() const noexcept { return stride_count_.has_value(); }

    /// Where its elements are in an array of this shape.
    ///
    /// Errors: `wrong_shape`, which says what does not fit.
    result<detail::spread> places(const stillframe::shape& array, stillframe::order order) const {
        if (auto fits = check(array); !fits) return fits.error();
        const auto distances = stride_count_ ? strides_ : closely(array, order);
        detail::spread found;
        for (std::size_t dimension = 0; dimension < array.rank(); ++dimension) {
            const std::size_t first = first_ ? (*first_)[dimension] : 0;
            const std::size_t end = end_ ? (*end_)[dimension] : array[dimension];
            const std::size_t step = steps_ ? (*steps_)[dimension] : 1;
            const std::size_t extent = (end - first) / step + ((end - first) % step != 0);
            found.extents.append(extent);
            found.strides[dimension] = detail::product(distances[dimension], step);
            found.first = detail::sum(found.first, detail::product(distances[dimension], first));
        }
        found.bound();
        return found;
    }

private:
    /// So that no list in braces is taken for a section.
    struct made {
        explicit made() = default;
    };
    section(made, const std::optional<stillframe::shape>& array) : array_(array) {}

    /// Whether what was said suits an array of this shape.
    result<void> check(const stillframe::shape& array) const {
        if (!array.is_possible()) return wrong("shape " + array.text() + " has a negative extent or more than 8 dimensions");
        for (const auto* given : {&first_, &end_, &steps_})
            if (*given && (*given)->rank() != array.rank())
                return wrong("a section with " + (*given)->text() + " does not have the dimensions of shape " + array.text());
        if (stride_count_ && *stride_count_ != array.rank())
            return wrong(std::to_string(*stride_count_) + " strides are not one for each dimension of shape " + array.text());
        for (std::size_t dimension = 0; dimension < array.rank(); ++dimension) {
            if (first_ && ((*first_)[dimension] > (*end_)[dimension] || (*end_)[dimension] > array[dimension]))
                return wrong("the box from " + first_->text() + " to " + end_->text() + " is not inside shape " + array.text());
            if (steps_ && ((*steps_)[dimension] == 0 || !steps_->is_possible()))
                return wrong("steps " + steps_->text() + " are not all 1 or more");
        }
        return {};
    }

    /// The distances in an array whose elements lie one behind the other.
    static std::array<std::ptrdiff_t, STILLFRAME_RANK_MAX> closely(const stillframe::shape& array, stillframe::order order) {
        std::array<std::ptrdiff_t, STILLFRAME_RANK_MAX> distances{};
        std::ptrdiff_t distance = 1;
        for (std::size_t at = 0; at < array.rank(); ++at) {
            const std::size_t dimension = order == order::c ? array.rank() - 1 - at : at;
            distances[dimension] = distance;
            distance = detail::product(distance, array[dimension]);
        }
        return distances;
    }

    static error wrong(const std::string& why) { return error(status::wrong_shape, why); }

    std::optional<stillframe::shape> array_, first_, end_, steps_;
    std::array<std::ptrdiff_t, STILLFRAME_RANK_MAX> strides_{};
    std::optional<std::size_t> stride_count_;
    std::string dtype_;
};

}  // namespace STILLFRAME_NAMESPACE
}  // namespace stillframe
