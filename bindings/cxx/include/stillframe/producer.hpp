/// What a region and the containers in its memory share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <stillframe.h>

#include "source.hpp"

namespace stillframe {
inline namespace STILLFRAME_NAMESPACE {
namespace detail {

/// The handle of a region with what C++ adds to it: arrays that are followed, and memory that containers own.
///
/// Containers may outlive the region. Then, and while one moves from smaller to larger memory, what they have is kept
/// memory: theirs until they give it back, and no variable's.
class producer {
public:
    explicit producer(stillframe_region* handle = nullptr) noexcept : handle_(handle) {}
    producer(const producer&) = delete;
    producer& operator=(const producer&) = delete;
    ~producer() { end(&stillframe_close); }

    stillframe_region* handle() const noexcept { return handle_; }

    /// Ends the region with `stillframe_close` or `stillframe_unlink`. Memory that containers have stays theirs.
    stillframe_status end(stillframe_status (*end)(stillframe_region*)) noexcept {
        const std::lock_guard lock(mutex_);
        for (auto& [data, block] : blocks_) {
            if (block.is != role::variable) continue;
            // Without it the container's memory would go with the region, so the region stays.
            if (const auto status = stillframe_remove_keeping(handle_, block.variable, &block.kept)) return status;
            block.is = role::none;
        }
        followed_.clear();
        variables_.clear();
        return end(std::exchange(handle_, nullptr));
    }

    result<std::uint32_t> declare(const std::string& name, const std::string& dtype, std::uint32_t kind,
                                  const shape& shape, const declaration& about) {
        const std::lock_guard lock(mutex_);
        return declare_locked(name, dtype, kind, shape, about);
    }

    /// The number and dtype of a variable that was declared here.
    result<std::pair<std::uint32_t, std::string>> find(const std::string& name) {
        const std::lock_guard lock(mutex_);
        if (const auto found = variables_.find(name); found != variables_.end())
            return std::pair(found->second.number, found->second.dtype);
        std::uint32_t variable = 0;
        if (const auto status = stillframe_find(handle_, name.c_str(), &variable)) return failure(status);
        return std::pair(variable, std::string());
    }

    /// Follows an array from now on.
    result<void> follow(source source) {
        const std::lock_guard lock(mutex_);
        if (auto fits = source.check(); !fits) return fits;
        if (auto can = check_section(source); !can) return can;
        // A container in managed memory is a variable by itself, when it has memory.
        if (!source.is_managed() && !variable_at(source.memory().data, source.name())) {
            if (auto tracked = tracked_variable(source); !tracked) return tracked.error();
        }
        if (auto same = check_tracked_part(source); !same) return same;
        const std::string name = source.name();
        followed_.insert_or_assign(name, std::move(source));
        return {};
    }

    result<void> untrack(const std::string& name) {
        const std::lock_guard lock(mutex_);
        followed_.erase(name);
        const auto found = variables_.find(name);
        std::uint32_t variable = 0;
        if (found == variables_.end()) return check(stillframe_find(handle_, name.c_str(), &variable));
        // A container's memory is published for as long as the container has it.
        if (owner_of(name) != blocks_.end()) return {};
        const shape none;
        return check(stillframe_track_at(handle_, found->second.number, 0, none.data(), STILLFRAME_C, nullptr));
    }

    /// Makes a tracked variable another part of its global array. Its shape comes with its array.
    result<void> repart(const std::string& name, const part& given) {
        const std::lock_guard lock(mutex_);
        const auto found = variables_.find(name);
        std::uint32_t variable = 0;
        if (const auto status = stillframe_find(handle_, name.c_str(), &variable)) return failure(status);
        if (found == variables_.end() || !found->second.item)
            return error(status::wrong_kind, "variable '" + name +
                                                 "' is not tracked: repart takes the shape of a managed one, and a "
                                                 "loaned one itself");
        const part part = with_items(given, *found->second.item);
        shape none;
        for (std::size_t dimension = 0; dimension < part.offset.rank(); ++dimension) none.append(0);
        if (auto fits = check_rank(name, part, none); !fits) return fits;
        if (const auto status = stillframe_repart(handle_, variable, static_cast<std::uint32_t>(none.rank()), none.data(),
                                                  part.offset.data(), part.global_shape.data(), nullptr))
            return failure(status);
        found->second.part = part;
        return {};
    }

    /// Whether a variable can be made another part: not a container's, which would be the former part again
    /// in its next memory.
    result<void> check_repart(const std::string& name) {
        const std::lock_guard lock(mutex_);
        if (owner_of(name) == blocks_.end()) return {};
        return error(status::wrong_kind, "variable '" + name +
                                             "' is the memory of a container: what part it is, the declaration of its "
                                             "allocator says, so make another container for another one");
    }

    result<void> remove(const std::string& name) {
        const std::lock_guard lock(mutex_);
        followed_.erase(name);
        variables_.erase(name);
        return check(stillframe_remove(handle_, name.c_str()));
    }

    /// Says where all arrays are that are followed, and publishes with those that are given for this version.
    result<stillframe_published> publish(std::uint64_t version, const std::vector<const source*>& arrays) {
        std::vector<placed> places(arrays.size());
        std::vector<stillframe_given> given;
        if (auto ready = place_all(arrays, places, given); !ready) return ready.error();
        stillframe_published published{};
        if (const auto status = stillframe_publish_with(handle_, version, given.data(),
                                                        static_cast<std::uint32_t>(given.size()), &published))
            return failure(status);
        return published;
    }

    /// As `publish`, but starts it.
    result<void> publish_start(std::uint64_t version, const std::vector<const source*>& arrays, std::uint32_t flags) {
        std::vector<placed> places(arrays.size());
        std::vector<stillframe_given> given;
        if (auto ready = place_all(arrays, places, given); !ready) return ready.error();
        return check(stillframe_publish_start(handle_, version, given.data(), static_cast<std::uint32_t>(given.size()), flags));
    }

    result<std::optional<stillframe_published>> publish_finish() {
        stillframe_published published{};
        bool found = false;
        if (const auto status = stillframe_publish_finish(handle_, &published, &found)) return failure(status);
        return found ? std::optional(published) : std::nullopt;
    }

    result<bool> publish_test() {
        bool done = false;
        if (const auto status = stillframe_publish_test(handle_, &done)) return failure(status);
        return done;
    }

    /// Memory for a container: a managed variable of this name, whose former memory, if there is any, becomes kept.
    result<void*> allocate(const std::string& name, const std::string& dtype, const shape& shape,
                           const declaration& about) {
        const std::lock_guard lock(mutex_);
        const auto former = owner_of(name);
        if (former != blocks_.end()) {
            if (auto retired = retire(former->second); !retired) return retired.error();
        }
        auto allocated = allocate_block(name, dtype, shape, about);
        // What the container has stays published if there is no more to be had.
        if (!allocated && former != blocks_.end()) track_kept(former->first, former->second);
        return allocated;
    }

    /// Whether the memory was of this region, and is given back now.
    bool deallocate(void* data) noexcept {
        const std::lock_guard lock(mutex_);
        const auto found = blocks_.find(data);
        if (found == blocks_.end()) return false;
        block& block = found->second;
        if (block.is != role::none) {
            const auto status = stillframe_remove(handle_, block.name.c_str());
            // In a forked child the variable's memory cannot be given back; it ends with the process.
            if (status != STILLFRAME_OK && block.is == role::variable) return true;
            variables_.erase(block.name);
        }
        (void)stillframe_kept_free(block.kept);
        blocks_.erase(found);
        return true;
    }

    /// Whether the region can still give memory.
    bool is_open() const noexcept {
        const std::lock_guard lock(mutex_);
        return handle_ != nullptr;
    }

private:
    /// What a container's memory is to the region.
    enum class role {
        variable,
        /// Kept memory whose container found no larger one, and which is tracked instead.
        tracked,
        /// Kept memory that is published no more.
        none,
    };

    struct variable {
        std::uint32_t number;
        std::string dtype;
        /// Of a tracked one, the extents of an item that is an array itself, and which part it is, in scalars.
        std::optional<shape> item;
        std::optional<stillframe::part> part;
    };

    struct block {
        std::string name;
        std::string dtype;
        /// As the container asked for it, and as it is published.
        shape capacity, published;
        declaration about;
        std::uint32_t variable;
        role is = role::variable;
        stillframe_kept* kept = nullptr;
    };

    result<std::uint32_t> declare_locked(const std::string& name, const std::string& dtype, std::uint32_t kind,
                                         const shape& shape, const declaration& about) {
        if (!shape.is_possible())
            return error(status::wrong_shape, "variable '" + name + "': shape " + shape.text() +
                                                  " has a negative extent or more than 8 dimensions");
        auto declared = about.declare(handle_, name, dtype, kind, shape);
        if (!declared) return declared;
        variable variable{*declared, dtype, std::nullopt, std::nullopt};
        if (kind == STILLFRAME_TRACKED) {
            variable.item = shape;
            variable.part = about.part_of(kind, shape);
        }
        variables_.insert_or_assign(name, std::move(variable));
        return declared;
    }

    result<std::uint32_t> tracked_variable(const source& source) {
        const auto found = variables_.find(source.name());
        if (found == variables_.end())
            return declare_locked(source.name(), source.dtype(), STILLFRAME_TRACKED, source.inner(), source.about());
        if (found->second.dtype != source.dtype())
            return error(status::wrong_dtype, "variable '" + source.name() + "' was declared with elements of " +
                                                  found->second.dtype + ", and the array given has " + source.dtype());
        return found->second.number;
    }

    /// Whether a tracked variable is the part that a program gives it as. Of what is followed the part is of the time of track,
    /// and repart may have been called since.
    result<void> check_tracked_part(const source& source) {
        const auto found = variables_.find(source.name());
        if (found == variables_.end() || !found->second.item) return {};
        return check_part(source, found->second.part, "repart makes it another one");
    }

    static result<void> check_part(const source& source, const std::optional<part>& has, const std::string& advice) {
        const auto given = source.about().part_of(STILLFRAME_TRACKED, source.inner());
        if (!given) return {};
        if (has && has->offset == given->offset && has->global_shape == given->global_shape) return {};
        const auto text = [](const part& part) { return part.offset.text() + " in " + part.global_shape.text(); };
        return error(status::variable_exists, "variable '" + source.name() + "' is declared as " +
                                                  (has ? "the part at " + text(*has) : "no part of a global array") +
                                                  ", and given as the one at " + text(*given) + ": " + advice);
    }

    /// An array and its variable.
    struct placed {
        /// Without data if it is in the memory of its variable.
        detail::place place;
        std::uint32_t variable = 0;
    };

    result<void> place_all(const std::vector<const source*>& arrays, std::vector<placed>& places,
                           std::vector<stillframe_given>& given) {
        const std::lock_guard lock(mutex_);
        for (const auto& [data, block] : blocks_) {
            if (block.is == role::none && owner_of(block.name) != blocks_.end())
                return error(status::variable_exists, "variable '" + block.name +
                                                          "' has the memory of two containers: give each allocator a "
                                                          "name of its own, or end the older container first");
        }
        for (const auto& [name, source] : followed_) {
            if (auto followed = place_followed(source); !followed) return followed;
        }
        for (std::size_t at = 0; at < arrays.size(); ++at) {
            auto found = place(*arrays[at]);
            if (!found) return found.error();
            if (auto same = check_tracked_part(*arrays[at]); !same) return same;
            // The shape and the strides are pointed to, so they lie where they stay.
            const auto& [place, variable] = places[at] = *found;
            if (place.data)
                given.push_back({place.data, place.shape.data(), variable, static_cast<std::uint32_t>(place.shape.rank()),
                                 static_cast<std::uint32_t>(arrays[at]->about().order()), 0,
                                 place.is_section ? place.strides.data() : nullptr, place.dtype});
        }
        return {};
    }

    result<void> place_followed(const source& source) {
        auto found = place(source);
        if (!found) return found.error();
        const auto& [place, variable] = *found;
        if (!place.data) return {};
        const auto rank = static_cast<std::uint32_t>(place.shape.rank()), order = static_cast<std::uint32_t>(source.about().order());
        if (place.is_section)
            return check(stillframe_track_section(handle_, variable, rank, place.shape.data(), place.strides.data(),
                                                  place.dtype, order, place.data));
        return check(stillframe_track_at(handle_, variable, rank, place.shape.data(), order, place.data));
    }

    /// Finds where an array is now. If it lies in managed memory, that is given its shape.
    result<placed> place(const source& source) {
        const memory memory = source.memory();
        if (auto can = check_section(source); !can) return can.error();
        if (block* block = variable_at(memory.data, source.name())) {
            auto shape = source.shape_of(memory);
            if (!shape) return shape.error();
            if (auto reshaped = reshape(*block, *shape, source); !reshaped) return reshaped.error();
            return placed();
        }
        auto found = source.place();
        if (!found) return found.error();
        if (!memory.data && source.is_managed()) return placed();
        auto variable = tracked_variable(source);
        if (!variable) return variable.error();
        return placed{*found, *variable};
    }

    /// Whether a section of an array can be shown: not under the name of managed memory.
    result<void> check_section(const source& source) {
        if (!source.is_section()) return {};
        const auto found = variables_.find(source.name());
        if (found == variables_.end() || found->second.item) return {};
        return error(status::wrong_kind, "variable '" + source.name() +
                                             "' is not tracked, and versions show all of it: show the section under another name");
    }

    result<void> reshape(block& block, const shape& shape, const source& source) {
        if (source.about().order() != block.about.order())
            return error(status::wrong_shape,
                         "variable '" + block.name + "': the order of managed memory is that of its allocator's declaration");
        const auto part = block.about.part_of(STILLFRAME_MANAGED, block.capacity);
        if (auto same = check_part(source, part, "the part of managed memory is that of its allocator's declaration"); !same)
            return same;
        // Beyond what the container asked for the memory would move, and the container would not know.
        if (shape.elements() > block.capacity.elements())
            return error(status::wrong_shape, "variable '" + block.name + "': shape " + shape.text() + " exceeds the " +
                                                  std::to_string(block.capacity.elements()) + " elements of its container");
        if (shape == block.published) return {};
        void* data = nullptr;
        if (const auto status = stillframe_resize(handle_, block.variable, static_cast<std::uint32_t>(shape.rank()),
                                                  shape.data(), &data))
            return failure(status);
        block.published = shape;
        return {};
    }

    /// The memory that is the variable of this name by itself, if the array lies there.
    block* variable_at(const void* data, const std::string& name) {
        const auto found = blocks_.find(const_cast<void*>(data));
        const bool is_variable =
            found != blocks_.end() && found->second.is == role::variable && found->second.name == name;
        return is_variable ? &found->second : nullptr;
    }

    std::map<void*, block>::iterator owner_of(const std::string& name) {
        const auto owns = [&](const auto& entry) { return entry.second.is != role::none && entry.second.name == name; };
        return std::find_if(blocks_.begin(), blocks_.end(), owns);
    }

    /// Frees the name of a container's memory.
    result<void> retire(block& block) {
        const auto status = block.is == role::variable
                                ? stillframe_remove_keeping(handle_, block.variable, &block.kept)
                                : stillframe_remove(handle_, block.name.c_str());
        if (status) return failure(status);
        variables_.erase(block.name);
        block.is = role::none;
        return {};
    }

    result<void*> allocate_block(const std::string& name, const std::string& dtype, const shape& shape,
                                 const declaration& about) {
        auto variable = declare_locked(name, dtype, STILLFRAME_MANAGED, shape, about);
        if (!variable) return variable.error();
        void* data = nullptr;
        std::size_t bytes = 0;
        if (const auto status = stillframe_data(handle_, *variable, &data, &bytes)) return failure(status);
        blocks_.insert_or_assign(data, block{name, dtype, shape, shape, about, *variable});
        return data;
    }

    void track_kept(const void* data, block& block) {
        shape inner;
        for (std::size_t dimension = 1; dimension < block.capacity.rank(); ++dimension)
            inner.append(block.capacity[dimension]);
        auto variable = declare_locked(block.name, block.dtype, STILLFRAME_TRACKED, inner, block.about);
        if (!variable) return;
        if (stillframe_track_at(handle_, *variable, static_cast<std::uint32_t>(block.published.rank()),
                                block.published.data(), static_cast<std::uint32_t>(block.about.order()),
                                data) != STILLFRAME_OK)
            return;
        block.is = role::tracked;
    }

    mutable std::mutex mutex_;
    stillframe_region* handle_;
    /// What was declared here.
    std::map<std::string, variable> variables_;
    std::map<std::string, source> followed_;
    std::map<void*, block> blocks_;
};

}  // namespace detail
}  // namespace STILLFRAME_NAMESPACE
}  // namespace stillframe
