/// A memory resource whose memory is a variable of a region.
#pragma once

#include "region.hpp"

#if STILLFRAME_EXCEPTIONS

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <memory_resource>
#include <string>
#include <utility>

namespace stillframe {
inline namespace STILLFRAME_NAMESPACE {

/// An arena of fixed capacity, for `std::pmr` containers of any kind:
///
///     stillframe::memory_resource arena(heat, "arena", 64 << 20);
///     std::pmr::vector<double> v(n, &arena);
///     std::pmr::map<int, double> m(&arena);
///     heat.track("v", v);                  // typed, beside the bytes
///
/// All of it is published as one variable of bytes (uint8), of which unwritten pages take no memory. Contiguous containers
/// in it can be tracked under names of their own. Pointers in it are addresses of the producer.
///
/// The containers have to end before the arena, and so does what is tracked in it. Both may outlive the region. It is used
/// by one thread at a time, and not while `publish` runs.
class memory_resource : public std::pmr::memory_resource {
public:
    /// Throws `error` as `region::try_array` says.
    memory_resource(region& region, const std::string& name, std::size_t capacity_bytes, const declaration& about = {})
        : producer_(region.producer_), name_(name), capacity_bytes_(capacity_bytes) {
        auto memory = region.producer().allocate(name, "uint8", shape(capacity_bytes), about);
        base_ = static_cast<unsigned char*>(std::move(memory).value());
        free_.emplace(0, capacity_bytes);
    }
    memory_resource(const memory_resource&) = delete;
    memory_resource& operator=(const memory_resource&) = delete;

    /// The variable ends; versions that exist keep it.
    ~memory_resource() override {
        if (producer_) (void)producer_->deallocate(base_);
    }

    std::size_t capacity_bytes() const noexcept { return capacity_bytes_; }

    /// Bytes that are not in use; they may lie apart.
    std::size_t free_bytes() const noexcept {
        std::size_t bytes = 0;
        for (const auto& [offset, length] : free_) bytes += length;
        return bytes;
    }

private:
    /// Throws `stillframe::bad_alloc` if no free part is large enough.
    void* do_allocate(std::size_t bytes, std::size_t alignment) override {
        const std::size_t wanted = std::max<std::size_t>(bytes, 1);
        for (auto part = free_.begin(); part != free_.end(); ++part) {
            const auto [offset, length] = *part;
            const auto address = reinterpret_cast<std::uintptr_t>(base_) + offset;
            const std::size_t gap = (alignment - address % alignment) % alignment;
            if (gap > length || wanted > length - gap) continue;
            // What may throw comes first, so that nothing is lost if it does.
            if (length - gap > wanted) free_.emplace(offset + gap + wanted, length - gap - wanted);
            if (gap) part->second = gap;
            else free_.erase(part);
            return base_ + offset + gap;
        }
        throw bad_alloc(error(status::no_space, "arena '" + name_ + "' of " + std::to_string(capacity_bytes_) +
                                                    " bytes has no " + std::to_string(bytes) +
                                                    " bytes left in one piece: make it with a larger capacity"));
    }

    void do_deallocate(void* data, std::size_t bytes, std::size_t) override {
        std::size_t begin = static_cast<std::size_t>(static_cast<unsigned char*>(data) - base_);
        std::size_t end = begin + std::max<std::size_t>(bytes, 1);
        auto next = free_.lower_bound(begin);
        if (next != free_.end() && next->first == end) {
            end += next->second;
            next = free_.erase(next);
        }
        if (next != free_.begin()) {
            const auto before = std::prev(next);
            if (before->first + before->second == begin) {
                before->second = end - before->first;
                return;
            }
        }
        free_.emplace(begin, end - begin);
    }

    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

    std::shared_ptr<detail::producer> producer_;
    std::string name_;
    std::size_t capacity_bytes_;
    unsigned char* base_ = nullptr;
    /// Lengths of the free parts, by their offsets. No two of them touch.
    std::map<std::size_t, std::size_t> free_;
};

}  // namespace STILLFRAME_NAMESPACE
}  // namespace stillframe

#endif
