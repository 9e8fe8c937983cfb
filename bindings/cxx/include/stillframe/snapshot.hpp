/// Snapshots: what an observer holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <stillframe.h>

#include "array_view.hpp"
#include "declaration.hpp"
#include "error.hpp"

namespace stillframe {
inline namespace STILLFRAME_NAMESPACE {

/// A variable as it is in one version.
struct variable {
    std::string name;
    /// Type of the elements, as `element<T>::dtype()` writes it.
    std::string dtype;
    /// Unit of measurement, empty if there is none.
    std::string units;
    stillframe::order order;
    stillframe::shape shape;
    /// Distance in bytes between neighbours along each dimension.
    std::vector<std::ptrdiff_t> strides;
    std::size_t bytes, item_bytes;
    /// Which box of a global array it is, if it is one.
    std::optional<stillframe::part> part;
};

/// Bytes of a variable, from the offset on.
struct byte_range {
    std::size_t offset, bytes;
};

namespace detail {

/// A callable as the C interface calls it. What it throws waits until the call is over, for C frames do not unwind.
template <class Visitor>
class visit {
public:
    explicit visit(Visitor& visitor) : visitor_(visitor) {}

    template <class... Arguments>
    bool operator()(Arguments... arguments) noexcept {
#if STILLFRAME_EXCEPTIONS
        try {
            return go_on(arguments...);
        } catch (...) {
            thrown_ = std::current_exception();
            return false;
        }
#else
        return go_on(arguments...);
#endif
    }

    void rethrow() const {
#if STILLFRAME_EXCEPTIONS
        if (thrown_) std::rethrow_exception(thrown_);
#endif
    }

private:
    template <class... Arguments>
    bool go_on(Arguments... arguments) {
        if constexpr (std::is_void_v<std::invoke_result_t<Visitor&, Arguments...>>) {
            visitor_(arguments...);
            return true;
        } else {
            return static_cast<bool>(visitor_(arguments...));
        }
    }

    Visitor& visitor_;
    std::exception_ptr thrown_;
};

}  // namespace detail

/// A version, held: all variables as they were at one publish, and nothing in it changes. The hold ends with the object, or
/// with `release`; views of it must not be used after that. It can be used from several threads at once.
class snapshot {
public:
    /// The name of the region.
    const std::string& region() const noexcept { return region_; }

    /// The producer's number of the version.
    std::uint64_t version() const noexcept { return info_.version; }

    /// When it was published, in nanoseconds since 1970.
    std::uint64_t published_ns() const noexcept { return info_.published_ns; }

    /// Pages that were written since the version before, and of all variables.
    std::uint64_t dirty_pages() const noexcept { return info_.dirty_pages; }
    std::uint64_t total_pages() const noexcept { return info_.total_pages; }

    /// The variables, in the order of their declaration.
    ///
    /// Errors of this and the following: `bad_handle` after `release`; `forked`.
    result<std::vector<stillframe::variable>> try_variables() const {
        std::vector<stillframe::variable> variables;
        for (std::size_t index = 0; index < info_.variable_count; ++index) {
            stillframe_variable found{};
            if (const auto status = stillframe_variable_at(handle_.get(), index, &found)) return detail::failure(status);
            variables.push_back(variable_of(found));
        }
        return variables;
    }

    /// One variable.
    ///
    /// Errors: `unknown_variable`.
    result<stillframe::variable> try_variable(const std::string& name) const {
        stillframe_variable found{};
        if (const auto status = stillframe_variable_named(handle_.get(), name.c_str(), &found)) return detail::failure(status);
        return variable_of(found);
    }

    /// The version's attributes.
    result<stillframe::attributes> try_attributes() const { return attributes_of(nullptr, info_.attribute_count); }

    /// A variable's attributes.
    ///
    /// Errors: `unknown_variable`.
    result<stillframe::attributes> try_attributes(const std::string& variable) const {
        stillframe_variable found{};
        if (const auto status = stillframe_variable_named(handle_.get(), variable.c_str(), &found))
            return detail::failure(status);
        return attributes_of(variable.c_str(), found.attribute_count);
    }

    /// One of the version's attributes.
    ///
    /// Errors: `unknown_attribute`.
    result<scalar> try_attribute(const std::string& name) const {
        stillframe_attribute found{};
        if (const auto status = stillframe_attribute_named(handle_.get(), nullptr, name.c_str(), &found))
            return detail::failure(status);
        return detail::scalar_of(found);
    }

    /// The elements of a variable where they lie, read-only. The first call for a variable maps it if its pages lie in
    /// several pieces. With `T` an array, such as `std::array<double, 3>`, the last dimensions have to be its.
    ///
    /// Errors: `unknown_variable`; `wrong_dtype` if it holds others than `T`; `wrong_shape`; `no_mappings`.
    template <class T>
    result<array_view<const T>> try_view(const std::string& name) const& {
        stillframe_variable found{};
        if (const auto status = stillframe_variable_named(handle_.get(), name.c_str(), &found)) return detail::failure(status);
        const std::string dtype = detail::dtype_of<T>();
        if (dtype != found.dtype)
            return error(status::wrong_dtype,
                         "variable '" + name + "' holds " + std::string(found.dtype) + ", not " + dtype);
        auto shape = items<T>(found);
        if (!shape) return shape.error();
        auto bytes = try_bytes(name);
        if (!bytes) return bytes.error();
        return array_view<const T>(reinterpret_cast<const T*>(bytes->data()), *shape, static_cast<order>(found.order));
    }
    template <class T>
    result<array_view<const T>> try_view(const std::string& name) const&& = delete;

    /// All bytes of a variable, whatever its type.
    ///
    /// Errors: `unknown_variable`; `no_mappings`.
    result<span<const std::byte>> try_bytes(const std::string& name) const& {
        const void* data = nullptr;
        std::size_t bytes = 0;
        if (const auto status = stillframe_view(handle_.get(), name.c_str(), &data, &bytes)) return detail::failure(status);
        return span<const std::byte>(static_cast<const std::byte*>(data), bytes);
    }
    result<span<const std::byte>> try_bytes(const std::string& name) const&& = delete;

    /// Copies elements, as they follow each other in memory from number `first` on. They are read from the files: if somebody
    /// cut those short, that is an error here, where a view would end the process by SIGBUS.
    ///
    /// Errors: `unknown_variable`; `wrong_dtype`; `out_of_range`; `corrupt`.
    template <class T>
    result<void> try_read(const std::string& name, span<T> out, std::size_t first = 0) const {
        stillframe_variable found{};
        if (const auto status = stillframe_variable_named(handle_.get(), name.c_str(), &found)) return detail::failure(status);
        const std::string dtype = detail::dtype_of<T>();
        if (dtype != found.dtype)
            return error(status::wrong_dtype,
                         "variable '" + name + "' holds " + std::string(found.dtype) + ", not " + dtype);
        return detail::check(stillframe_read(handle_.get(), name.c_str(), first * sizeof(T), out.data(), out.size_bytes()));
    }

    /// Goes through bytes of a variable in pieces as they lie in memory, ascending, without mapping anything for this
    /// version. `visitor(offset, span<const std::byte>)` may return false to stop. What it throws comes out.
    ///
    /// Errors: `unknown_variable`; `out_of_range`; those of the environment.
    template <class Visitor>
    result<void> try_chunks(const std::string& name, byte_range range, Visitor&& visitor) const {
        auto visit = [&visitor](std::size_t offset, const void* data, std::size_t bytes) {
            return visitor(offset, span<const std::byte>(static_cast<const std::byte*>(data), bytes));
        };
        detail::visit call(visit);
        const auto status = stillframe_chunks(
            handle_.get(), name.c_str(), range.offset, range.bytes,
            [](void* context, std::size_t offset, const void* data, std::size_t bytes) {
                return (*static_cast<decltype(call)*>(context))(offset, data, bytes);
            },
            &call);
        call.rethrow();
        return detail::check(status);
    }

    /// As above, for all bytes of the variable.
    template <class Visitor>
    result<void> try_chunks(const std::string& name, Visitor&& visitor) const {
        auto found = try_variable(name);
        if (!found) return found.error();
        return try_chunks(name, byte_range{0, found->bytes}, visitor);
    }

    /// Ranges of a variable's bytes, ascending and apart, that may differ from an older snapshot of the same region. It is
    /// everything if the variable moved, was resized, or was not there. The work is proportional to what changed.
    ///
    /// Errors: `unknown_variable`; `different_regions`.
    result<std::vector<byte_range>> try_changed(const snapshot& older, const std::string& name) const {
        std::vector<byte_range> ranges;
        auto visit = [&ranges](std::size_t offset, std::size_t bytes) { ranges.push_back({offset, bytes}); };
        if (auto visited = try_changed(older, name, visit); !visited) return visited.error();
        return ranges;
    }

    /// As above, for each of them: `visitor(offset, bytes)` may return false to stop. What it throws comes out.
    template <class Visitor>
    result<void> try_changed(const snapshot& older, const std::string& name, Visitor&& visitor) const {
        detail::visit call(visitor);
        const auto status = stillframe_changed(
            handle_.get(), older.handle_.get(), name.c_str(),
            [](void* context, std::size_t offset, std::size_t bytes) {
                return (*static_cast<decltype(call)*>(context))(offset, bytes);
            },
            &call);
        call.rethrow();
        return detail::check(status);
    }

    /// Lets go of this version for a later one, which this becomes, and brings what was viewed along: views of it are then made
    /// from what was there, by what `changed` lists, where that is cheaper than to map the later version anew. That takes memory
    /// of this process, as much as the variable has, which is copied once; from then on the work of each version is proportional
    /// to what changed. Views of this version must not be used after that.
    ///
    /// Errors, after which this has not changed: `different_regions`; `bad_handle` after `release`; `forked`.
    result<void> try_advance(snapshot next) {
        if (const auto status = stillframe_advance(handle_.get(), next.handle_.get())) return detail::failure(status);
        handle_.release();
        *this = std::move(next);
        return {};
    }

    /// Ends the hold. Releasing what is released does nothing.
    ///
    /// Errors: `forked`.
    result<void> try_release() { return detail::check(handle_.end()); }

#if STILLFRAME_EXCEPTIONS
    // As their twins; all throw `error`.
    std::vector<stillframe::variable> variables() const { return try_variables().value(); }
    stillframe::variable variable(const std::string& name) const { return try_variable(name).value(); }
    stillframe::attributes attributes() const { return try_attributes().value(); }
    stillframe::attributes attributes(const std::string& variable) const { return try_attributes(variable).value(); }
    scalar attribute(const std::string& name) const { return try_attribute(name).value(); }
    template <class T>
    array_view<const T> view(const std::string& name) const& {
        return try_view<T>(name).value();
    }
    template <class T>
    array_view<const T> view(const std::string& name) const&& = delete;
    span<const std::byte> bytes(const std::string& name) const& { return try_bytes(name).value(); }
    span<const std::byte> bytes(const std::string& name) const&& = delete;
    template <class T>
    void read(const std::string& name, span<T> out, std::size_t first = 0) const {
        try_read(name, out, first).value();
    }
    template <class Visitor>
    void chunks(const std::string& name, byte_range range, Visitor&& visitor) const {
        try_chunks(name, range, visitor).value();
    }
    template <class Visitor>
    void chunks(const std::string& name, Visitor&& visitor) const {
        try_chunks(name, visitor).value();
    }
    std::vector<byte_range> changed(const snapshot& older, const std::string& name) const {
        return try_changed(older, name).value();
    }
    template <class Visitor>
    void changed(const snapshot& older, const std::string& name, Visitor&& visitor) const {
        try_changed(older, name, visitor).value();
    }
    void advance(snapshot next) { try_advance(std::move(next)).value(); }
    void release() { try_release().value(); }
#endif

    /// Takes over a handle of the C interface.
    static result<snapshot> adopt(stillframe_snapshot* raw) {
        snapshot taken(raw);
        if (const auto status = stillframe_describe(raw, &taken.info_)) return detail::failure(status);
        taken.region_ = taken.info_.region;
        taken.info_.region = nullptr;
        return taken;
    }

private:
    explicit snapshot(stillframe_snapshot* raw) : handle_(raw) {}

    static stillframe::variable variable_of(const stillframe_variable& found) {
        return {found.name,
                found.dtype,
                found.units ? found.units : "",
                static_cast<order>(found.order),
                shape_of(found.shape, found.rank),
                {found.strides, found.strides + found.rank},
                found.bytes,
                found.item_bytes,
                part_of(found)};
    }

    static std::optional<stillframe::part> part_of(const stillframe_variable& found) {
        if (!found.offset) return std::nullopt;
        return stillframe::part{shape_of(found.offset, found.rank), shape_of(found.global_shape, found.rank)};
    }

    static shape shape_of(const std::size_t* extents, std::size_t rank) {
        shape shape;
        for (std::size_t dimension = 0; dimension < rank; ++dimension) shape.append(extents[dimension]);
        return shape;
    }

    /// The shape in items, whose own extents are the last ones.
    template <class T>
    static result<shape> items(const stillframe_variable& found) {
        const auto inner = detail::with_items<T>(shape());
        const shape all = shape_of(found.shape, found.rank);
        bool fits = inner.rank() <= all.rank() && (inner.rank() == 0 || found.order == STILLFRAME_C);
        for (std::size_t index = 0; fits && index < inner.rank(); ++index)
            fits = inner[index] == all[all.rank() - inner.rank() + index];
        if (!fits)
            return error(status::wrong_shape, "variable '" + std::string(found.name) + "' has the shape " + all.text() +
                                                  ", which does not end, row-major, in " + inner.text());
        return shape_of(found.shape, all.rank() - inner.rank());
    }

    result<stillframe::attributes> attributes_of(const char* variable, std::size_t count) const {
        stillframe::attributes attributes;
        for (std::size_t index = 0; index < count; ++index) {
            stillframe_attribute found{};
            if (const auto status = stillframe_attribute_at(handle_.get(), variable, index, &found))
                return detail::failure(status);
            attributes.emplace(found.name, detail::scalar_of(found));
        }
        return attributes;
    }

    detail::handle<stillframe_snapshot, &stillframe_release> handle_;
    stillframe_snapshot_info info_{};
    std::string region_;
};

}  // namespace STILLFRAME_NAMESPACE
}  // namespace stillframe
