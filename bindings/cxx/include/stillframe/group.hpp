/// Groups: the ranks of a parallel program, seen as one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <stillframe.h>

#include "observer.hpp"

namespace stillframe {
inline namespace STILLFRAME_NAMESPACE {

/// One version of every rank of a group, all held. `all[rank]` is the snapshot of a rank.
class group_snapshot {
public:
    explicit group_snapshot(std::vector<snapshot> ranks) : ranks_(std::move(ranks)) {}

    /// The version, which is the same of all.
    std::uint64_t version() const noexcept { return ranks_.empty() ? 0 : ranks_.front().version(); }

    /// Number of ranks.
    std::size_t size() const noexcept { return ranks_.size(); }
    const snapshot& operator[](std::size_t rank) const noexcept { return ranks_[rank]; }
    std::vector<snapshot>::const_iterator begin() const noexcept { return ranks_.begin(); }
    std::vector<snapshot>::const_iterator end() const noexcept { return ranks_.end(); }

private:
    std::vector<snapshot> ranks_;
};

/// Whether a rank of a group is there.
enum class rank_state : std::uint32_t {
    live = STILLFRAME_RANK_LIVE,
    dead = STILLFRAME_RANK_DEAD,
    /// It has not begun.
    absent = STILLFRAME_RANK_ABSENT,
};

/// What is known of a rank.
struct rank_info {
    std::uint32_t rank;
    rank_state state;
    /// What it wrote as its process number.
    std::uint32_t pid;
    maybe_version newest;
    /// Versions it lacks that the furthest rank has.
    std::uint64_t behind;
};

/// A look at the ranks NAME/0 … NAME/N-1 of a parallel program. It can be used from several threads at once.
class group {
public:
#if STILLFRAME_EXCEPTIONS
    /// As `try_open`. Throws `error`.
    explicit group(const std::string& name, const observer_options& options = {})
        : group(try_open(name, options).value()) {}
#endif

    /// Opens a group. `wait` is for all ranks to begin and to have a version in common.
    ///
    /// Errors: `no_region` if no rank has begun, or with a wait `timeout`; `not_group` if the name is a region's; `denied`;
    /// `corrupt`.
    static result<group> try_open(const std::string& name, const observer_options& options = {}) {
        const stillframe_observer_options given = options.given();
        stillframe_group* handle = nullptr;
        if (const auto status = stillframe_group_open(name.c_str(), &given, &handle)) return detail::failure(status);
        return group(options.name_of(name), handle);
    }

    /// The group's name; if an arena is among the options, `ARENA/NAME`.
    const std::string& name() const noexcept { return name_; }

    /// Number of ranks.
    ///
    /// Errors: `bad_handle` after `close`; `forked`.
    result<std::uint32_t> try_size() const {
        std::uint32_t ranks = 0;
        if (const auto status = stillframe_group_size(handle_.get(), &ranks)) return detail::failure(status);
        return ranks;
    }

    /// Holds the newest version that every rank has.
    ///
    /// Errors: `rank_missing` if a rank has none yet; `no_common_version`. Both name the rank.
    result<group_snapshot> try_newest() const {
        return hold([&](stillframe_snapshot** out, std::uint32_t ranks) {
            return stillframe_group_newest(handle_.get(), out, ranks);
        });
    }

    /// Holds a given version of every rank.
    ///
    /// Errors: `version_gone`; `rank_missing`.
    result<group_snapshot> try_version(std::uint64_t version) const {
        return hold([&](stillframe_snapshot** out, std::uint32_t ranks) {
            return stillframe_group_version(handle_.get(), version, out, ranks);
        });
    }

    /// Holds the smallest version above `after` (any, if that is none) that every rank has, waiting for it.
    ///
    /// Errors: `timeout`, naming the slowest rank; `rank_gone` if a rank that is gone would have to publish it;
    /// `producer_gone` if all ranks ended with the same version.
    result<group_snapshot> try_next_after(maybe_version after, timeout timeout = {}) const {
        return hold([&](stillframe_snapshot** out, std::uint32_t ranks) {
            return stillframe_group_next_after(handle_.get(), detail::after_of(after), detail::ms_of(timeout), out, ranks);
        });
    }

    /// Holds the newest version above `after` that every rank has, waiting for it.
    ///
    /// Errors: as `try_next_after`.
    result<group_snapshot> try_newest_after(maybe_version after, timeout timeout = {}) const {
        return hold([&](stillframe_snapshot** out, std::uint32_t ranks) {
            return stillframe_group_newest_after(handle_.get(), detail::after_of(after), detail::ms_of(timeout), out, ranks);
        });
    }

    /// Waits until all ranks have a version above `after` and returns the newest such, without holding it.
    ///
    /// Errors: as `try_next_after`.
    result<std::uint64_t> try_wait_newer(maybe_version after, timeout timeout = {}) const {
        std::uint64_t version = 0;
        if (const auto status =
                stillframe_group_wait_newer(handle_.get(), detail::after_of(after), detail::ms_of(timeout), &version))
            return detail::failure(status);
        return version;
    }

    /// How far the ranks are, and which are alive.
    result<std::vector<rank_info>> try_ranks() const {
        auto size = try_size();
        if (!size) return size.error();
        std::vector<stillframe_rank> found(*size);
        std::uint32_t count = 0;
        if (const auto status = stillframe_group_ranks(handle_.get(), found.data(), *size, &count))
            return detail::failure(status);
        std::vector<rank_info> ranks;
        found.resize(count < found.size() ? count : found.size());
        for (const auto& rank : found)
            ranks.push_back({rank.rank, static_cast<rank_state>(rank.state), rank.pid,
                             rank.has_version ? maybe_version(rank.newest) : maybe_version(), rank.behind});
        return ranks;
    }

    /// Ends the observer of the group; its snapshots stay.
    ///
    /// Errors: `forked`.
    result<void> try_close() { return detail::check(handle_.end()); }

#if STILLFRAME_EXCEPTIONS
    /// Goes through versions that every rank has, as `observer::snapshots` does. It ends when all ranks ended with the same
    /// version; a rank that is gone before is an error, `rank_gone`, that names it.
    detail::iteration<group, group_snapshot> snapshots(timeout timeout = {}, pace pace = pace::newest,
                                                       maybe_version after = {}) const& {
        return {*this, timeout, pace, after};
    }
    detail::iteration<group, group_snapshot> snapshots(timeout = {}, pace = pace::newest,
                                                       maybe_version = {}) const&& = delete;

    // As their twins; all throw `error`.
    std::uint32_t size() const { return try_size().value(); }
    group_snapshot newest() const { return try_newest().value(); }
    group_snapshot version(std::uint64_t version) const { return try_version(version).value(); }
    group_snapshot next_after(maybe_version after, timeout timeout = {}) const {
        return try_next_after(after, timeout).value();
    }
    group_snapshot newest_after(maybe_version after, timeout timeout = {}) const {
        return try_newest_after(after, timeout).value();
    }
    std::uint64_t wait_newer(maybe_version after, timeout timeout = {}) const {
        return try_wait_newer(after, timeout).value();
    }
    std::vector<rank_info> ranks() const { return try_ranks().value(); }
    void close() { try_close().value(); }
#endif

private:
    group(std::string name, stillframe_group* handle) : name_(std::move(name)), handle_(handle) {}

    template <class Take>
    result<group_snapshot> hold(Take take) const {
        auto size = try_size();
        if (!size) return size.error();
        std::vector<stillframe_snapshot*> raw(*size, nullptr);
        if (const auto status = take(raw.data(), *size)) return detail::failure(status);
        std::vector<snapshot> ranks;
        ranks.reserve(raw.size());
        std::optional<error> failed;
        for (stillframe_snapshot* handle : raw) {
            // A group that was begun again may have fewer ranks than a moment ago.
            if (!handle) continue;
            // All are taken over, so that all are released if one cannot be described.
            auto taken = snapshot::adopt(handle);
            if (taken) ranks.push_back(std::move(*taken));
            else failed = taken.error();
        }
        if (failed) return *failed;
        return group_snapshot(std::move(ranks));
    }

    std::string name_;
    detail::handle<stillframe_group, &stillframe_group_close> handle_;
};

}  // namespace STILLFRAME_NAMESPACE
}  // namespace stillframe
