/// Fragments: what a process holds of an object.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <stillframe.h>

#include "array_view.hpp"
#include "error.hpp"
#include "observer.hpp"
#include "region.hpp"

namespace stillframe {
inline namespace STILLFRAME_NAMESPACE {

/// Numbers of the names that a text leaves open: `{{"xmin", 16}, {"ymin", 32}}`.
using bindings = std::vector<std::pair<std::string, std::int64_t>>;

namespace detail {

/// As the C interface wants them; valid as long as the bindings.
inline std::vector<stillframe_drepl_binding> given(const bindings& bindings) {
    std::vector<stillframe_drepl_binding> given;
    for (const auto& [name, value] : bindings) given.push_back({name.c_str(), value});
    return given;
}

inline std::uint64_t wait_ms(std::chrono::milliseconds wait) {
    return wait.count() > 0 ? static_cast<std::uint64_t>(wait.count()) : 0;
}

/// What both kinds of fragments have: a handle, and variables in memory.
class attached {
public:
    explicit attached(stillframe_fragment* raw) noexcept : handle_(raw) {}

    stillframe_fragment* get() const noexcept { return handle_.get(); }
    result<void> end() { return check(handle_.end()); }

    result<stillframe_fragment_info> info() const {
        stillframe_fragment_info info{};
        if (const auto status = stillframe_fragment_describe(get(), &info)) return failure(status);
        return info;
    }

    /// A variable, by its name or as the only one, of memory that begins somewhere.
    template <class T, class Byte>
    result<array_view<T>> view(const std::optional<std::string>& name, Byte* data) const {
        stillframe_variable found{};
        std::size_t offset_bytes = 0;
        const char* asked = name ? name->c_str() : nullptr;
        if (const auto status = stillframe_fragment_variable(get(), asked, &found, &offset_bytes)) return failure(status);
        const std::string dtype = dtype_of<std::remove_const_t<T>>();
        if (dtype != found.dtype)
            return error(status::wrong_dtype,
                         "variable '" + std::string(found.name) + "' holds " + found.dtype + ", not " + dtype);
        stillframe::shape shape;
        for (std::uint32_t dimension = 0; dimension < found.rank; ++dimension) shape.append(found.shape[dimension]);
        return array_view<T>(reinterpret_cast<T*>(data + offset_bytes), shape, static_cast<order>(found.order));
    }

private:
    handle<stillframe_fragment, &stillframe_fragment_detach> handle_;
};

}  // namespace detail

/// How a fragment to write is attached: `stillframe::write_options().bind("xmin", 16).rank(rank)`.
class write_options {
public:
    /// The number of a name that the text leaves open.
    write_options& bind(std::string name, std::int64_t value) {
        bindings_.emplace_back(std::move(name), value);
        return *this;
    }

    /// The version whose content the fragment has at first, and above which it publishes; by default the newest complete one.
    /// Who had its elements until then does not matter: so a program goes on with another number of processes.
    write_options& version(std::uint64_t version) {
        given_.has_version = 1;
        given_.version = version;
        return *this;
    }

    /// How long to wait for a living writer to detach elements that this one wants, and for that version; 10 s by default.
    write_options& wait(std::chrono::milliseconds wait) {
        // 0 means the default there.
        given_.wait_ms = detail::wait_ms(wait) ? detail::wait_ms(wait) : 1;
        return *this;
    }

    /// The rank in a parallel program, for messages to people.
    write_options& rank(std::uint32_t rank) {
        given_.has_rank = 1;
        given_.rank = rank;
        return *this;
    }

    /// How many writers there are, if they do not cover the object together: a version is complete when so many have published
    /// it. By default it is when all elements were.
    write_options& writers(std::uint32_t writers) {
        given_.writers = writers;
        return *this;
    }

    /// How many of the newest versions stay in any case; 1 by default. What other writers have still to publish stays besides.
    write_options& keep(std::uint32_t versions) {
        given_.keep = versions;
        return *this;
    }

    /// The most bytes that its versions may take.
    write_options& bound_bytes(std::uint64_t bytes) {
        given_.bound_bytes = bytes;
        return *this;
    }

    /// Whether memory of each version is lent, to be written whole, so that a publish copies nothing; false by default. Views of
    /// it then end with the publish.
    write_options& loaned(bool loaned = true) {
        return set(STILLFRAME_ATTACH_LOANED, loaned);
    }

    /// Whether it begins with zeros, whatever content the version has that it is attached at: for content that cannot be had any
    /// more, as that of a node that died; false by default.
    write_options& zeros(bool zeros = true) {
        return set(STILLFRAME_ATTACH_ZEROS, zeros);
    }

    /// As the C interface wants it, but for the bindings.
    const stillframe_attach_options& given() const noexcept { return given_; }
    const stillframe::bindings& bound() const noexcept { return bindings_; }

private:
    write_options& set(stillframe_attach_flag flag, bool on) {
        const auto bit = static_cast<std::uint32_t>(flag);
        given_.flags = on ? given_.flags | bit : given_.flags & ~bit;
        return *this;
    }

    stillframe_attach_options given_{};
    stillframe::bindings bindings_;
};

/// How a fragment to read is attached.
class read_options {
public:
    /// The number of a name that the text leaves open.
    read_options& bind(std::string name, std::int64_t value) {
        bindings_.emplace_back(std::move(name), value);
        return *this;
    }

    /// The version that it shows at first, and how long to wait for it; by default the initial one, zeros.
    read_options& version(std::uint64_t version, std::chrono::milliseconds wait = {}) {
        given_.has_version = 1;
        given_.version = version;
        given_.wait_ms = detail::wait_ms(wait);
        return *this;
    }

    /// Threads that copy, the calling one included; by default as many as there are processors.
    read_options& threads(std::uint32_t threads) {
        given_.threads = threads;
        return *this;
    }

    /// Whether the runtime of this node fetches the next version from other nodes while the program works with one: that which is
    /// as far above it as it is above the one before. For programs that read version after version; false by default.
    read_options& prefetch(bool prefetch = true) {
        given_.prefetch = prefetch ? 1 : 0;
        return *this;
    }

    /// As the C interface wants it, but for the bindings.
    const stillframe_attach_read_options& given() const noexcept { return given_; }
    const stillframe::bindings& bound() const noexcept { return bindings_; }

private:
    stillframe_attach_read_options given_{};
    stillframe::bindings bindings_;
};

/// A fragment to write: memory in the layout that was asked for, of which versions are published. See `object::write`.
///
/// It is detached when it is destroyed. It may be moved, and belongs to one thread at a time.
class write_fragment {
public:
    /// One of its variables, to be written; without a name, the only one. The view is valid until the fragment is detached, that
    /// of a loaned one until it is published.
    ///
    /// Errors: `object_variable` if there is no such variable, or its numbers lie apart; `wrong_dtype` if it holds others than `T`;
    /// of a loaned one `bound`, `no_space` or `no_slot` if there is no room.
    template <class T>
    result<array_view<T>> try_view(const std::optional<std::string>& name = {}) & {
        auto bytes = try_bytes();
        if (!bytes) return bytes.error();
        return attached_.view<T>(name, bytes->data());
    }

    /// All its bytes, to be written; valid as a view.
    result<span<std::byte>> try_bytes() & {
        void* data = nullptr;
        std::size_t bytes = 0;
        if (const auto status = stillframe_fragment_next(attached_.get(), &data, &bytes)) return detail::failure(status);
        return span<std::byte>(static_cast<std::byte*>(data), bytes);
    }

    /// One of its variables in its newest version, which stays as it is until the next publish: for programs that compute a new
    /// array from an old one. Empty before the first publish.
    ///
    /// Errors: as `try_view`; `no_mappings`.
    template <class T>
    result<array_view<const T>> try_previous(const std::optional<std::string>& name = {}) & {
        const void* data = nullptr;
        if (const auto status = stillframe_fragment_previous(attached_.get(), &data, nullptr)) return detail::failure(status);
        if (!data) return array_view<const T>();
        return attached_.view<const T>(name, static_cast<const std::byte*>(data));
    }

    /// Makes what it holds now the next version of its elements. Nobody writes its memory meanwhile.
    ///
    /// Errors: `not_increasing`; those of `region::publish`, and then there is no new version.
    result<published> try_publish(std::uint64_t version) {
        stillframe_published done{};
        if (const auto status = stillframe_fragment_publish(attached_.get(), version, &done)) return detail::failure(status);
        return published{done.version,     done.dirty_pages, done.copied_pages,
                         done.total_pages, done.seconds,     done.skipped != 0};
    }

    /// Its newest version, or the one at which it was attached.
    ///
    /// Errors: `bad_handle` after `detach`; `forked`.
    result<std::uint64_t> try_version() const {
        auto info = attached_.info();
        if (!info) return info.error();
        return info->version;
    }

    /// Lets go of it. What it published stays as long as a complete version needs it, and above that it is waited for no more.
    ///
    /// Errors: `forked`; `object_locked` and others of the environment, after which others may take it for one whose process died.
    result<void> try_detach() { return attached_.end(); }

    /// The handle of the C interface.
    stillframe_fragment* handle() const noexcept { return attached_.get(); }

#if STILLFRAME_EXCEPTIONS
    // As their twins; all throw `error`.
    template <class T>
    array_view<T> view(const std::optional<std::string>& name = {}) & {
        return try_view<T>(name).value();
    }
    span<std::byte> bytes() & { return try_bytes().value(); }
    template <class T>
    array_view<const T> previous(const std::optional<std::string>& name = {}) & {
        return try_previous<T>(name).value();
    }
    published publish(std::uint64_t version) { return try_publish(version).value(); }
    std::uint64_t version() const { return try_version().value(); }
    void detach() { try_detach().value(); }
#endif

    /// Takes over a handle of the C interface.
    static write_fragment adopt(stillframe_fragment* raw) { return write_fragment(raw); }

private:
    explicit write_fragment(stillframe_fragment* raw) noexcept : attached_(raw) {}

    detail::attached attached_;
};

/// A fragment to read: memory at one address, in the layout that was asked for, with the elements of one version. See
/// `object::read`.
///
/// It is detached when it is destroyed. It may be moved, and belongs to one thread at a time.
class read_fragment {
public:
    /// Fills it with a version, at the same address: waits (for ever, if that is not said) until all elements that it wants were
    /// published, and only those.
    ///
    /// Errors: `timeout`, whose text says whom was waited for; `object_lost` if elements cannot be had, because their writer died or
    /// let the version go; `corrupt`. It shows what it showed before.
    result<void> try_reattach(std::uint64_t version, timeout timeout = {}) {
        return detail::check(stillframe_fragment_reattach(attached_.get(), version, detail::ms_of(timeout)));
    }

    /// Fills it with the newest complete version above `after`, waiting for one, and returns its number.
    ///
    /// Errors: as `try_reattach`; `object_ended` if all writers have left.
    result<std::uint64_t> try_reattach_newer(std::uint64_t after, timeout timeout = {}) {
        std::uint64_t version = 0;
        const auto status = stillframe_fragment_reattach_newer(attached_.get(), after, detail::ms_of(timeout), &version);
        if (status) return detail::failure(status);
        return version;
    }

    /// One of its variables; without a name, the only one. The view is valid until the fragment is detached, and shows the version
    /// of the last reattach.
    ///
    /// Errors: `object_variable` if there is no such variable, or its numbers lie apart; `wrong_dtype` if it holds others than `T`.
    template <class T>
    result<array_view<const T>> try_view(const std::optional<std::string>& name = {}) const& {
        return attached_.view<const T>(name, data_);
    }
    template <class T>
    result<array_view<const T>> try_view(const std::optional<std::string>& name = {}) const&& = delete;

    /// All its bytes; valid as a view.
    result<span<const std::byte>> try_bytes() const& {
        auto info = attached_.info();
        if (!info) return info.error();
        return span<const std::byte>(data_, static_cast<std::size_t>(info->bytes));
    }
    result<span<const std::byte>> try_bytes() const&& = delete;

    /// The version that it shows.
    ///
    /// Errors: `bad_handle` after `detach`; `forked`.
    result<std::uint64_t> try_version() const {
        auto info = attached_.info();
        if (!info) return info.error();
        return info->version;
    }

    /// When that version was published, by the last of its writers, in nanoseconds since 1970; 0 of the initial one.
    result<std::uint64_t> try_published_ns() const {
        auto info = attached_.info();
        if (!info) return info.error();
        return info->published_ns;
    }

    /// Whether it shows pages of a writer rather than a copy.
    result<bool> try_is_shown() const {
        auto info = attached_.info();
        if (!info) return info.error();
        return info->shown != 0;
    }

    /// Lets go of it.
    ///
    /// Errors: `forked`.
    result<void> try_detach() { return attached_.end(); }

    /// The handle of the C interface.
    stillframe_fragment* handle() const noexcept { return attached_.get(); }

#if STILLFRAME_EXCEPTIONS
    // As their twins; all throw `error`.
    void reattach(std::uint64_t version, timeout timeout = {}) { try_reattach(version, timeout).value(); }
    std::uint64_t reattach_newer(std::uint64_t after, timeout timeout = {}) {
        return try_reattach_newer(after, timeout).value();
    }
    template <class T>
    array_view<const T> view(const std::optional<std::string>& name = {}) const& {
        return try_view<T>(name).value();
    }
    template <class T>
    array_view<const T> view(const std::optional<std::string>& name = {}) const&& = delete;
    span<const std::byte> bytes() const& { return try_bytes().value(); }
    span<const std::byte> bytes() const&& = delete;
    std::uint64_t version() const { return try_version().value(); }
    std::uint64_t published_ns() const { return try_published_ns().value(); }
    bool is_shown() const { return try_is_shown().value(); }
    void detach() { try_detach().value(); }
#endif

    /// Takes over a handle of the C interface, and the address that came with it.
    static read_fragment adopt(stillframe_fragment* raw, const void* data) { return read_fragment(raw, data); }

private:
    read_fragment(stillframe_fragment* raw, const void* data) noexcept
        : attached_(raw), data_(static_cast<const std::byte*>(data)) {}

    detail::attached attached_;
    const std::byte* data_;
};

}  // namespace STILLFRAME_NAMESPACE
}  // namespace stillframe
