/// Where a tracked array is: what a program may hand over, and how it is asked at each publish.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "declaration.hpp"
#include "section.hpp"

namespace stillframe {
inline namespace STILLFRAME_NAMESPACE {
namespace detail {

template <class T, class = void>
inline constexpr bool is_container = false;
template <class T>
inline constexpr bool
    is_container<T, std::void_t<decltype(std::declval<const T&>().data()), decltype(std::declval<const T&>().size())>> =
        std::is_pointer_v<decltype(std::declval<const T&>().data())>;

template <class T>
inline constexpr bool is_span = false;
#if defined(__cpp_lib_span)
template <class T, std::size_t N>
inline constexpr bool is_span<std::span<T, N>> = true;
#else
template <class T>
inline constexpr bool is_span<span<T>> = true;
#endif
template <class T>
inline constexpr bool is_span<array_view<T>> = true;
template <class Char, class Traits>
inline constexpr bool is_span<std::basic_string_view<Char, Traits>> = true;

template <class T>
inline constexpr bool is_std_array = false;
template <class T, std::size_t N>
inline constexpr bool is_std_array<std::array<T, N>> = true;

template <class T, class = void>
inline constexpr bool has_managed_allocator = false;
template <class T>
inline constexpr bool has_managed_allocator<T, std::void_t<decltype(std::declval<const T&>().get_allocator().is_managed())>> =
    true;

/// Memory as an array's owner tells it.
struct memory {
    const void* data;
    /// Items there are; none told of a pointer.
    std::optional<std::size_t> items;
};

/// Where an array, or a section of one, is.
struct place {
    const void* data = nullptr;
    /// In scalars.
    stillframe::shape shape;
    /// Of a section, distances in bytes, and the dtype that its elements have in memory.
    bool is_section = false;
    std::array<std::ptrdiff_t, STILLFRAME_RANK_MAX> strides{};
    const char* dtype = nullptr;
};

/// What has been handed over as an array: an object that is asked anew each time, or memory that is as it is.
class source {
public:
    /// By reference where that makes sense: containers and arrays; by value otherwise: spans and pointers.
    template <class Array>
    static source of(std::string name, const Array& array, std::optional<shape> shape, declaration about) {
        source source(std::move(name), std::move(about));
        source.given_ = shape;
        if constexpr (std::is_array_v<Array> && !is_element<Array>) {
            source.holds<std::remove_extent_t<Array>>();
            source.fixed_ = {static_cast<const void*>(array), std::extent_v<Array>};
        } else if constexpr (std::is_pointer_v<Array>) {
            source.holds<std::remove_cv_t<std::remove_pointer_t<Array>>>();
            source.fixed_ = {static_cast<const void*>(array), std::nullopt};
        } else if constexpr (is_container<Array> && (is_std_array<Array> || !is_element<Array>)) {
            source.holds<std::remove_cv_t<std::remove_pointer_t<decltype(array.data())>>>();
            if constexpr (is_span<Array> || is_std_array<Array>) source.fixed_ = ask<Array>(&array);
            else source.follow<Array>(array);
            if constexpr (has_managed_allocator<Array>) source.is_managed_ = array.get_allocator().is_managed();
        } else {
            static_assert(!std::is_same_v<Array, std::nullptr_t>, "a pointer's type says what it points to");
            source.holds<Array>();
            source.fixed_ = {static_cast<const void*>(&array), std::nullopt};
            if (!source.given_) source.given_ = stillframe::shape();
        }
        return source;
    }

    /// The same with what is shown of it.
    source with(const section& section) && {
        given_ = section.array();
        section_ = section;
        return std::move(*this);
    }

    const std::string& name() const noexcept { return name_; }
    /// That of the variable: of the elements, unless they are rounded.
    const std::string& dtype() const noexcept {
        return section_ && !section_->dtype().empty() ? section_->dtype() : dtype_;
    }
    const declaration& about() const noexcept { return about_; }

    /// Extents of an item that is an array itself.
    const shape& inner() const noexcept { return inner_; }

    /// Whether versions show a section of it.
    bool is_section() const noexcept { return section_.has_value(); }

    /// Whether it is a container whose allocator makes it a variable.
    bool is_managed() const noexcept { return is_managed_; }

    /// Where the array is now.
    detail::memory memory() const { return look_ ? look_(object_) : fixed_; }

    /// The shape in scalars of what is there now.
    result<shape> shape_of(const detail::memory& memory) const {
        if (!given_ && !memory.items)
            return wrong_shape("a pointer does not say how many elements there are: give a shape");
        shape shape = given_ ? *given_ : stillframe::shape(*memory.items);
        if (memory.items && shape.elements() != *memory.items)
            return wrong_shape("shape " + shape.text() + " does not fit the " + std::to_string(*memory.items) +
                               " elements there are");
        for (std::size_t index = 0; index < inner_.rank(); ++index) shape.append(inner_[index]);
        if (!shape.is_possible())
            return wrong_shape("shape " + shape.text() + " has a negative extent or more than 8 dimensions");
        return shape;
    }

    /// Where what is shown of it is now. What it returns lives no longer than the source.
    result<detail::place> place() const {
        // An empty array has a shape too, and NULL would say that there is no array.
        static const std::max_align_t nowhere{};
        const detail::memory memory = this->memory();
        detail::place place;
        if (section_) {
            auto found = spread_of(memory);
            if (!found) return found.error();
            place = spread_out(*found, memory);
        } else {
            auto shape = shape_of(memory);
            if (!shape) return shape.error();
            place.shape = *shape;
            place.data = memory.data;
        }
        if (!memory.data && place.shape.elements() != 0)
            return error(status::bad_argument, "variable '" + name_ + "': the address of its array is NULL");
        if (!memory.data) place.data = &nowhere;
        return place;
    }

    /// Whether a section of it fits what is there now.
    result<void> check() const {
        if (!section_) return {};
        auto found = spread_of(memory());
        if (!found) return found.error();
        return {};
    }

    /// The same array, without asking its owner again.
    source once() && {
        fixed_ = memory();
        look_ = nullptr;
        return std::move(*this);
    }

private:
    source(std::string name, declaration about) : name_(std::move(name)), about_(std::move(about)) {}

    template <class Item>
    void holds() {
        dtype_ = dtype_of<Item>();
        inner_ = with_items<Item>(shape());
        item_bytes_ = sizeof(Item);
    }

    template <class Container>
    static detail::memory ask(const void* container) {
        const auto& asked = *static_cast<const Container*>(container);
        return {asked.data(), static_cast<std::size_t>(asked.size())};
    }

    template <class Container>
    void follow(const Container& container) {
        object_ = &container;
        look_ = &ask<Container>;
    }

    /// Where the items of the section are.
    result<spread> spread_of(const detail::memory& memory) const {
        if (!given_ && !memory.items)
            return wrong_shape("a pointer does not say how many elements there are: give a section of a shape");
        const shape array = given_ ? *given_ : shape(*memory.items);
        auto found = section_->places(array, about_.order());
        if (!found) return wrong_shape(found.error().what());
        const auto last = memory.items ? product(1, *memory.items) - 1 : farthest / static_cast<std::ptrdiff_t>(item_bytes_);
        const bool is_whole = section_->has_strides() || !memory.items || array.elements() == *memory.items;
        if (!is_whole)
            return wrong_shape("a section of shape " + array.text() + " does not fit the " + std::to_string(*memory.items) +
                               " elements there are");
        if (found->highest > last || (found->lowest < 0 && (memory.items || found->lowest < -last)))
            return wrong_shape("the section has elements that are not in the array");
        for (std::size_t index = 0; index < inner_.rank(); ++index) found->extents.append(inner_[index]);
        if (!found->extents.is_possible()) return wrong_shape("shape " + found->extents.text() + " has more than 8 dimensions");
        return found;
    }

    /// The same in scalars and bytes.
    detail::place spread_out(const spread& found, const detail::memory& memory) const {
        detail::place place;
        place.shape = found.extents;
        place.is_section = true;
        place.dtype = dtype_.c_str();
        if (memory.data)
            place.data = static_cast<const char*>(memory.data) + found.first * static_cast<std::ptrdiff_t>(item_bytes_);
        const std::size_t outer = found.extents.rank() - inner_.rank();
        std::ptrdiff_t bytes = static_cast<std::ptrdiff_t>(item_bytes_);
        for (std::size_t dimension = 0; dimension < outer; ++dimension)
            place.strides[dimension] = product(found.strides[dimension], item_bytes_);
        for (std::size_t index = 0; index < inner_.rank(); ++index) {
            // Of items without elements no distance is of any matter.
            if (inner_[index]) bytes /= static_cast<std::ptrdiff_t>(inner_[index]);
            place.strides[outer + index] = bytes;
        }
        return place;
    }

    error wrong_shape(const std::string& why) const {
        return error(status::wrong_shape, "variable '" + name_ + "': " + why);
    }

    std::string name_;
    std::string dtype_;
    shape inner_;
    declaration about_;
    std::optional<shape> given_;
    std::optional<section> section_;
    std::size_t item_bytes_ = 1;
    bool is_managed_ = false;
    const void* object_ = nullptr;
    detail::memory (*look_)(const void*) = nullptr;
    detail::memory fixed_{nullptr, std::nullopt};
};

/// What may be tracked for longer than a call: nothing that ends with it.
template <class Array>
inline constexpr bool lasts =
    std::is_lvalue_reference_v<Array> || is_span<bare<Array>> || std::is_pointer_v<std::remove_reference_t<Array>>;

template <class Array, bool Container>
struct element_of {
    using type = std::remove_all_extents_t<std::remove_pointer_t<std::remove_reference_t<Array>>>;
};
template <class Array>
struct element_of<Array, true> {
    using type = std::remove_pointer_t<decltype(std::declval<std::remove_reference_t<Array>&>().data())>;
};

/// What may be read into.
template <class Array>
inline constexpr bool can_be_written = !std::is_const_v<typename element_of<Array, is_container<bare<Array>>>::type>;

}  // namespace detail

/// An array for one publish: `heat.publish(step, stillframe::array("u", u, {ny, nx}))`. It is read during that publish and
/// never again. Later versions show what `track` follows under this name, or else keep what this array held. Container, C array,
/// span, pointer with a shape, or a single element; the shape counts the container's elements, and elements that are arrays add
/// their own dimensions. With a `section` in place of the shape, that is shown of it.
class array {
public:
    template <class Array>
    array(std::string name, const Array& array)
        : source_(detail::source::of(std::move(name), array, std::nullopt, declaration()).once()) {}
    template <class Array>
    array(std::string name, const Array& array, const stillframe::shape& shape, declaration about = {})
        : source_(detail::source::of(std::move(name), array, shape, std::move(about)).once()) {}
    template <class Array>
    array(std::string name, const Array& array, const section& section, declaration about = {})
        : source_(detail::source::of(std::move(name), array, std::nullopt, std::move(about)).with(section).once()) {}

    const detail::source& source() const noexcept { return source_; }

private:
    detail::source source_;
};

}  // namespace STILLFRAME_NAMESPACE
}  // namespace stillframe
