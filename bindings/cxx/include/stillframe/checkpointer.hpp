/// Checkpoints while a program runs, and what is safe in a directory of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include <stillframe.h>

#include "observer.hpp"

namespace stillframe {
inline namespace STILLFRAME_NAMESPACE {

namespace detail {

/// A time as C counts it, which knows none below 0.
inline std::uint64_t milliseconds(std::chrono::milliseconds time) {
    return time.count() > 0 ? static_cast<std::uint64_t>(time.count()) : 0;
}

}  // namespace detail

/// Which versions are saved, and how. Of `every`, `every_time`, `when` and `at_end` any one is enough for a version to be
/// saved; without them all are.
class checkpoint_options {
public:
    /// Directory of the regions; by default $STILLFRAME_DIR, else /dev/shm/stillframe-<uid>.
    checkpoint_options& dir(std::string dir) {
        dir_ = std::move(dir);
        return *this;
    }

    /// Versions whose number is a multiple of this.
    checkpoint_options& every(std::uint64_t versions) {
        given_.every = versions;
        return *this;
    }

    /// A version so long after the last.
    checkpoint_options& every_time(std::chrono::milliseconds interval) {
        given_.every_ms = detail::milliseconds(interval);
        return *this;
    }

    /// Versions for which this holds, such as `step % 100 == 0 && residual < 1e-3` with attributes of the version.
    checkpoint_options& when(std::string condition) {
        when_ = std::move(condition);
        return *this;
    }

    /// The last version when the producer ends, and the newest when the checkpointer is stopped.
    checkpoint_options& at_end(bool at_end = true) { return flag(STILLFRAME_CHECKPOINT_AT_END, at_end); }

    /// Versions that come faster than they can be saved are held, up to `held` and `held_bytes`, and saved one after the
    /// other; by default the newest comes first, and those in between are left out.
    checkpoint_options& all(bool all = true) { return flag(STILLFRAME_CHECKPOINT_ALL, all); }

    /// It ends with the first version.
    checkpoint_options& once(bool once = true) { return flag(STILLFRAME_CHECKPOINT_ONCE, once); }

    /// How many of the newest checkpoints stay; 3 by default.
    checkpoint_options& keep(unsigned newest) {
        given_.keep = newest;
        return *this;
    }

    /// Those whose version is a multiple of this stay for ever.
    checkpoint_options& keep_every(std::uint64_t versions) {
        given_.keep_every = versions;
        return *this;
    }

    /// "zstd" or "lz4"; by default files of plain bytes.
    checkpoint_options& compress(std::string codec) {
        compress_ = std::move(codec);
        return *this;
    }

    /// Bytes of a chunk, which is a file, about; by default 1/2048 of the checkpoint or less, but 512 KiB to 32 MiB.
    checkpoint_options& chunk_bytes(std::uint64_t bytes) {
        given_.chunk_bytes = bytes;
        return *this;
    }

    /// Threads that write; by default as many as there are processors, at most 4.
    checkpoint_options& threads(unsigned threads) {
        given_.threads = threads;
        return *this;
    }

    /// How far the threads that save step back behind others that want the processors: their nice value, 0 to 19; 10 by default.
    checkpoint_options& nice(unsigned nice) {
        given_.nice = nice == 0 ? -1 : static_cast<std::int32_t>(nice);
        return *this;
    }

    /// With `all`: most versions held at once; 8 by default.
    checkpoint_options& held(unsigned versions) {
        given_.held = versions;
        return *this;
    }

    /// With `all`: most bytes that held versions may take; by default a quarter of the memory that is available.
    checkpoint_options& held_bytes(std::uint64_t bytes) {
        given_.held_bytes = bytes;
        return *this;
    }

    /// How long to wait for the region to appear; not at all by default.
    checkpoint_options& wait(std::chrono::milliseconds wait) {
        given_.wait_ms = detail::milliseconds(wait);
        return *this;
    }

    /// How long to wait for the next producer when one is gone; not at all by default, which ends the checkpointer.
    checkpoint_options& follow(std::chrono::milliseconds follow) {
        given_.follow_ms = detail::milliseconds(follow);
        return *this;
    }

    /// Whose directory of checkpoints is written into, besides the process's user's and root's: "own", "user:NUMBER",
    /// "group:NUMBER" or "any"; by default $STILLFRAME_TRUST, else "own".
    checkpoint_options& trust(std::string trust) {
        trust_ = std::move(trust);
        return *this;
    }

    /// As the C interface wants it; valid as long as these options.
    stillframe_checkpoint_options given() const {
        stillframe_checkpoint_options given = given_;
        given.dir = dir_.empty() ? nullptr : dir_.c_str();
        given.when = when_.empty() ? nullptr : when_.c_str();
        given.compress = compress_.empty() ? nullptr : compress_.c_str();
        given.trust = trust_.empty() ? nullptr : trust_.c_str();
        return given;
    }

private:
    checkpoint_options& flag(int flag, bool set) {
        const auto bit = static_cast<std::uint32_t>(flag);
        given_.flags = set ? given_.flags | bit : given_.flags & ~bit;
        return *this;
    }

    stillframe_checkpoint_options given_{};
    std::string dir_, when_, compress_, trust_;
};

/// Whether a checkpointer is at work.
enum class checkpoint_state : std::uint32_t {
    running = STILLFRAME_CHECKPOINT_RUNNING,
    /// It ended, and what it had to save is safe.
    ended = STILLFRAME_CHECKPOINT_ENDED,
    /// It ended, and something that it had to save is not safe.
    failed = STILLFRAME_CHECKPOINT_FAILED,
};

/// What a checkpointer has done.
struct checkpoint_status {
    checkpoint_state state;
    /// The newest version that is safe: on disk, whole, to be recovered.
    maybe_version newest_safe;
    /// Versions saved; to be saved, but gone before they could be; being saved.
    std::uint64_t saved, missed, saving;
    /// Bytes written, and not written since files of the checkpoint before were linked.
    std::uint64_t written_bytes, linked_bytes;
    /// What went wrong last, until it went well again; else empty.
    std::string error;
};

/// Saves versions of a region or group as checkpoints, as they come, in threads of this process. It can be used from several
/// threads. It is stopped at the end of its life.
class checkpointer {
public:
#if STILLFRAME_EXCEPTIONS
    /// As `try_start`. Throws `error`.
    checkpointer(const std::string& name, const std::string& to, const checkpoint_options& options = {})
        : checkpointer(try_start(name, to, options).value()) {}
#endif

    /// Begins to save versions of a region or group into the directory `to`, which is made if it is not there, and is this
    /// checkpointer's alone until it ends.
    ///
    /// Errors: `no_region`, without a wait; `locked` if somebody else writes into the directory; `read_only`;
    /// `other_region`; `bad_option`; `expression`, which marks the place.
    static result<checkpointer> try_start(const std::string& name, const std::string& to,
                                          const checkpoint_options& options = {}) {
        const auto given = options.given();
        stillframe_checkpointer* handle = nullptr;
        if (const auto status = stillframe_checkpoint_start(name.c_str(), to.c_str(), &given, &handle))
            return detail::failure(status);
        return checkpointer(handle);
    }

    /// What it has done, and is doing.
    ///
    /// Errors of this and the following: `bad_handle` after `stop`; `forked`.
    result<checkpoint_status> try_status() const {
        stillframe_checkpoint_info info{};
        if (const auto status = stillframe_checkpoint_status(handle_.get(), &info)) return detail::failure(status);
        return status_of(info);
    }

    /// Waits until a version is safe, or the time is over, or it has ended without it; says whether it is, or was until newer
    /// ones took its place.
    result<bool> try_wait_safe(std::uint64_t version, std::chrono::milliseconds timeout) const {
        bool safe = false;
        const auto limit = detail::milliseconds(timeout);
        if (const auto status = stillframe_checkpoint_wait_safe(handle_.get(), version, limit, &safe))
            return detail::failure(status);
        return safe;
    }

    /// Waits until that version or a newer one is safe, as `try_wait_safe` does, and says which: what was done up to it need
    /// not be done again then.
    result<maybe_version> try_wait_safe_from(std::uint64_t version, std::chrono::milliseconds timeout) const {
        bool found = false;
        std::uint64_t safe = 0;
        const auto limit = detail::milliseconds(timeout);
        if (const auto status = stillframe_checkpoint_wait_safe_from(handle_.get(), version, limit, &found, &safe))
            return detail::failure(status);
        return found ? maybe_version(safe) : maybe_version();
    }

    /// Takes no more versions, with `at_end` but the newest, waits until those that are held are safe, and ends.
    ///
    /// Errors: what ended it, if that was an error.
    result<checkpoint_status> try_stop() {
        stillframe_checkpoint_info info{};
        info.error = "";
        if (const auto status = stillframe_checkpoint_stop(handle_.release(), &info)) return detail::failure(status);
        return status_of(info);
    }

#if STILLFRAME_EXCEPTIONS
    // As their twins; all throw `error`.
    checkpoint_status status() const { return try_status().value(); }
    bool wait_safe(std::uint64_t version, std::chrono::milliseconds timeout) const {
        return try_wait_safe(version, timeout).value();
    }
    maybe_version wait_safe_from(std::uint64_t version, std::chrono::milliseconds timeout) const {
        return try_wait_safe_from(version, timeout).value();
    }
    checkpoint_status stop() { return try_stop().value(); }
#endif

private:
    explicit checkpointer(stillframe_checkpointer* handle) : handle_(handle) {}

    static stillframe_status end(stillframe_checkpointer* handle) { return stillframe_checkpoint_stop(handle, nullptr); }

    static checkpoint_status status_of(const stillframe_checkpoint_info& info) {
        return {static_cast<checkpoint_state>(info.state),
                info.has_safe ? maybe_version(info.newest_safe) : maybe_version(),
                info.saved,
                info.missed,
                info.saving,
                info.written_bytes,
                info.linked_bytes,
                info.error};
    }

    detail::handle<stillframe_checkpointer, &checkpointer::end> handle_;
};

/// Whether a version is safe in a directory of checkpoints: it is there, whole, on disk, and can be recovered. For any
/// process, whether a checkpointer runs or not.
///
/// Errors of this and the following: those of the environment if the directory cannot be read.
inline result<bool> try_is_safe(const std::string& dir, std::uint64_t version) {
    bool safe = false;
    if (const auto status = stillframe_is_safe(dir.c_str(), version, &safe)) return detail::failure(status);
    return safe;
}

/// The newest version that is safe in a directory.
inline result<maybe_version> try_newest_safe(const std::string& dir) {
    bool found = false;
    std::uint64_t version = 0;
    if (const auto status = stillframe_newest_safe(dir.c_str(), &found, &version)) return detail::failure(status);
    return found ? maybe_version(version) : maybe_version();
}

/// Waits until a version is safe in a directory, or the time is over; says whether it is. One that the checkpointer leaves out
/// never is.
inline result<bool> try_wait_safe(const std::string& dir, std::uint64_t version, std::chrono::milliseconds timeout) {
    bool safe = false;
    const auto limit = detail::milliseconds(timeout);
    if (const auto status = stillframe_wait_safe(dir.c_str(), version, limit, &safe)) return detail::failure(status);
    return safe;
}

/// Waits until that version or a newer one is safe in a directory, or the time is over, and says which: what was done up to it
/// need not be done again then.
inline result<maybe_version> try_wait_safe_from(const std::string& dir, std::uint64_t version,
                                                std::chrono::milliseconds timeout) {
    bool found = false;
    std::uint64_t safe = 0;
    const auto limit = detail::milliseconds(timeout);
    if (const auto status = stillframe_wait_safe_from(dir.c_str(), version, limit, &found, &safe))
        return detail::failure(status);
    return found ? maybe_version(safe) : maybe_version();
}

#if STILLFRAME_EXCEPTIONS
// As their twins; all throw `error`.
inline bool is_safe(const std::string& dir, std::uint64_t version) { return try_is_safe(dir, version).value(); }
inline maybe_version newest_safe(const std::string& dir) { return try_newest_safe(dir).value(); }
inline bool wait_safe(const std::string& dir, std::uint64_t version, std::chrono::milliseconds timeout) {
    return try_wait_safe(dir, version, timeout).value();
}
inline maybe_version wait_safe_from(const std::string& dir, std::uint64_t version, std::chrono::milliseconds timeout) {
    return try_wait_safe_from(dir, version, timeout).value();
}
#endif

}  // namespace STILLFRAME_NAMESPACE
}  // namespace stillframe
