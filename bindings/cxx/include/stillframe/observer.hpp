/// Observers: how other programs look.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <stillframe.h>

#include "arena.hpp"
#include "error.hpp"
#include "snapshot.hpp"

namespace stillframe {
inline namespace STILLFRAME_NAMESPACE {

/// How an observer, or one of a group, is opened.
class observer_options {
public:
    /// Directory of the regions; by default $STILLFRAME_DIR, else /dev/shm/stillframe-<uid>.
    observer_options& dir(std::string dir) {
        dir_ = std::move(dir);
        return *this;
    }

    /// How long to wait for the region to appear and to have a first version; not at all by default.
    observer_options& wait(std::chrono::milliseconds wait) {
        given_.wait_ms = wait.count() > 0 ? static_cast<std::uint64_t>(wait.count()) : 0;
        return *this;
    }

    /// Enters all pages of a variable in the page tables when it is first viewed, by so many threads, the calling one included,
    /// which take them out in the end: for programs that read all of a large variable. Without it, or with 0, pages are
    /// entered as they are first read. Not for groups.
    observer_options& populate(std::uint64_t threads) {
        given_.populate_threads = threads;
        return *this;
    }

    /// Whose directories and files are taken for good, besides those of the process's user and of root: "own", "user:NUMBER",
    /// "group:NUMBER" or "any"; by default $STILLFRAME_TRUST, else "own" in the directory that is the user's by default, and
    /// "any" in one that is named.
    observer_options& trust(std::string trust) {
        trust_ = std::move(trust);
        return *this;
    }

    /// Looks into an arena that this process has open, by the names that regions and groups have within it. It is needed for
    /// arenas that were handed in as descriptors; what lies in others is found by names as ARENA/REGION and ARENA/GROUP.
    observer_options& arena(const stillframe::arena& arena) {
        given_.arena = arena.option();
        arena_ = arena.name();
        return *this;
    }

    /// Takes of the machine only what others leave, and where nothing is left over `share` of one processor; at most so many bytes in
    /// a second (0: any number); on these processors, such as "60-63,127". It is of the whole process, which is to look and do
    /// nothing else, and lasts until its end.
    observer_options& polite(double share = 0.02, std::uint64_t bytes_per_s = 0, std::string processors = {}) {
        is_polite_ = true;
        polite_.share = share;
        polite_.bytes_per_s = bytes_per_s;
        processors_ = std::move(processors);
        return *this;
    }

    /// The name of the region or group that these options make of a name.
    std::string name_of(const std::string& name) const { return arena_.empty() ? name : arena_ + '/' + name; }

    /// As the C interface wants it; valid as long as these options.
    stillframe_observer_options given() const {
        stillframe_observer_options given = given_;
        given.dir = dir_.empty() ? nullptr : dir_.c_str();
        given.trust = trust_.empty() ? nullptr : trust_.c_str();
        polite_.processors = processors_.empty() ? nullptr : processors_.c_str();
        given.polite = is_polite_ ? &polite_ : nullptr;
        return given;
    }

private:
    stillframe_observer_options given_{};
    // Its text is where these options are by now.
    mutable stillframe_polite polite_{};
    bool is_polite_ = false;
    std::string dir_, trust_, arena_, processors_;
};

/// A number of a version, or none.
using maybe_version = std::optional<std::uint64_t>;
/// How long to wait; for ever if that is not said.
using timeout = std::optional<std::chrono::milliseconds>;

/// Which versions an iteration goes through.
enum class pace {
    /// Always the newest, leaving out those that came in between.
    newest,
    /// Each that still exists, in turn.
    every,
};

namespace detail {

/// A number of a version as the C interface wants it; of numbers that it cannot express, the largest it can.
inline std::int64_t after_of(const maybe_version& version) {
    constexpr auto most = std::numeric_limits<std::int64_t>::max();
    if (!version) return -1;
    return *version > static_cast<std::uint64_t>(most) ? most : static_cast<std::int64_t>(*version);
}

inline std::int64_t ms_of(const timeout& timeout) {
    if (!timeout) return -1;
    return timeout->count() > 0 ? static_cast<std::int64_t>(timeout->count()) : 0;
}

#if STILLFRAME_EXCEPTIONS
/// Versions as they come, for a `for` loop.
template <class Observer, class Item>
class iteration {
public:
    struct sentinel {};

    class iterator {
    public:
        using iterator_category = std::input_iterator_tag;
        using value_type = Item;
        using difference_type = std::ptrdiff_t;
        using pointer = Item*;
        using reference = Item&;

        explicit iterator(iteration* all) : all_(all) {}
        Item& operator*() const { return *all_->item_; }
        Item* operator->() const { return &*all_->item_; }
        iterator& operator++() {
            all_->next();
            return *this;
        }
        void operator++(int) { all_->next(); }
        friend bool operator==(const iterator& left, sentinel) { return left.is_over(); }
        friend bool operator!=(const iterator& left, sentinel right) { return !(left == right); }

    private:
        bool is_over() const { return !all_->item_; }

        iteration* all_;
    };

    iteration(const Observer& observer, timeout timeout, pace pace, maybe_version after)
        : observer_(observer), timeout_(timeout), pace_(pace), last_(after) {}

    iterator begin() {
        next();
        return iterator(this);
    }
    sentinel end() const { return {}; }

private:
    void next() {
        // Nothing is held while waiting.
        item_.reset();
        auto found = pace_ == pace::every ? observer_.try_next_after(last_, timeout_)
                                          : observer_.try_newest_after(last_, timeout_);
        if (!found) {
            const auto status = found.error().status();
            if (status == status::timeout || status == status::producer_gone) return;
            throw found.error();
        }
        last_ = found->version();
        item_.emplace(std::move(*found));
    }

    const Observer& observer_;
    timeout timeout_;
    pace pace_;
    maybe_version last_;
    std::optional<Item> item_;
};
#endif

}  // namespace detail

/// A version that exists.
struct version_info {
    std::uint64_t version;
    /// When it was published, in nanoseconds since 1970.
    std::uint64_t published_ns;
    /// Pages that were written since the version before, and of all variables.
    std::uint64_t dirty_pages, total_pages;
    /// Whether it is on its way out: those who hold it keep it, but nobody else can get it.
    bool retiring;
};

/// A look at a region. Many may exist, in any process, and come and go as they like. It holds nothing but its snapshots,
/// which may outlive it, and can be used from several threads at once.
class observer {
public:
#if STILLFRAME_EXCEPTIONS
    /// As `try_open`. Throws `error`.
    explicit observer(const std::string& name, const observer_options& options = {})
        : observer(try_open(name, options).value()) {}
#endif

    /// Opens an observer on a region: `heat`, or for a rank of a group `heat/0`.
    ///
    /// Errors: `no_region`, or with a wait `timeout`; `denied`; `is_group` if the name is a group's; `bad_option`;
    /// `corrupt`.
    static result<observer> try_open(const std::string& name, const observer_options& options = {}) {
        const stillframe_observer_options given = options.given();
        stillframe_observer* handle = nullptr;
        if (const auto status = stillframe_open(name.c_str(), &given, &handle)) return detail::failure(status);
        return observer(options.name_of(name), handle);
    }

    /// The region's name.
    const std::string& name() const noexcept { return name_; }

    /// Whether the region has a living producer.
    ///
    /// Errors: `bad_handle` after `close`; `forked`.
    result<bool> try_producer_alive() const {
        bool alive = false;
        if (const auto status = stillframe_producer_alive(handle_.get(), &alive)) return detail::failure(status);
        return alive;
    }

    /// Holds the newest version.
    ///
    /// Errors: `no_version` if nothing was published yet.
    result<snapshot> try_newest() const {
        return hold([&](stillframe_snapshot** out) { return stillframe_newest(handle_.get(), out); });
    }

    /// Holds a given version.
    ///
    /// Errors: `version_gone` if it is not, or no longer, there.
    result<snapshot> try_version(std::uint64_t version) const {
        return hold([&](stillframe_snapshot** out) { return stillframe_version(handle_.get(), version, out); });
    }

    /// Holds the smallest version above `after` (any, if that is none), waiting for it.
    ///
    /// Errors: `timeout`; `producer_gone` if nobody will publish it.
    result<snapshot> try_next_after(maybe_version after, timeout timeout = {}) const {
        return hold([&](stillframe_snapshot** out) {
            return stillframe_next_after(handle_.get(), detail::after_of(after), detail::ms_of(timeout), out);
        });
    }

    /// Holds the newest version above `after`, skipping those in between, waiting for it.
    ///
    /// Errors: as `try_next_after`.
    result<snapshot> try_newest_after(maybe_version after, timeout timeout = {}) const {
        return hold([&](stillframe_snapshot** out) {
            return stillframe_newest_after(handle_.get(), detail::after_of(after), detail::ms_of(timeout), out);
        });
    }

    /// Waits until the newest version is above `after` and returns its number, without holding it.
    ///
    /// Errors: as `try_next_after`.
    result<std::uint64_t> try_wait_newer(maybe_version after, timeout timeout = {}) const {
        std::uint64_t version = 0;
        if (const auto status =
                stillframe_wait_newer(handle_.get(), detail::after_of(after), detail::ms_of(timeout), &version))
            return detail::failure(status);
        return version;
    }

    /// The versions that exist, ascending.
    result<std::vector<version_info>> try_versions() const {
        std::vector<stillframe_version_info> found(8);
        for (std::size_t count = 0;;) {
            if (const auto status = stillframe_versions(handle_.get(), found.data(), found.size(), &count))
                return detail::failure(status);
            const bool all = count <= found.size();
            found.resize(count);
            if (all) break;
        }
        std::vector<version_info> versions;
        for (const auto& info : found)
            versions.push_back({info.version, info.published_ns, info.dirty_pages, info.total_pages, info.retiring != 0});
        return versions;
    }

    /// Ends the observer; its snapshots stay.
    ///
    /// Errors: `forked`.
    result<void> try_close() { return detail::check(handle_.end()); }

#if STILLFRAME_EXCEPTIONS
    /// Goes through versions as they come, until the producer is gone or nothing came for `timeout`:
    ///
    ///     for (auto& snapshot : observer.snapshots(5s)) …
    ///
    /// Each is released before the next is waited for, unless it is moved away. Use the range once. Throws `error`.
    detail::iteration<observer, snapshot> snapshots(timeout timeout = {}, pace pace = pace::newest,
                                                    maybe_version after = {}) const& {
        return {*this, timeout, pace, after};
    }
    detail::iteration<observer, snapshot> snapshots(timeout = {}, pace = pace::newest, maybe_version = {}) const&& = delete;

    // As their twins; all throw `error`.
    bool producer_alive() const { return try_producer_alive().value(); }
    snapshot newest() const { return try_newest().value(); }
    snapshot version(std::uint64_t version) const { return try_version(version).value(); }
    snapshot next_after(maybe_version after, timeout timeout = {}) const { return try_next_after(after, timeout).value(); }
    snapshot newest_after(maybe_version after, timeout timeout = {}) const {
        return try_newest_after(after, timeout).value();
    }
    std::uint64_t wait_newer(maybe_version after, timeout timeout = {}) const {
        return try_wait_newer(after, timeout).value();
    }
    std::vector<version_info> versions() const { return try_versions().value(); }
    void close() { try_close().value(); }
#endif

private:
    observer(std::string name, stillframe_observer* handle) : name_(std::move(name)), handle_(handle) {}

    template <class Take>
    static result<snapshot> hold(Take take) {
        stillframe_snapshot* raw = nullptr;
        if (const auto status = take(&raw)) return detail::failure(status);
        return snapshot::adopt(raw);
    }

    std::string name_;
    detail::handle<stillframe_observer, &stillframe_observer_close> handle_;
};

}  // namespace STILLFRAME_NAMESPACE
}  // namespace stillframe
