/// Create or recover: what the last run left, in memory or in checkpoints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <stillframe.h>

#include "region.hpp"

namespace stillframe {
inline namespace STILLFRAME_NAMESPACE {

/// Where the content came from that a region begins with.
enum class origin_kind : std::uint32_t {
    /// There was nothing: a first run.
    fresh = STILLFRAME_ORIGIN_FRESH,
    /// The region of the last run was still in memory.
    memory = STILLFRAME_ORIGIN_MEMORY,
    checkpoint = STILLFRAME_ORIGIN_CHECKPOINT,
};

/// What a region begins with. It is true unless that is nothing.
struct origin {
    origin_kind kind;
    /// The version that was recovered; 0 in a first run, so that the next step is `origin.version + 1` in any case.
    std::uint64_t version;
    /// The checkpoint, if it is one.
    std::string path;
    /// All of it in a sentence, for the log.
    std::string sentence;
    /// The damaged checkpoints that were left out, each in a line.
    std::string skipped;

    explicit operator bool() const noexcept { return kind != origin_kind::fresh; }
};

/// A region and what it begins with: `auto [region, origin] = stillframe::recover("heat", "checkpoints");`
struct recovery {
    stillframe::region region;
    stillframe::origin origin;
};

/// Makes a region that begins with what the last run left in memory, or if that is gone or older with its newest good
/// checkpoint, else with nothing. Managed and loaned variables that are declared with the same name, type, order, shape and
/// part then have their content; into other arrays `region::read` reads it. The ranks of a group all begin with the same
/// version.
///
/// `checkpoints` is the directory of the region's or group's checkpoints; "" for none. `version`: the one to go on from,
/// instead of the newest.
///
/// Errors: as `region::try_create`; `no_such_version`; `no_checkpoint` if there are some and none of them is good.
inline result<recovery> try_recover(const std::string& name, const std::string& checkpoints, const options& options = {},
                                    std::optional<std::uint64_t> version = std::nullopt) {
    stillframe_recovery_options given{};
    given.checkpoints = checkpoints.empty() ? nullptr : checkpoints.c_str();
    given.version = version.value_or(0);
    given.has_version = version.has_value();
    given.region = options.given();
    stillframe_region* handle = nullptr;
    stillframe_origin from{};
    if (const auto status = stillframe_recover(name.c_str(), &given, &handle, &from)) return detail::failure(status);
    origin origin{static_cast<origin_kind>(from.kind), from.version, from.path, from.sentence, from.skipped};
    return recovery{region::adopt(options.name_of(name), handle), std::move(origin)};
}

#if STILLFRAME_EXCEPTIONS
/// As `try_recover`. Throws `error`.
inline recovery recover(const std::string& name, const std::string& checkpoints, const options& options = {},
                        std::optional<std::uint64_t> version = std::nullopt) {
    return try_recover(name, checkpoints, options, version).value();
}
#endif

}  // namespace STILLFRAME_NAMESPACE
}  // namespace stillframe
