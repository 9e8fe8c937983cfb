/// Arenas: many regions in one file.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <stillframe.h>

#include "error.hpp"

namespace stillframe {
inline namespace STILLFRAME_NAMESPACE {

/// How an arena is made or opened: `stillframe::arena_options().bytes(1 << 30)`.
class arena_options {
public:
    /// Directory that holds the arena's own; by default $STILLFRAME_DIR, else /dev/shm/stillframe-<uid>. In a directory on
    /// hugetlbfs the arena consists of large pages of 2 MiB.
    arena_options& dir(std::string dir) {
        dir_ = std::move(dir);
        return *this;
    }

    /// Length, rounded up to whole chunks of 2 MiB, the arena's own tables included; there is no default. Memory is taken as
    /// regions need it. An arena that is opened, and a file that has a length, keep theirs.
    arena_options& bytes(std::uint64_t bytes) {
        given_.bytes = bytes;
        return *this;
    }

    /// The most regions that it can have at a time; 4096 by default. An arena that is opened keeps its number.
    arena_options& regions(std::uint32_t regions) {
        given_.regions = regions;
        return *this;
    }

    /// Access mode of the arena's directory; 0700 by default. With 0750 the group may observe all its regions, with 0770 it
    /// may also make some.
    arena_options& mode(unsigned mode) {
        given_.mode = mode;
        return *this;
    }

    /// Whose directories and files are taken for good, as `options::trust`.
    arena_options& trust(std::string trust) {
        trust_ = std::move(trust);
        return *this;
    }

    /// Whether to ask for large pages where the file system has small ones; false by default. Small regions then take more.
    arena_options& large_pages(bool large_pages = true) { return flag(STILLFRAME_ARENA_LARGE_PAGES, large_pages); }

    /// Whether to open the arena to look only, which takes no right to write; false by default.
    arena_options& look(bool look = true) { return flag(STILLFRAME_ARENA_LOOK, look); }

    /// As the C interface wants it; valid as long as these options.
    stillframe_arena_options given() const {
        stillframe_arena_options given = given_;
        given.dir = dir_.empty() ? nullptr : dir_.c_str();
        given.trust = trust_.empty() ? nullptr : trust_.c_str();
        return given;
    }

private:
    arena_options& flag(int flag, bool set) {
        const auto bit = static_cast<std::uint32_t>(flag);
        given_.flags = set ? given_.flags | bit : given_.flags & ~bit;
        return *this;
    }

    stillframe_arena_options given_{};
    std::string dir_, trust_;
};

/// What one region has of an arena.
struct arena_region {
    /// Its name within the arena.
    std::string name;
    /// Bytes that belong to it, whether they have memory or not.
    std::uint64_t bytes;
    /// Whether it was removed, and waits for those who hold its versions.
    bool removed;
};

/// Who has how much of an arena, about now.
struct arena_usage {
    /// Length of the arena, bytes of its own tables, and bytes that belong to no region.
    std::uint64_t bytes, tables_bytes, free_bytes;
    /// Chunks of 2 MiB that are free as a whole, and those whose pages belong to several regions.
    std::uint32_t free_chunks, small_chunks;
    /// The most regions it can have.
    std::uint32_t regions_max;
    /// Its regions, by name.
    std::vector<arena_region> regions;
};

/// Many regions in one file of fixed length, which is the bound of all of them together:
///
///     stillframe::arena pool("pool", stillframe::arena_options().bytes(1 << 30));
///     stillframe::region u("u", stillframe::options().arena(pool));  // observers open "pool/u"
///
/// Its regions and their observers go on when it is closed or destroyed, and its files stay. It can be used from several
/// threads at once, and may be moved.
class arena {
public:
#if STILLFRAME_EXCEPTIONS
    /// As `try_create`. Throws `error`.
    arena(const std::string& name, const arena_options& options) : arena(try_create(name, options).value()) {}
    /// As `try_open`. Throws `error`.
    static arena open(const std::string& name, const arena_options& options = {}) { return try_open(name, options).value(); }
    /// As `try_from_descriptor`. Throws `error`.
    static arena from_descriptor(int descriptor, const std::string& name, const arena_options& options = {}) {
        return try_from_descriptor(descriptor, name, options).value();
    }
#endif

    /// Makes an arena, or opens the one of this name that is there.
    ///
    /// Errors: `bad_option` if it is there with another length or for another number of regions, or there cannot be such an
    /// arena; `bad_name`; `untrusted`; `corrupt`; `no_space` if there is no memory for its tables; `arena_busy`.
    static result<arena> try_create(const std::string& name, const arena_options& options) {
        const auto given = options.given();
        return made(name, [&](stillframe_arena** out) { return stillframe_arena_create(name.c_str(), &given, out); });
    }

    /// Opens an arena that is there.
    ///
    /// Errors: `no_arena` if there is none, or it was never finished; those of `try_create`.
    static result<arena> try_open(const std::string& name, const arena_options& options = {}) {
        const auto given = options.given();
        return made(name, [&](stillframe_arena** out) { return stillframe_arena_open(name.c_str(), &given, out); });
    }

    /// Opens an arena over a file that was handed in as a descriptor, or makes one there if it is empty and can be written: a
    /// regular file or one in memory (memfd_create), also of large pages. Who can only read by the descriptor can only look. The
    /// descriptor stays the program's; `name` is what messages and regions call the arena. Observers of its regions and
    /// groups need `observer_options::arena`: no name leads there.
    ///
    /// Errors: `bad_argument` if there is no such descriptor; `untrusted` if it is no file; `no_arena` if it is not finished and
    /// cannot be written; those of `try_create`.
    static result<arena> try_from_descriptor(int descriptor, const std::string& name, const arena_options& options = {}) {
        const auto given = options.given();
        return made(name, [&](stillframe_arena** out) {
            return stillframe_arena_from_descriptor(descriptor, name.c_str(), &given, out);
        });
    }

    /// Its regions are found as NAME/REGION.
    const std::string& name() const noexcept { return name_; }

    /// Who has how much of it.
    ///
    /// Errors: `bad_handle` after `close`; `forked`; `corrupt`.
    result<arena_usage> try_usage() const {
        stillframe_arena_usage found{};
        if (const auto status = stillframe_arena_usage_of(handle(), &found)) return detail::failure(status);
        arena_usage usage{found.bytes,        found.tables_bytes, found.free_bytes, found.free_chunks,
                          found.small_chunks, found.regions_max,  {}};
        const auto status = stillframe_arena_regions(
            handle(),
            [](void* regions, const stillframe_arena_region* found) {
                static_cast<std::vector<arena_region>*>(regions)->push_back(
                    {found->name, found->bytes, found->removed != 0});
                return true;
            },
            &usage.regions);
        if (status) return detail::failure(status);
        return usage;
    }

    /// Ends its use by this object. Its regions and their observers go on.
    ///
    /// Errors: `forked`.
    result<void> try_close() { return detail::check(handle_.end()); }

    /// The handle of the C interface.
    stillframe_arena* handle() const noexcept { return handle_.get(); }

    /// What options of the C interface have for it. NULL would mean no arena there, so one that was closed or moved from has a
    /// handle that the library refuses.
    stillframe_arena* option() const noexcept {
        return handle() ? handle() : reinterpret_cast<stillframe_arena*>(~std::uintptr_t{0});
    }

#if STILLFRAME_EXCEPTIONS
    /// As `try_usage`. Throws `error`.
    arena_usage usage() const { return try_usage().value(); }
    /// As `try_close`. Throws `error`.
    void close() { try_close().value(); }
#endif

private:
    arena(std::string name, stillframe_arena* handle) : name_(std::move(name)), handle_(handle) {}

    template <class Make>
    static result<arena> made(const std::string& name, Make make) {
        stillframe_arena* handle = nullptr;
        if (const auto status = make(&handle)) return detail::failure(status);
        return arena(name, handle);
    }

    std::string name_;
    detail::handle<stillframe_arena, &stillframe_arena_close> handle_;
};

}  // namespace STILLFRAME_NAMESPACE
}  // namespace stillframe
