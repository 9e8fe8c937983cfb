/// Regions: the producer's side.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <stillframe.h>

#include "arena.hpp"
#include "array_view.hpp"
#include "declaration.hpp"
#include "error.hpp"
#include "loan.hpp"
#include "producer.hpp"
#include "section.hpp"
#include "source.hpp"

namespace stillframe {
inline namespace STILLFRAME_NAMESPACE {

/// What a publish does when there is no room for another version because observers hold old ones.
enum class rule : std::uint32_t {
    /// It waits until an observer lets go, but no longer than `options::wait` in all since the newest version: then it leaves
    /// this version out, and those that follow at once, until there is room. What was written is part of the next one.
    wait_then_skip = STILLFRAME_WAIT_THEN_SKIP,
    /// It leaves the version out: what was written is part of the next one.
    skip = STILLFRAME_SKIP,
    /// It fails: what was written is part of the next publish.
    fail = STILLFRAME_FAIL,
    /// It waits until an observer lets go, at most `options::wait` in each publish, and then fails.
    wait = STILLFRAME_WAIT,
};

/// How a region is made. All of it has defaults: `stillframe::options().rank(rank, ranks).keep(4)`.
class options {
public:
    /// Directory of the regions; by default $STILLFRAME_DIR, else /dev/shm/stillframe-<uid>.
    options& dir(std::string dir) {
        dir_ = std::move(dir);
        return *this;
    }

    /// Makes the region in an arena instead of a directory of its own. Observers find it as ARENA/NAME. The arena has to be open
    /// until the region is made, not longer.
    options& arena(const stillframe::arena& arena) {
        given_.arena = arena.option();
        arena_ = arena.name();
        return *this;
    }

    /// This is one rank of a group: the region is NAME/RANK, and observers can open the group NAME.
    options& rank(int rank, int ranks) {
        // A number that is negative becomes one that is too large, which is refused.
        given_.rank = static_cast<std::uint32_t>(rank);
        given_.ranks = static_cast<std::uint32_t>(ranks);
        return *this;
    }

    /// Most versions beyond `keep` that stay for slower ranks of the group, from 2 to 32; 16 by default.
    options& drift(unsigned versions) {
        given_.drift = versions;
        return *this;
    }

    /// How many of the newest versions stay although nobody holds them; 1 by default.
    options& keep(unsigned versions) {
        given_.keep = versions;
        return *this;
    }

    /// Most bytes of memory that the versions may take; by default what the file system has.
    options& bound_bytes(std::uint64_t bytes) {
        given_.bound_bytes = bytes;
        return *this;
    }

    /// What to do when there is no room; by default `rule::wait_then_skip`.
    options& rule(stillframe::rule rule) {
        given_.rule = static_cast<std::uint32_t>(rule);
        return *this;
    }

    /// Longest wait for room; by default 1 s with `rule::wait_then_skip`, and no limit with `rule::wait`.
    options& wait(std::chrono::milliseconds wait) {
        given_.wait_ms = wait.count() > 0 ? static_cast<std::uint64_t>(wait.count()) : 0;
        return *this;
    }

    /// Threads that copy at a publish, the calling one included; by default as many as there are processors, at most 4.
    options& threads(unsigned threads) {
        given_.threads = threads;
        return *this;
    }

    /// How written pages are found: "wp_async", "soft_dirty", "private_cow" or "full_copy"; by default
    /// $STILLFRAME_TRACKER, else the best that works.
    options& tracker(std::string tracker) {
        tracker_ = std::move(tracker);
        return *this;
    }

    /// In which units tracked arrays that lie in reserved large pages are copied: "small", "large" or "learned"; by default
    /// $STILLFRAME_COPY_UNIT, else "learned".
    options& copy_unit(std::string unit) {
        copy_unit_ = std::move(unit);
        return *this;
    }

    /// In which units memory for versions is taken and given back: "small" (pages of 4 KiB) or "large" (windows of 2 MiB); by
    /// default $STILLFRAME_MEMORY_UNIT, else "small".
    options& memory_unit(std::string unit) {
        memory_unit_ = std::move(unit);
        return *this;
    }

    /// Access mode of the region's directory; 0700 by default.
    options& mode(unsigned mode) {
        given_.mode = mode;
        return *this;
    }

    /// Whose directories and files are taken for good, besides those of the process's user and of root: "own", "user:NUMBER",
    /// "group:NUMBER" or "any"; by default $STILLFRAME_TRUST, else "own".
    options& trust(std::string trust) {
        trust_ = std::move(trust);
        return *this;
    }

    /// Whether managed arrays ask for large pages; true by default.
    options& large_pages(bool large_pages) { return flag(STILLFRAME_NO_LARGE_PAGES, !large_pages); }

    /// Whether managed memory that stays unwritten is shared with the versions, so that it exists once; true by default.
    options& demote(bool demote) { return flag(STILLFRAME_NO_DEMOTION, !demote); }

    /// Whether to begin with nothing, so that version numbers may begin again: what a dead producer left is removed, or set
    /// aside as NAME~1 if that producer did not end by itself; false by default.
    options& fresh(bool fresh = true) { return flag(STILLFRAME_FRESH, fresh); }

    /// Drops versions above this one when a region is taken over, so that they can be published again: for the ranks of a
    /// group, which may have died at different versions.
    options& rollback(std::uint64_t version) {
        given_.rollback = version;
        return flag(STILLFRAME_ROLLBACK, true);
    }

    /// The name of the region that these options make of a name: that of the rank, if it is part of a group, and with the
    /// arena's before it, if it lies in one.
    std::string name_of(const std::string& name) const {
        const std::string within = arena_.empty() ? name : arena_ + '/' + name;
        return given_.ranks ? within + '/' + std::to_string(given_.rank) : within;
    }

    /// As the C interface wants it; valid as long as these options.
    stillframe_region_options given() const {
        stillframe_region_options given = given_;
        given.dir = dir_.empty() ? nullptr : dir_.c_str();
        given.tracker = tracker_.empty() ? nullptr : tracker_.c_str();
        given.copy_unit = copy_unit_.empty() ? nullptr : copy_unit_.c_str();
        given.memory_unit = memory_unit_.empty() ? nullptr : memory_unit_.c_str();
        given.trust = trust_.empty() ? nullptr : trust_.c_str();
        return given;
    }

private:
    options& flag(int flag, bool set) {
        const auto bit = static_cast<std::uint32_t>(flag);
        given_.flags = set ? given_.flags | bit : given_.flags & ~bit;
        return *this;
    }

    stillframe_region_options given_{};
    std::string dir_;
    std::string tracker_;
    std::string copy_unit_;
    std::string memory_unit_;
    std::string trust_;
    std::string arena_;
};

/// What a publish did.
struct published {
    std::uint64_t version;
    /// Pages of 4 KiB that were written since the last publish, that were copied, and of all variables.
    std::uint64_t dirty_pages, copied_pages, total_pages;
    /// Time it took.
    double seconds;
    /// Whether the version was left out by the rule.
    bool skipped;
};

/// What a region did since this producer made it.
using statistics = stillframe_statistics;

/// A variable of the version that `recover` found.
struct recovered_variable {
    std::string name;
    /// Type of the elements, as `element<T>::dtype()` writes it.
    std::string dtype;
    /// Its extents: those of the global array if ranks had parts of one.
    stillframe::shape shape;
};

/// A named set of variables, published together, by its producer.
///
/// Its files stay when it is closed or destroyed, so that observers keep what they hold and the next producer of the name
/// goes on from the last version; `unlink` removes them. It belongs to one thread at a time, and may be moved.
class region {
public:
#if STILLFRAME_EXCEPTIONS
    /// As `try_create`. Throws `error`.
    explicit region(const std::string& name, const options& options = {}) : region(try_create(name, options).value()) {}
#endif

    /// Makes a region, or takes over what a dead producer left under this name: managed and loaned variables that are
    /// declared with the same name, type, order and shape then have the content of its last version.
    ///
    /// Errors: `in_use` if a producer of this name lives; `bad_name`; `bad_option`; `no_tracker`; `corrupt`; those of the
    /// environment.
    static result<region> try_create(const std::string& name, const options& options = {}) {
        const stillframe_region_options given = options.given();
        stillframe_region* handle = nullptr;
        if (const auto status = stillframe_create(name.c_str(), &given, &handle)) return detail::failure(status);
        return adopt(options.name_of(name), handle);
    }

    /// Takes over a handle of the C interface; the name is that which observers open.
    static region adopt(std::string name, stillframe_region* handle) {
        return region(std::move(name), std::make_shared<detail::producer>(handle));
    }

    region(region&& other) noexcept : name_(std::move(other.name_)), producer_(std::move(other.producer_)) {}
    region& operator=(region&& other) noexcept {
        if (this != &other) {
            end();
            name_ = std::move(other.name_);
            producer_ = std::move(other.producer_);
        }
        return *this;
    }
    ~region() { end(); }

    /// The name that observers open: NAME, for a rank of a group NAME/RANK, in an arena ARENA/NAME.
    const std::string& name() const noexcept { return name_; }

    /// Follows an array from now on: `heat.track("u", u)`, and each `publish` shows what is in it then, but one that is itself
    /// given another array of this name.
    ///
    /// A container (what has `data()` and `size()`), a C array, `std::array` or a single element is followed by reference,
    /// so it may grow and move its elements, and has to live until the region is closed or `untrack`. A span or a pointer is
    /// taken as it is. Elements that are arrays add their dimensions: a `std::vector<std::array<double, 3>>` of n is
    /// published with shape {n, 3}. Tracking the same name again replaces what was followed.
    ///
    /// Errors: `wrong_dtype` if the variable exists with other elements; `variable_exists` if it exists as another part;
    /// `wrong_kind` if it is no tracked one; `bad_name`.
    template <class Array>
    result<void> try_track(const std::string& name, Array&& array) {
        return follow(name, std::forward<Array>(array), std::nullopt, declaration());
    }

    /// As above, with a shape, as in `heat.track("u", u, {ny, nx})`; it counts the container's elements and has to fit
    /// whenever a version is published. `about` says order, unit and attributes.
    template <class Array>
    result<void> try_track(const std::string& name, Array&& array, const shape& shape, declaration about = {}) {
        return follow(name, std::forward<Array>(array), shape, std::move(about));
    }

    /// As above, in the shape the array has by itself.
    template <class Array>
    result<void> try_track(const std::string& name, Array&& array, declaration about) {
        return follow(name, std::forward<Array>(array), std::nullopt, std::move(about));
    }

    /// As above, of which versions show a section: `heat.track("inner", u, stillframe::section::of({ny, nx}).every({2, 2}))`. It
    /// has to fit the array whenever a version is published.
    ///
    /// Errors: `wrong_shape` if it does not fit; `wrong_kind` under the name of managed memory, of which versions show all; a
    /// publish fails with `wrong_shape` if elements cannot be rounded to the type that it says.
    template <class Array>
    result<void> try_track(const std::string& name, Array&& array, const section& section, declaration about = {}) {
        static_assert(detail::lasts<Array>, "what is tracked has to outlive the call: track a variable, not a temporary; "
                                            "for one version only, give stillframe::array to publish");
        return producer().follow(
            detail::source::of<detail::bare<Array>>(name, array, std::nullopt, std::move(about)).with(section));
    }

    /// Ends that: the array may go, and later versions keep its last content.
    ///
    /// Errors: `unknown_variable`; `wrong_kind` if it is no tracked one.
    result<void> try_untrack(const std::string& name) { return producer().untrack(name); }

    /// Adds a managed variable: memory of the region, zero or as recovered. The view is valid until the variable is resized
    /// or removed or the region closed.
    ///
    /// Errors: `variable_exists`; `bad_name`; `wrong_shape`; `no_space` and others of the environment.
    template <class T>
    result<array_view<T>> try_array(const std::string& name, const shape& shape, const declaration& about = {}) {
        auto variable = producer().declare(name, detail::dtype_of<T>(), STILLFRAME_MANAGED, detail::with_items<T>(shape), about);
        if (!variable) return variable.error();
        void* data = nullptr;
        std::size_t bytes = 0;
        if (const auto status = stillframe_data(handle(), *variable, &data, &bytes)) return detail::failure(status);
        return array_view<T>(static_cast<T*>(data), shape, about.order());
    }

    /// Gives a managed variable another shape, keeping its leading bytes. What it gets beyond them is zero, also where it had
    /// elements before that it gave up. Earlier views of it dangle.
    ///
    /// Errors: `unknown_variable`; `wrong_dtype`; `wrong_kind`; `wrong_shape`; `is_pinned` if it is pinned and would have to
    /// move; those of the environment.
    template <class T>
    result<array_view<T>> try_resize(const std::string& name, const shape& shape, order order = order::c) {
        auto variable = find_managed<T>(name);
        if (!variable) return variable.error();
        const auto full = detail::with_items<T>(shape);
        void* data = nullptr;
        if (const auto status =
                stillframe_resize(handle(), *variable, static_cast<std::uint32_t>(full.rank()), full.data(), &data))
            return detail::failure(status);
        return array_view<T>(static_cast<T*>(data), shape, order);
    }

    /// Says that a managed variable is another part of its global array from the next version on, as after balancing the
    /// load, with the shape of that part: `heat.repart<double>("u", {rows, n}, {{top, 0}, {n, n}})`. Else as `try_resize`;
    /// moving the elements is left to the program.
    ///
    /// Errors, after which nothing has changed: as `try_resize`, `wrong_shape` if the shape does not fit the part, and
    /// `wrong_kind` if it is the memory of a container.
    template <class T>
    result<array_view<T>> try_repart(const std::string& name, const shape& shape, const part& part,
                                     order order = order::c) {
        auto variable = find_managed<T>(name);
        if (!variable) return variable.error();
        auto data = make_part<T>(name, *variable, shape, part);
        if (!data) return data.error();
        return array_view<T>(static_cast<T*>(*data), shape, order);
    }

    /// The same of a loaned variable, whose loans have the shape from then on.
    template <class T>
    result<void> try_repart(stillframe::loaned<T>& loaned, const shape& shape, const part& part) {
        auto data = make_part<T>(loaned.name_, loaned.variable_, shape, part);
        if (!data) return data.error();
        loaned.shape_ = shape;
        return {};
    }

    /// The same of a tracked variable. What is tracked has to fit the part whenever a version is published: track it again
    /// if it has moved, or was tracked with a shape.
    ///
    /// Errors: `unknown_variable`; `wrong_kind`; `wrong_shape` if the part is none.
    result<void> try_repart(const std::string& name, const part& part) {
        if (auto can = producer().check_repart(name); !can) return can;
        return producer().repart(name, part);
    }

    /// Reads what `recover` found into an array, before the first publish: of the global array the box at `offset`, if those
    /// who published it said which parts they had, however many they were; else of the variable as it was. Without an offset
    /// that of the part which was declared in this region counts, or else all of the variable is read, which has to have had this
    /// shape.
    ///
    /// The array is a container, C array, span or pointer, as for `track`; `order` is that in which its elements shall lie.
    ///
    /// Errors: `unknown_variable`; `wrong_dtype`; `wrong_shape` if the box is not in what was published; `damaged` and others
    /// of checkpoints; `bad_argument` if the region is not from `recover`, began with nothing, or has published.
    template <class Array>
    result<void> try_read(const std::string& name, Array&& array) {
        return read_into(name, std::forward<Array>(array), std::nullopt, stillframe::shape(), order::c);
    }

    /// As above, with a shape of the array, and the offset of the box.
    template <class Array>
    result<void> try_read(const std::string& name, Array&& array, const shape& shape,
                          const stillframe::shape& offset = {}, order order = order::c) {
        return read_into(name, std::forward<Array>(array), shape, offset, order);
    }

    /// Fills a managed variable with its part of the global array that `recover` found, however many ranks had published it,
    /// before the first publish. One that is no part, or whose region began with nothing, stays as it is.
    ///
    /// Errors: `unknown_variable`; `wrong_kind`; else as `try_read`, but that beginning with nothing is none.
    result<void> try_fill(const std::string& name) {
        auto found = producer().find(name);
        if (!found) return found.error();
        return detail::check(stillframe_fill(handle(), found->first));
    }

    /// An attribute of the version that `recover` found.
    ///
    /// Errors: `unknown_attribute`; `bad_argument` if the region is not from `recover`.
    result<scalar> try_recovered_attribute(const std::string& name) const {
        stillframe_attribute found{};
        if (const auto status = stillframe_recovered_attribute(handle(), name.c_str(), &found))
            return detail::failure(status);
        return detail::scalar_of(found);
    }

    /// The variables of the version that `recover` found, by name, before the first publish: of a group all that any of its
    /// ranks had. None in a first run.
    ///
    /// Errors: `bad_argument` if the region is not from `recover`, or has published; those of reading checkpoints.
    result<std::vector<recovered_variable>> try_recovered_variables() const {
        std::vector<recovered_variable> variables;
        const auto status = stillframe_recovered_variables(
            handle(),
            [](void* variables, const stillframe_recovered_variable* found) {
                shape shape;
                for (std::uint32_t axis = 0; axis < found->rank; ++axis) shape.append(found->shape[axis]);
                static_cast<std::vector<recovered_variable>*>(variables)->push_back({found->name, found->dtype, shape});
                return true;
            },
            &variables);
        if (status) return detail::failure(status);
        return variables;
    }

    /// Adds a loaned variable, whose content is written in place, whole, for each version.
    ///
    /// Errors: as `try_array`.
    template <class T>
    result<stillframe::loaned<T>> try_loaned(const std::string& name, const shape& shape, const declaration& about = {}) {
        auto variable = producer().declare(name, detail::dtype_of<T>(), STILLFRAME_LOANED, detail::with_items<T>(shape), about);
        if (!variable) return variable.error();
        return stillframe::loaned<T>(name, *variable, shape, about.order());
    }

    /// Lends memory of the next version of a loaned variable.
    ///
    /// Errors: `unknown_variable`; those of no room, by the region's rule.
    template <class T>
    result<stillframe::loan<T>> try_loan(const stillframe::loaned<T>& loaned) {
        stillframe_loan* loan = nullptr;
        void* data = nullptr;
        std::size_t bytes = 0;
        if (const auto status = stillframe_loan_begin(handle(), loaned.variable_, &loan, &data, &bytes))
            return detail::failure(status);
        return stillframe::loan<T>(loan, array_view<T>(static_cast<T*>(data), loaned.shape_, loaned.order_));
    }

    /// Removes a variable from the versions to come; those that exist keep it. Views of a managed one dangle.
    ///
    /// Errors: `unknown_variable`.
    result<void> try_remove(const std::string& name) { return producer().remove(name); }

    /// Pins a managed variable: its memory stays where it is, in the same pages, until `unpin` or its end. Call it before a
    /// device is told of the memory (`ibv_reg_mr`, `cudaHostRegister`, `MPI_Win_create`, fixed buffers of io_uring) and before
    /// it is advised, locked or bound (`madvise`, `mlock`, `mbind`): otherwise pages are exchanged, so that what is cold exists
    /// once, and the device goes on with those that are gone. What a device writes has to be told with `mark_dirty`.
    ///
    /// Until then the memory exists in full beside the versions, and `resize` works within the whole windows of 2 MiB that the
    /// variable has. It is not `mlock`. Memory of a tracked variable is never exchanged, and pinning it says nothing new. Of a
    /// container, the memory that it has now is pinned; `declaration::pinned` is for all that it will have.
    ///
    /// Errors: `unknown_variable`; `wrong_kind` if it is loaned; those of the environment, after which it is not pinned.
    result<void> try_pin(const std::string& name) {
        auto found = producer().find(name);
        if (!found) return found.error();
        return detail::check(stillframe_pin(handle(), found->first));
    }

    /// Ends that. Devices have to be told to forget the memory first.
    ///
    /// Errors: `unknown_variable`.
    result<void> try_unpin(const std::string& name) {
        auto found = producer().find(name);
        if (!found) return found.error();
        return detail::check(stillframe_unpin(handle(), found->first));
    }

    /// Declares bytes of a variable written that were written where the kernel does not see it, as by a network card or a
    /// GPU. A managed one has to be pinned before a device is told of its memory.
    ///
    /// Errors: `unknown_variable`; `out_of_range`.
    result<void> try_mark_dirty(const std::string& name, std::size_t offset, std::size_t bytes) {
        auto found = producer().find(name);
        if (!found) return found.error();
        return detail::check(stillframe_mark_dirty(handle(), found->first, offset, bytes));
    }

    /// Sets an attribute of the next version, and of that one only.
    ///
    /// Errors: `bad_argument` if a text is not UTF-8.
    template <class Value>
    result<void> try_set(const std::string& name, const Value& value) {
        return set(attribute(name, value));
    }

    /// Publishes a version: observers see all variables as they are now. With it may come arrays for this version and its
    /// attributes: `heat.publish(step, stillframe::array("u", u, {ny, nx}), stillframe::attribute("time", t))`.
    ///
    /// Errors, after which nothing was published and what was written is part of the next version: `not_increasing`;
    /// `wrong_shape` if an array does not have the elements that its shape says; `no_memory_there` if a tracked array was
    /// freed; `bound`, `no_space` or `no_slot` if there is no room by the region's rule; `variable_exists` if an array
    /// is given as another part than its variable is, or two containers have allocators of one name; `forked`.
    template <class... Items>
    result<stillframe::published> try_publish(std::uint64_t version, const Items&... items) {
        std::vector<const detail::source*> arrays;
        if (auto taken = take_all(arrays, items...); !taken) return taken.error();
        auto done = producer().publish(version, arrays);
        if (!done) return done.error();
        return told(*done);
    }

    /// Starts a publish and returns when it is known which pages have to be copied. Threads copy them on processors that are
    /// free, and `publish_finish` what they did not get to. Observers see the version when it is finished: by `publish_finish` or
    /// `publish_test`, by the next publish, or by what changes variables, which memory for a container does, too.
    ///
    /// As with nonblocking sends of MPI, all arrays, those that come with it, too, may be read until then, and neither be
    /// written nor go. Where one is written all the same, the version is a mixture of before and after, and nothing else breaks;
    /// with `STILLFRAME_CHECK=1` in the environment `publish_finish` fails with `status::written`, and names variable and page.
    ///
    /// Errors: as `publish`, and those of a publish before that was not finished.
    template <class... Items>
    result<void> try_publish_start(std::uint64_t version, const Items&... items) {
        return start(0, version, items...);
    }

    /// As `publish_start`, of a version whose arrays may be written and may go before it is finished: a child process copies, which
    /// has the memory as it was. That costs the time of fork(2) when it is started, and a fault at the first write to each page
    /// afterwards.
    ///
    /// Errors: as `publish_start`.
    template <class... Items>
    result<void> try_publish_start_guarded(std::uint64_t version, const Items&... items) {
        return start(STILLFRAME_PUBLISH_GUARD, version, items...);
    }

    /// Finishes the publish that was started, after which all arrays may be written. Returns what it did, once, also if something
    /// else has finished it; nothing if there was none.
    ///
    /// Errors, after which nothing was published, and what was written is part of the next version: as `publish`; `written`;
    /// `child_gone` if it was guarded.
    result<std::optional<stillframe::published>> try_publish_finish() {
        auto done = producer().publish_finish();
        if (!done) return done.error();
        return *done ? std::optional(told(**done)) : std::nullopt;
    }

    /// Finishes the publish that was started if nothing is left to be copied and there is room; whether none is left to be finished.
    ///
    /// Errors: as `publish_finish`.
    result<bool> try_publish_test() { return producer().publish_test(); }

    /// The version that was taken over from a dead producer.
    ///
    /// Errors: `bad_handle`.
    result<std::optional<std::uint64_t>> try_recovered() const { return number(&stillframe_recovered); }

    /// The newest version, a recovered one included.
    ///
    /// Errors: `bad_handle`.
    result<std::optional<std::uint64_t>> try_newest() const { return number(&stillframe_newest_published); }

    /// The name of the tracker in use.
    ///
    /// Errors: `bad_handle`.
    result<std::string> try_tracker() const {
        const char* name = nullptr;
        if (const auto status = stillframe_tracker(handle(), &name)) return detail::failure(status);
        return std::string(name);
    }

    /// What the region did since it was made.
    ///
    /// Errors: `bad_handle`.
    result<stillframe::statistics> try_statistics() const {
        stillframe::statistics statistics{};
        if (const auto status = stillframe_statistics_of(handle(), &statistics)) return detail::failure(status);
        return statistics;
    }

    /// Ends the producer, leaving the region's files. Views of managed arrays dangle from then on; containers in managed
    /// memory keep what they have, unpublished. Closing what is closed does nothing.
    ///
    /// Errors: `forked`.
    result<void> try_close() { return detail::check(producer().end(&stillframe_close)); }

    /// Closes, and removes the region's files. Observers keep what they hold.
    ///
    /// Errors: `forked`; those of the environment if a file cannot be removed.
    result<void> try_unlink() { return detail::check(producer().end(&stillframe_unlink)); }

#if STILLFRAME_EXCEPTIONS
    // As their twins; all throw `error`.
    template <class Array>
    void track(const std::string& name, Array&& array) {
        try_track(name, std::forward<Array>(array)).value();
    }
    template <class Array>
    void track(const std::string& name, Array&& array, const shape& shape, declaration about = {}) {
        try_track(name, std::forward<Array>(array), shape, std::move(about)).value();
    }
    template <class Array>
    void track(const std::string& name, Array&& array, declaration about) {
        try_track(name, std::forward<Array>(array), std::move(about)).value();
    }
    template <class Array>
    void track(const std::string& name, Array&& array, const section& section, declaration about = {}) {
        try_track(name, std::forward<Array>(array), section, std::move(about)).value();
    }
    void untrack(const std::string& name) { try_untrack(name).value(); }
    template <class T>
    array_view<T> array(const std::string& name, const shape& shape, const declaration& about = {}) {
        return try_array<T>(name, shape, about).value();
    }
    template <class T>
    array_view<T> resize(const std::string& name, const shape& shape, order order = order::c) {
        return try_resize<T>(name, shape, order).value();
    }
    template <class T>
    array_view<T> repart(const std::string& name, const shape& shape, const part& part, order order = order::c) {
        return try_repart<T>(name, shape, part, order).value();
    }
    template <class T>
    void repart(stillframe::loaned<T>& loaned, const shape& shape, const part& part) {
        try_repart(loaned, shape, part).value();
    }
    void repart(const std::string& name, const part& part) { try_repart(name, part).value(); }
    template <class T>
    stillframe::loaned<T> loaned(const std::string& name, const shape& shape, const declaration& about = {}) {
        return try_loaned<T>(name, shape, about).value();
    }
    template <class T>
    stillframe::loan<T> loan(const stillframe::loaned<T>& loaned) {
        return try_loan(loaned).value();
    }
    template <class Array>
    void read(const std::string& name, Array&& array) {
        try_read(name, std::forward<Array>(array)).value();
    }
    template <class Array>
    void read(const std::string& name, Array&& array, const shape& shape, const stillframe::shape& offset = {},
              order order = order::c) {
        try_read(name, std::forward<Array>(array), shape, offset, order).value();
    }
    void fill(const std::string& name) { try_fill(name).value(); }
    scalar recovered_attribute(const std::string& name) const { return try_recovered_attribute(name).value(); }
    std::vector<recovered_variable> recovered_variables() const { return try_recovered_variables().value(); }
    void remove(const std::string& name) { try_remove(name).value(); }
    void pin(const std::string& name) { try_pin(name).value(); }
    void unpin(const std::string& name) { try_unpin(name).value(); }
    void mark_dirty(const std::string& name, std::size_t offset, std::size_t bytes) {
        try_mark_dirty(name, offset, bytes).value();
    }
    template <class Value>
    void set(const std::string& name, const Value& value) {
        try_set(name, value).value();
    }
    template <class... Items>
    stillframe::published publish(std::uint64_t version, const Items&... items) {
        return try_publish(version, items...).value();
    }
    template <class... Items>
    void publish_start(std::uint64_t version, const Items&... items) {
        try_publish_start(version, items...).value();
    }
    template <class... Items>
    void publish_start_guarded(std::uint64_t version, const Items&... items) {
        try_publish_start_guarded(version, items...).value();
    }
    std::optional<stillframe::published> publish_finish() { return try_publish_finish().value(); }
    bool publish_test() { return try_publish_test().value(); }
    std::optional<std::uint64_t> recovered() const { return try_recovered().value(); }
    std::optional<std::uint64_t> newest() const { return try_newest().value(); }
    std::string tracker() const { return try_tracker().value(); }
    stillframe::statistics statistics() const { return try_statistics().value(); }
    void close() { try_close().value(); }
    void unlink() { try_unlink().value(); }
#endif

private:
    template <class T>
    friend class allocator;
    friend class memory_resource;

    template <class... Items>
    result<void> take_all(std::vector<const detail::source*>& arrays, const Items&... items) {
        static_assert((... && (std::is_same_v<Items, stillframe::array> || std::is_same_v<Items, attribute>)),
                      "publish takes stillframe::array and stillframe::attribute behind the version");
        result<void> taken;
        (take(items, arrays, taken), ...);
        return taken;
    }

    template <class... Items>
    result<void> start(std::uint32_t flags, std::uint64_t version, const Items&... items) {
        std::vector<const detail::source*> arrays;
        if (auto taken = take_all(arrays, items...); !taken) return taken;
        return producer().publish_start(version, arrays, flags);
    }

    static stillframe::published told(const stillframe_published& done) {
        return {done.version, done.dirty_pages, done.copied_pages, done.total_pages, done.seconds, done.skipped != 0};
    }

    region(std::string name, std::shared_ptr<detail::producer> producer)
        : name_(std::move(name)), producer_(std::move(producer)) {}

    /// A region that was moved from has the handle NULL, and its calls say so.
    detail::producer& producer() const noexcept {
        static detail::producer none;
        return producer_ ? *producer_ : none;
    }

    stillframe_region* handle() const noexcept { return producer().handle(); }

    void end() noexcept {
        if (producer_) (void)producer_->end(&stillframe_close);
    }

    template <class Array>
    result<void> follow(const std::string& name, Array&& array, std::optional<shape> shape, declaration about) {
        static_assert(detail::lasts<Array>, "what is tracked has to outlive the call: track a variable, not a temporary; "
                                            "for one version only, give stillframe::array to publish");
        return producer().follow(detail::source::of<detail::bare<Array>>(name, array, shape, std::move(about)));
    }

    template <class Array>
    result<void> read_into(const std::string& name, Array&& array, std::optional<shape> shape, stillframe::shape offset,
                           order order) {
        static_assert(detail::can_be_written<Array>, "what is read into must not be const");
        const auto source = detail::source::of<detail::bare<Array>>(name, array, shape, declaration());
        const auto memory = source.memory();
        auto extents = source.shape_of(memory);
        if (!extents) return extents.error();
        // Without an offset that of the variable's part counts; one of the container's elements begins at the first of each.
        const bool has_offset = offset.rank() > 0;
        if (has_offset && offset.rank() + source.inner().rank() == extents->rank())
            while (offset.rank() < extents->rank()) offset.append(0);
        if (has_offset && (offset.rank() != extents->rank() || !offset.is_possible()))
            return error(status::wrong_shape, "variable '" + name + "': offset " + offset.text() +
                                                  " does not suit the shape " + extents->text());
        return detail::check(stillframe_read_recovered(
            handle(), name.c_str(), source.dtype().c_str(), static_cast<std::uint32_t>(extents->rank()),
            has_offset ? offset.data() : nullptr, extents->data(), static_cast<std::uint32_t>(order),
            const_cast<void*>(memory.data)));
    }

    template <class T>
    result<std::uint32_t> find(const std::string& name) {
        auto found = producer().find(name);
        if (!found) return found.error();
        const std::string dtype = detail::dtype_of<T>();
        if (!found->second.empty() && found->second != dtype)
            return error(status::wrong_dtype, "variable '" + name + "' holds " + found->second + ", not " + dtype);
        return found->first;
    }

    template <class T>
    result<std::uint32_t> find_managed(const std::string& name) {
        auto variable = find<T>(name);
        if (!variable) return variable;
        // The library says of which kind another one is.
        void* data = nullptr;
        if (const auto status = stillframe_data(handle(), *variable, &data, nullptr)) return detail::failure(status);
        return variable;
    }

    /// Makes a variable another part; where its memory then is.
    template <class T>
    result<void*> make_part(const std::string& name, std::uint32_t variable, const shape& shape, const part& given) {
        const auto full = detail::with_items<T>(shape);
        const auto part = detail::with_items(given, detail::with_items<T>(stillframe::shape()));
        if (auto fits = detail::check_rank(name, part, full); !fits) return fits.error();
        if (auto can = producer().check_repart(name); !can) return can.error();
        void* data = nullptr;
        if (const auto status = stillframe_repart(handle(), variable, static_cast<std::uint32_t>(full.rank()), full.data(),
                                                  part.offset.data(), part.global_shape.data(), &data))
            return detail::failure(status);
        return data;
    }

    result<void> set(const attribute& attribute) {
        const char* name = attribute.name().c_str();
        const scalar& value = attribute.value();
        if (const auto* truth = std::get_if<bool>(&value)) return detail::check(stillframe_set_bool(handle(), name, *truth));
        if (const auto* integer = std::get_if<std::int64_t>(&value))
            return detail::check(stillframe_set_int(handle(), name, *integer));
        if (const auto* real = std::get_if<double>(&value)) return detail::check(stillframe_set_float(handle(), name, *real));
        return detail::check(stillframe_set_text(handle(), name, std::get_if<std::string>(&value)->c_str()));
    }

    void take(const stillframe::array& array, std::vector<const detail::source*>& arrays, result<void>&) {
        arrays.push_back(&array.source());
    }
    void take(const attribute& attribute, std::vector<const detail::source*>&, result<void>& taken) {
        if (taken) taken = set(attribute);
    }

    result<std::optional<std::uint64_t>> number(stillframe_status (*ask)(stillframe_region*, bool*, std::uint64_t*)) const {
        bool found = false;
        std::uint64_t version = 0;
        if (const auto status = ask(handle(), &found, &version)) return detail::failure(status);
        return found ? std::optional(version) : std::nullopt;
    }

    std::string name_;
    std::shared_ptr<detail::producer> producer_;
};

}  // namespace STILLFRAME_NAMESPACE
}  // namespace stillframe
