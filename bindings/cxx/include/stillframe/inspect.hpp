/// Looking after regions: what there is, and what can go.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <stillframe.h>

#include "observer.hpp"

namespace stillframe {
inline namespace STILLFRAME_NAMESPACE {

/// Whether a region has a producer, and can be read.
enum class region_state : std::uint32_t {
    live = STILLFRAME_LIVE,
    /// Its producer is gone; the next one of the name goes on from its last version.
    dead = STILLFRAME_DEAD,
    /// Its creation was never finished.
    incomplete = STILLFRAME_INCOMPLETE,
    /// It cannot be read, for the reason in `region_info::problem`.
    unreadable = STILLFRAME_UNREADABLE,
};

/// What can be said of a region from outside.
struct region_info {
    std::string name;
    region_state state;
    /// What its producer wrote as its process number.
    std::uint32_t pid;
    maybe_version newest;
    /// Versions kept though nobody holds them.
    std::uint32_t keep;
    /// Bytes of memory behind its files, and the most its versions may take (0: no bound).
    std::uint64_t allocated_bytes, bound_bytes;
    /// Versions published, and left out.
    std::uint64_t published, skipped;
    std::string problem;
    /// Since when its producer has been waiting for room, in nanoseconds since 1970; 0 if it does not. `holders` says for whom.
    std::uint64_t waiting_ns;
    /// When its producer left out the first publish since the newest version (0: it did not), and how many since then.
    std::uint64_t skipping_ns, skipping;
};

/// A process, or as much as can be known of it, that holds versions; or another enclave, in which somebody does.
struct holder {
    /// Process number, name and state of the program (the kernel's letter, 'T' is stopped); 0, empty and '?' of all that
    /// belong to other users, and of an enclave.
    std::int32_t pid;
    std::string command;
    char state;
    /// The oldest version it holds.
    maybe_version version;
    /// For how long it has been holding one, in milliseconds; 0 of an enclave, which does not say that.
    std::uint64_t age_ms;
    /// How many versions it holds.
    std::uint64_t versions;
    /// Name of the enclave, if it is one, else empty.
    std::string enclave;
};

namespace detail {

/// A visitor of lines of text that keeps them.
inline bool keep_line(void* lines, const char* line) {
    static_cast<std::vector<std::string>*>(lines)->emplace_back(line);
    return true;
}

inline const char* dir_or_default(const std::string& dir) { return dir.empty() ? nullptr : dir.c_str(); }

}  // namespace detail

/// The version of the library, such as "0.1.0".
inline std::string library_version() { return stillframe_library_version(); }

/// The regions in a directory; empty for the default one.
///
/// Errors: those of the environment.
inline result<std::vector<region_info>> try_regions(const std::string& dir = {}) {
    std::vector<region_info> regions;
    const auto status = stillframe_list(
        detail::dir_or_default(dir),
        [](void* context, const stillframe_region_info* info) {
            static_cast<std::vector<region_info>*>(context)->push_back(
                {info->name, static_cast<region_state>(info->state), info->pid,
                 info->has_version ? maybe_version(info->newest) : maybe_version(), info->keep, info->allocated_bytes,
                 info->bound_bytes, info->published, info->skipped, info->problem, info->waiting_ns, info->skipping_ns,
                 info->skipping});
            return true;
        },
        &regions);
    if (status) return detail::failure(status);
    return regions;
}

/// Removes a region and returns the bytes of memory that gives back. Observers keep what they hold. With `force` a living
/// producer loses its files, too.
///
/// Errors: `in_use` while its producer lives, without `force`; `no_region`.
inline result<std::uint64_t> try_remove_region(const std::string& name, bool force = false, const std::string& dir = {}) {
    std::uint64_t freed_bytes = 0;
    if (const auto status = stillframe_remove_region(detail::dir_or_default(dir), name.c_str(), force, &freed_bytes))
        return detail::failure(status);
    return freed_bytes;
}

/// Removes every region whose producer is gone and that nobody holds, and returns how many.
///
/// Errors: those of the environment.
inline result<std::uint32_t> try_collect(const std::string& dir = {}) {
    std::uint32_t removed = 0;
    if (const auto status = stillframe_collect(detail::dir_or_default(dir), &removed)) return detail::failure(status);
    return removed;
}

/// Who holds versions of a region, each process once, longest first, and then other enclaves.
///
/// Errors: `no_region`; `denied`; `corrupt`.
inline result<std::vector<holder>> try_holders(const std::string& name, const std::string& dir = {}) {
    std::vector<holder> holders;
    const auto status = stillframe_holders(
        detail::dir_or_default(dir), name.c_str(),
        [](void* context, const stillframe_holder* found) {
            static_cast<std::vector<holder>*>(context)->push_back(
                {found->pid, found->command, found->state,
                 found->has_version ? maybe_version(found->version) : maybe_version(), found->age_ms, found->versions,
                 found->enclave ? found->enclave : ""});
            return true;
        },
        &holders);
    if (status) return detail::failure(status);
    return holders;
}

/// Looks for damage in a region, and returns what it finds in lines that name file and offset. None means that all is sound.
///
/// Errors: `no_region`; `denied`.
inline result<std::vector<std::string>> try_verify(const std::string& name, const std::string& dir = {}) {
    std::vector<std::string> lines;
    if (const auto status = stillframe_verify(detail::dir_or_default(dir), name.c_str(), &detail::keep_line, &lines))
        return detail::failure(status);
    return lines;
}

/// What this machine and its limits allow, in lines: which trackers work, and what to change.
///
/// Errors: `bad_argument`.
inline result<std::vector<std::string>> try_diagnose(const std::string& dir = {}) {
    std::vector<std::string> lines;
    if (const auto status = stillframe_diagnose(detail::dir_or_default(dir), &detail::keep_line, &lines))
        return detail::failure(status);
    return lines;
}

#if STILLFRAME_EXCEPTIONS
// As their twins; all throw `error`.
inline std::vector<region_info> regions(const std::string& dir = {}) { return try_regions(dir).value(); }
inline std::uint64_t remove_region(const std::string& name, bool force = false, const std::string& dir = {}) {
    return try_remove_region(name, force, dir).value();
}
inline std::vector<holder> holders(const std::string& name, const std::string& dir = {}) {
    return try_holders(name, dir).value();
}
inline std::vector<std::string> verify(const std::string& name, const std::string& dir = {}) {
    return try_verify(name, dir).value();
}
inline std::vector<std::string> diagnose(const std::string& dir = {}) { return try_diagnose(dir).value(); }
inline std::uint32_t collect(const std::string& dir = {}) { return try_collect(dir).value(); }
#endif

}  // namespace STILLFRAME_NAMESPACE
}  // namespace stillframe
