/// Objects: one name for data that many processes hold.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <stillframe.h>

#include "error.hpp"
#include "fragment.hpp"
#include "inspect.hpp"
#include "observer.hpp"

namespace stillframe {
inline namespace STILLFRAME_NAMESPACE {

/// How an object is created or opened.
class object_options {
public:
    /// Directory of the regions; by default $STILLFRAME_DIR, else /dev/shm/stillframe-<uid>.
    object_options& dir(std::string dir) {
        dir_ = std::move(dir);
        return *this;
    }

    /// Whose directories and files are taken for good, as `options::trust`.
    object_options& trust(std::string trust) {
        trust_ = std::move(trust);
        return *this;
    }

    /// Access mode of what is made; 0700 by default. With 0750 the group may read, with 0770 it may also create and write.
    object_options& mode(unsigned mode) {
        given_.mode = mode;
        return *this;
    }

    /// Length of the arena in which the fragments of all objects of the directory lie, in bytes of addresses, and how many there can
    /// be at a time; 1 TiB and 65 536 by default. An arena that is there stays what it is.
    object_options& arena(std::uint64_t bytes, std::uint32_t fragments) {
        given_.arena_bytes = bytes;
        given_.arena_fragments = fragments;
        return *this;
    }

    /// The number of a name that the text leaves open. For `object`'s constructor.
    object_options& bind(std::string name, std::int64_t value) {
        bindings_.emplace_back(std::move(name), value);
        return *this;
    }

    /// The version that exists at once, and is zeros; 0 by default. For `object`'s constructor.
    object_options& initial(std::uint64_t version) {
        given_.initial = version;
        return *this;
    }

    /// How long to wait for the object to be created; not at all by default. For `object::open`.
    object_options& wait(std::chrono::milliseconds wait) {
        given_.wait_ms = detail::wait_ms(wait);
        return *this;
    }

    /// Whether to open it to read only, which takes no right to write; false by default. For `object::open`.
    object_options& look(bool look = true) {
        given_.flags = look ? static_cast<std::uint32_t>(STILLFRAME_OBJECT_LOOK) : 0;
        return *this;
    }

    /// As the C interface wants it, but for the bindings; valid as long as these options.
    stillframe_object_options given() const {
        stillframe_object_options given = given_;
        given.dir = dir_.empty() ? nullptr : dir_.c_str();
        given.trust = trust_.empty() ? nullptr : trust_.c_str();
        return given;
    }
    const stillframe::bindings& bound() const noexcept { return bindings_; }

private:
    stillframe_object_options given_{};
    std::string dir_, trust_;
    stillframe::bindings bindings_;
};

/// A fragment to write that is or was attached.
struct writer {
    /// Its number, which no other fragment of the object has or had, and its process.
    std::uint32_t number, pid;
    /// Its rank, if it said so.
    std::optional<std::uint32_t> rank;
    /// Whether its process lives and has it attached.
    bool alive;
    /// The first version that it writes, the first that it does not write any more, and its newest.
    std::uint64_t from;
    maybe_version left, newest;
    /// Versions of it that can be had.
    std::uint32_t versions;
    /// The text of the fragment, and numbers of the names that it leaves open.
    std::string text;
    stillframe::bindings bindings;
    /// The region in which it lies, which observers open as any other.
    std::string region;
};

/// One name for data that many processes hold, each a fragment of it in the layout that it wants:
///
///     stillframe::object heat("heat", "var grid [64,64] float64");
///     auto mine = heat.write("{ var g [x:16,y:64] = grid[x+first,y] }", stillframe::write_options().bind("first", 16));
///     auto row = heat.read("{ var r [x:1,y:64] = grid[x+32,y] }");
///     mine.view<double>()(0, 5) = 1;
///     mine.publish(1);
///     row.reattach(1);
///
/// Its fragments go on when it is closed or destroyed. It can be used from several threads at once, and may be moved.
class object {
public:
#if STILLFRAME_EXCEPTIONS
    /// As `try_create`. Throws `error`.
    object(const std::string& name, const std::string& text, const object_options& options = {})
        : object(try_create(name, text, options).value()) {}
    /// As `try_open`. Throws `error`.
    static object open(const std::string& name, const object_options& options = {}) { return try_open(name, options).value(); }
#endif

    /// Creates an object, or finds the one of this name that is there and the same. The text declares its variables, in the layout
    /// language (docs/drepl-language.md). When it returns, everybody finds it.
    ///
    /// Errors: `object_other_text` if there is one with another text, bindings or initial version; `drepl_text`, whose words show
    /// all mistakes; `bad_name`; `untrusted`.
    static result<object> try_create(const std::string& name, const std::string& text, const object_options& options = {}) {
        auto given = options.given();
        const auto bound = detail::given(options.bound());
        given.bindings = bound.data();
        given.binding_count = bound.size();
        stillframe_object* handle = nullptr;
        if (const auto status = stillframe_object_create(name.c_str(), text.c_str(), &given, &handle))
            return detail::failure(status);
        return object(name, handle);
    }

    /// Opens an object that is there, or that comes within `object_options::wait`.
    ///
    /// Errors: `no_object`, or with a wait `timeout`; `untrusted`.
    static result<object> try_open(const std::string& name, const object_options& options = {}) {
        const auto given = options.given();
        stillframe_object* handle = nullptr;
        if (const auto status = stillframe_object_open(name.c_str(), &given, &handle)) return detail::failure(status);
        return object(name, handle);
    }

    const std::string& name() const noexcept { return name_; }

    /// Attaches a fragment to write: `{ var g [x:16,y:32] = grid[x+xmin,y+ymin] }`, or any view with its attributes. From then on it
    /// is waited for in all versions above the one that it begins with.
    ///
    /// Errors: `object_overlap`, whose text names both fragments, if another one that does not go has some of the elements;
    /// `drepl_text`; `object_not_writable`; `object_refused` if a newer version is complete already; `timeout` and `object_lost` of a
    /// version that was asked for; `arena_full`.
    result<write_fragment> try_write(const std::string& text, const write_options& options = {}) const {
        auto given = options.given();
        const auto bound = detail::given(options.bound());
        given.bindings = bound.data();
        given.binding_count = bound.size();
        stillframe_fragment* fragment = nullptr;
        if (const auto status = stillframe_object_attach(handle(), text.c_str(), &given, &fragment, nullptr))
            return detail::failure(status);
        return write_fragment::adopt(fragment);
    }

    /// Attaches a fragment to read. It shows the initial version, zeros, until it is reattached, or the one that is asked for. What
    /// lies beyond the rim of the object is zero in a view that says `clipped`.
    ///
    /// Errors: `drepl_text`; those of `read_fragment::try_reattach` for a version that was asked for.
    result<read_fragment> try_read(const std::string& text, const read_options& options = {}) const {
        auto given = options.given();
        const auto bound = detail::given(options.bound());
        given.bindings = bound.data();
        given.binding_count = bound.size();
        stillframe_fragment* fragment = nullptr;
        const void* data = nullptr;
        if (const auto status = stillframe_object_attach_read(handle(), text.c_str(), &given, &fragment, &data))
            return detail::failure(status);
        return read_fragment::adopt(fragment, data);
    }

    /// The newest complete version: one that all writers published. The initial version is complete from the beginning.
    ///
    /// Errors: `bad_handle` after `close`; `forked`; `corrupt`.
    result<std::uint64_t> try_newest() const {
        std::uint64_t version = 0;
        if (const auto status = stillframe_object_newest(handle(), &version)) return detail::failure(status);
        return version;
    }

    /// The complete versions that can be had, ascending, without the initial one.
    result<std::vector<std::uint64_t>> try_versions() const {
        // As many as a region can have; there may be more of several writers by the time they are asked for again.
        std::vector<std::uint64_t> versions(64);
        for (std::size_t count = 0;; versions.resize(count)) {
            if (const auto status = stillframe_object_versions(handle(), versions.data(), versions.size(), &count))
                return detail::failure(status);
            if (count > versions.size()) continue;
            versions.resize(count);
            return versions;
        }
    }

    /// Waits for a complete version above `after`, and returns the newest.
    ///
    /// Errors: `timeout`, whose text says whom was waited for; `object_ended` if all writers have left; `object_lost` if those that
    /// it needs died.
    result<std::uint64_t> try_wait_newer(std::uint64_t after, timeout timeout = {}) const {
        std::uint64_t version = 0;
        if (const auto status = stillframe_object_wait_newer(handle(), after, detail::ms_of(timeout), &version))
            return detail::failure(status);
        return version;
    }

    /// Waits until a version is complete.
    ///
    /// Errors: `timeout`, whose text says whom was waited for; `object_lost` if elements of it cannot be had, or not any more.
    result<void> try_wait_for(std::uint64_t version, timeout timeout = {}) const {
        return detail::check(stillframe_object_wait_for(handle(), version, detail::ms_of(timeout)));
    }

    /// The fragments to write that are or were attached, in the order in which they were attached.
    result<std::vector<writer>> try_writers() const {
        std::vector<writer> writers;
        const auto status = stillframe_object_writers(
            handle(),
            [](void* context, const stillframe_writer* found) {
                stillframe::bindings bindings;
                for (std::size_t index = 0; index < found->binding_count; ++index)
                    bindings.emplace_back(found->bindings[index].name, found->bindings[index].value);
                const auto some = [](std::uint32_t has, std::uint64_t version) {
                    return has ? maybe_version(version) : maybe_version();
                };
                static_cast<std::vector<writer>*>(context)->push_back(
                    {found->number, found->pid, found->has_rank ? std::optional(found->rank) : std::nullopt, found->alive != 0,
                     found->from, some(found->has_left, found->left), some(found->has_newest, found->newest),
                     found->version_count, found->text, std::move(bindings), found->region});
                return true;
            },
            &writers);
        if (status) return detail::failure(status);
        return writers;
    }

    /// Ends its use by this C++ object. Its fragments go on.
    ///
    /// Errors: `forked`.
    result<void> try_close() { return detail::check(handle_.end()); }

    /// The handle of the C interface.
    stillframe_object* handle() const noexcept { return handle_.get(); }

#if STILLFRAME_EXCEPTIONS
    // As their twins; all throw `error`.
    write_fragment write(const std::string& text, const write_options& options = {}) const {
        return try_write(text, options).value();
    }
    read_fragment read(const std::string& text, const read_options& options = {}) const {
        return try_read(text, options).value();
    }
    std::uint64_t newest() const { return try_newest().value(); }
    std::vector<std::uint64_t> versions() const { return try_versions().value(); }
    std::uint64_t wait_newer(std::uint64_t after, timeout timeout = {}) const { return try_wait_newer(after, timeout).value(); }
    void wait_for(std::uint64_t version, timeout timeout = {}) const { try_wait_for(version, timeout).value(); }
    std::vector<writer> writers() const { return try_writers().value(); }
    void close() { try_close().value(); }
#endif

private:
    object(std::string name, stillframe_object* handle) : name_(std::move(name)), handle_(handle) {}

    std::string name_;
    detail::handle<stillframe_object, &stillframe_object_close> handle_;
};

/// The names of the objects in a directory, sorted; empty for the default one.
///
/// Errors: `untrusted`; those of the environment.
inline result<std::vector<std::string>> try_objects(const std::string& dir = {}) {
    std::vector<std::string> names;
    if (const auto status = stillframe_object_list(detail::dir_or_default(dir), &detail::keep_line, &names))
        return detail::failure(status);
    return names;
}

/// Removes an object with all that was published of it. Who reads a version keeps it until he lets go. With `force` living writers
/// lose their files, too.
///
/// Errors: `no_object`; `in_use` while a writer lives, without `force`.
inline result<void> try_remove_object(const std::string& name, bool force = false, const std::string& dir = {}) {
    return detail::check(stillframe_object_remove(detail::dir_or_default(dir), name.c_str(), force));
}

#if STILLFRAME_EXCEPTIONS
// As their twins; both throw `error`.
inline std::vector<std::string> objects(const std::string& dir = {}) { return try_objects(dir).value(); }
inline void remove_object(const std::string& name, bool force = false, const std::string& dir = {}) {
    try_remove_object(name, force, dir).value();
}
#endif

}  // namespace STILLFRAME_NAMESPACE
}  // namespace stillframe
