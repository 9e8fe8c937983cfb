/// An allocator whose containers are variables of a region.
#pragma once

#include "region.hpp"

#if STILLFRAME_EXCEPTIONS

#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

namespace stillframe {
inline namespace STILLFRAME_NAMESPACE {
namespace detail {

/// Which variable of which region an allocator's containers are.
struct binding {
    std::shared_ptr<detail::producer> producer;
    std::string name;
    declaration about;
};

}  // namespace detail

/// Memory of a region for one contiguous container, which is published without further words:
///
///     std::vector<double, stillframe::allocator<double>> v(n, stillframe::allocator<double>(heat, "v"));
///     heat.publish(step);
///
/// * The variable is there while the container has memory, and has the *capacity* that the container asked for: elements
///   behind `size()` are zero or what was there before. `heat.track("v", v)`, or `stillframe::array("v", v)` at a publish,
///   publishes exactly `size()` elements; both take a shape, too.
/// * When the container grows, its new memory is the variable, and the old memory is its own until it gives that back. If
///   there is no more memory it keeps what it has, and that stays published.
/// * Copies of the container live in ordinary memory, and so do those of a default-constructed allocator. Moving and
///   swapping containers moves the memory *with its name*: after `swap(u, next)`, `next` is what is published as "u". To
///   publish what a container is called, `track` ordinary ones.
/// * Two containers with memory of one name make `publish` fail with `status::variable_exists`.
/// * The container may outlive the region, and keeps its content then.
///
/// For `std::vector` and `std::basic_string`. Those that allocate nodes or bits (`std::list`, `std::vector<bool>`) are no
/// arrays; see `memory_resource`. Containers of several threads may allocate at the same time, but not while `publish` runs.
template <class T>
class allocator {
public:
    using value_type = T;
    using propagate_on_container_copy_assignment = std::false_type;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap = std::true_type;
    using is_always_equal = std::false_type;

    /// Ordinary memory.
    allocator() noexcept = default;

    /// Memory of the region, as the variable of this name. `about` says unit and attributes, and which part it is: one that
    /// becomes another part is another container, with an allocator that says so.
    allocator(const region& region, std::string name, declaration about = {})
        : binding_(std::make_shared<const detail::binding>(
              detail::binding{region.producer_, std::move(name), std::move(about)})) {}

    template <class U>
    allocator(const allocator<U>& other) noexcept : binding_(other.binding_) {
        static_assert(!std::is_same_v<U, bool> && !std::is_same_v<T, bool>,
                      "std::vector<bool> holds bits, which have no dtype: use unsigned char, or an array of bool");
    }

    /// Memory for `count` elements.
    ///
    /// Throws `stillframe::bad_alloc` if there is none, `std::bad_array_new_length`, and `error` for misuse, such as a name
    /// that another kind of variable has.
    T* allocate(std::size_t count) {
        if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_array_new_length();
        if (!is_managed()) return std::allocator<T>().allocate(count);
        auto memory = binding_->producer->allocate(binding_->name, detail::dtype_of<T>(),
                                                   detail::with_items<T>(shape(count)), binding_->about);
        if (memory) return static_cast<T*>(*memory);
        if (memory.error().family() == family::misuse) throw memory.error();
        throw bad_alloc(memory.error());
    }

    /// Gives memory back. The variable ends, unless the container has moved on to larger memory.
    void deallocate(T* data, std::size_t count) noexcept {
        if (binding_ && binding_->producer && binding_->producer->deallocate(data)) return;
        std::allocator<T>().deallocate(data, count);
    }

    /// Whether containers get memory of a region: not if it is closed.
    bool is_managed() const noexcept { return binding_ && binding_->producer && binding_->producer->is_open(); }

    /// Copies of a container are no variables.
    allocator select_on_container_copy_construction() const noexcept { return {}; }

    /// Whether memory of one can be given back through the other.
    template <class U>
    friend bool operator==(const allocator& left, const allocator<U>& right) noexcept {
        return left.producer() == right.producer();
    }
    template <class U>
    friend bool operator!=(const allocator& left, const allocator<U>& right) noexcept {
        return !(left == right);
    }

private:
    template <class U>
    friend class allocator;

    const detail::producer* producer() const noexcept { return binding_ ? binding_->producer.get() : nullptr; }

    std::shared_ptr<const detail::binding> binding_;
};

}  // namespace STILLFRAME_NAMESPACE
}  // namespace stillframe

#endif
