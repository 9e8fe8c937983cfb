/// What can go wrong, and the two ways of learning of it: exceptions and results.
#pragma once

#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include <stillframe.h>

#include "language.hpp"

namespace stillframe {
inline namespace STILLFRAME_NAMESPACE {

/// What happened. The numbers are those of the C interface and never change.
enum class status : std::int32_t {
    ok = STILLFRAME_OK,
    bad_handle = STILLFRAME_BAD_HANDLE,
    bad_argument = STILLFRAME_BAD_ARGUMENT,
    busy = STILLFRAME_BUSY,
    bad_name = STILLFRAME_BAD_NAME,
    bad_option = STILLFRAME_BAD_OPTION,
    not_increasing = STILLFRAME_NOT_INCREASING,
    unknown_variable = STILLFRAME_UNKNOWN_VARIABLE,
    variable_exists = STILLFRAME_VARIABLE_EXISTS,
    wrong_dtype = STILLFRAME_WRONG_DTYPE,
    wrong_shape = STILLFRAME_WRONG_SHAPE,
    wrong_kind = STILLFRAME_WRONG_KIND,
    out_of_range = STILLFRAME_OUT_OF_RANGE,
    different_regions = STILLFRAME_DIFFERENT_REGIONS,
    forked = STILLFRAME_FORKED,
    no_memory_there = STILLFRAME_NO_MEMORY_THERE,
    unknown_attribute = STILLFRAME_UNKNOWN_ATTRIBUTE,
    is_group = STILLFRAME_IS_GROUP,
    not_group = STILLFRAME_NOT_GROUP,
    not_contiguous = STILLFRAME_NOT_CONTIGUOUS,
    limit = STILLFRAME_LIMIT,
    is_pinned = STILLFRAME_IS_PINNED,
    written = STILLFRAME_WRITTEN,
    in_use = STILLFRAME_IN_USE,
    no_region = STILLFRAME_NO_REGION,
    denied = STILLFRAME_DENIED,
    no_version = STILLFRAME_NO_VERSION,
    version_gone = STILLFRAME_VERSION_GONE,
    timeout = STILLFRAME_TIMEOUT,
    producer_gone = STILLFRAME_PRODUCER_GONE,
    no_space = STILLFRAME_NO_SPACE,
    bound = STILLFRAME_BOUND,
    no_slot = STILLFRAME_NO_SLOT,
    no_mappings = STILLFRAME_NO_MAPPINGS,
    no_files = STILLFRAME_NO_FILES,
    foreign_pages = STILLFRAME_FOREIGN_PAGES,
    no_tracker = STILLFRAME_NO_TRACKER,
    system = STILLFRAME_SYSTEM,
    rank_missing = STILLFRAME_RANK_MISSING,
    rank_gone = STILLFRAME_RANK_GONE,
    no_common_version = STILLFRAME_NO_COMMON_VERSION,
    survives = STILLFRAME_SURVIVES,
    staged = STILLFRAME_STAGED,
    untrusted = STILLFRAME_UNTRUSTED,
    arena_full = STILLFRAME_ARENA_FULL,
    no_arena = STILLFRAME_NO_ARENA,
    arena_busy = STILLFRAME_ARENA_BUSY,
    mixed_runs = STILLFRAME_MIXED_RUNS,
    child_gone = STILLFRAME_CHILD_GONE,
    no_broker = STILLFRAME_NO_BROKER,
    broker = STILLFRAME_BROKER,
    corrupt = STILLFRAME_CORRUPT,
    internal = STILLFRAME_INTERNAL,
    other_region = STILLFRAME_OTHER_REGION,
    saving = STILLFRAME_SAVING,
    expression = STILLFRAME_EXPRESSION,
    uncovered = STILLFRAME_UNCOVERED,
    nothing_recovered = STILLFRAME_NOTHING_RECOVERED,
    per_rank = STILLFRAME_PER_RANK,
    locked = STILLFRAME_LOCKED,
    contradicts = STILLFRAME_CONTRADICTS,
    read_only = STILLFRAME_READ_ONLY,
    vanished = STILLFRAME_VANISHED,
    not_synced = STILLFRAME_NOT_SYNCED,
    cancelled = STILLFRAME_CANCELLED,
    no_checkpoint = STILLFRAME_NO_CHECKPOINT,
    no_such_version = STILLFRAME_NO_SUCH_VERSION,
    no_locks = STILLFRAME_NO_LOCKS,
    no_store = STILLFRAME_NO_STORE,
    not_readable = STILLFRAME_NOT_READABLE,
    removed = STILLFRAME_REMOVED,
    foreign_format = STILLFRAME_FOREIGN_FORMAT,
    damaged = STILLFRAME_DAMAGED,
    drepl_text = STILLFRAME_DREPL_TEXT,
    drepl_unknown_view = STILLFRAME_DREPL_UNKNOWN_VIEW,
    drepl_datasets = STILLFRAME_DREPL_DATASETS,
    drepl_unplannable = STILLFRAME_DREPL_UNPLANNABLE,
    drepl_missing = STILLFRAME_DREPL_MISSING,
    drepl_length = STILLFRAME_DREPL_LENGTH,
    object_other_text = STILLFRAME_OBJECT_OTHER_TEXT,
    object_not_writable = STILLFRAME_OBJECT_NOT_WRITABLE,
    object_overlap = STILLFRAME_OBJECT_OVERLAP,
    object_refused = STILLFRAME_OBJECT_REFUSED,
    object_variable = STILLFRAME_OBJECT_VARIABLE,
    object_greatest_number = STILLFRAME_OBJECT_GREATEST_NUMBER,
    object_not_accepted = STILLFRAME_OBJECT_NOT_ACCEPTED,
    no_object = STILLFRAME_NO_OBJECT,
    object_lost = STILLFRAME_OBJECT_LOST,
    object_ended = STILLFRAME_OBJECT_ENDED,
    object_locked = STILLFRAME_OBJECT_LOCKED,
    object_interrupted = STILLFRAME_OBJECT_INTERRUPTED,
    object_removed = STILLFRAME_OBJECT_REMOVED,
    no_runtime = STILLFRAME_NO_RUNTIME,
    object_no_memory = STILLFRAME_OBJECT_NO_MEMORY,
};

/// Which of four things happened.
enum class family {
    /// The calling program asked for something that makes no sense.
    misuse,
    /// The machine, its limits or another process are in the way.
    environment,
    /// Shared files hold something that no healthy producer writes.
    corrupt,
    /// A defect of Stillframe.
    internal,
};

/// The name of a status, such as "NOT_INCREASING".
inline const char* name(status status) noexcept { return stillframe_status_name(static_cast<std::int32_t>(status)); }

/// The family of a status, by its number.
inline family family_of(status status) noexcept {
    // From 1000 on they are about checkpoints, from 2000 on about layouts, from 3000 on about objects, with the same hundreds.
    const auto number = static_cast<std::int32_t>(status) % 1000;
    if (number < 100) return family::misuse;
    if (number < 200) return family::environment;
    return number < 300 ? family::corrupt : family::internal;
}

/// What went wrong: `what()` says what happened, where, and what to do next. No error leaves a region or a snapshot half
/// changed.
class error : public std::runtime_error {
public:
    error(stillframe::status status, const std::string& text) : std::runtime_error(text), status_(status) {}

    /// What happened, to be decided on.
    stillframe::status status() const noexcept { return status_; }

    /// Which of four things happened.
    stillframe::family family() const noexcept { return family_of(status_); }

private:
    stillframe::status status_;
};

/// A value, or the error that was in its way. What `try_…` functions return.
template <class T>
class [[nodiscard]] result {
public:
    result(T value) : content_(std::in_place_index<0>, std::move(value)) {}
    result(stillframe::error error) : content_(std::in_place_index<1>, std::move(error)) {}

    /// Whether there is a value.
    bool has_value() const noexcept { return content_.index() == 0; }
    explicit operator bool() const noexcept { return has_value(); }

    /// The value, which has to be there.
    T& operator*() & noexcept { return *std::get_if<0>(&content_); }
    const T& operator*() const& noexcept { return *std::get_if<0>(&content_); }
    T&& operator*() && noexcept { return std::move(*std::get_if<0>(&content_)); }
    T* operator->() noexcept { return std::get_if<0>(&content_); }
    const T* operator->() const noexcept { return std::get_if<0>(&content_); }

    /// The error, which has to be there.
    const stillframe::error& error() const noexcept { return *std::get_if<1>(&content_); }

#if STILLFRAME_EXCEPTIONS
    /// The value, or the error as an exception.
    T value() && {
        if (!has_value()) throw error();
        return std::move(**this);
    }
#endif

private:
    std::variant<T, stillframe::error> content_;
};

/// Success, or the error that was in its way.
template <>
class [[nodiscard]] result<void> {
public:
    result() = default;
    result(stillframe::error error) : content_(std::move(error)) {}

    /// Whether there is no error.
    bool has_value() const noexcept { return content_.index() == 0; }
    explicit operator bool() const noexcept { return has_value(); }

    /// The error, which has to be there.
    const stillframe::error& error() const noexcept { return *std::get_if<1>(&content_); }

#if STILLFRAME_EXCEPTIONS
    /// Nothing, or the error as an exception.
    void value() && {
        if (!has_value()) throw error();
    }
#endif

private:
    std::variant<std::monostate, stillframe::error> content_;
};

#if STILLFRAME_EXCEPTIONS
/// What an allocator or a memory resource throws when there is no memory to be had.
class bad_alloc : public std::bad_alloc {
public:
    explicit bad_alloc(error cause) noexcept : cause_(std::move(cause)) {}

    const char* what() const noexcept override { return cause_.what(); }

    /// Why there is none.
    const error& cause() const noexcept { return cause_; }

private:
    error cause_;
};
#endif

namespace detail {

/// The error of this thread's last call.
inline error failure(stillframe_status status) {
    return error(static_cast<stillframe::status>(status), stillframe_error_text());
}

inline result<void> check(stillframe_status status) {
    if (status != STILLFRAME_OK) return failure(status);
    return {};
}

/// A handle of the C interface, ended once.
template <class Handle, stillframe_status (*End)(Handle*)>
class handle {
public:
    handle() noexcept = default;
    explicit handle(Handle* raw) noexcept : raw_(raw) {}
    handle(handle&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
    handle& operator=(handle&& other) noexcept {
        if (this != &other) {
            end();
            raw_ = std::exchange(other.raw_, nullptr);
        }
        return *this;
    }
    ~handle() { end(); }

    Handle* get() const noexcept { return raw_; }
    Handle* release() noexcept { return std::exchange(raw_, nullptr); }
    stillframe_status end() noexcept { return raw_ ? End(release()) : STILLFRAME_OK; }

private:
    Handle* raw_ = nullptr;
};

}  // namespace detail
}  // namespace STILLFRAME_NAMESPACE
}  // namespace stillframe
