// Arenas: many regions in one file.
#include "check.hpp"

#include <numeric>
#include <thread>

#include <fcntl.h>
#include <sys/mman.h>

namespace sf = stillframe;

static sf::arena_options of(std::uint64_t mib) { return sf::arena_options().bytes(mib << 20).regions(100); }

// The first element of a variable in the newest version.
template <class T>
static T first(const sf::observer& observer, const std::string& name) {
    const auto snapshot = observer.newest();
    return snapshot.view<T>(name)[0];
}

TEST(many_regions_lie_in_one_arena_and_outlive_its_handle) {
    std::vector<sf::region> regions;
    std::vector<std::vector<int>> numbers(10, std::vector<int>(100));
    {
        const sf::arena pool("pool", of(1024));
        CHECK(pool.name() == "pool");
        for (int i = 0; i < 10; ++i) {
            regions.emplace_back("r" + std::to_string(i), sf::options().arena(pool).threads(1));
            CHECK(regions.back().name() == "pool/r" + std::to_string(i));
            std::iota(numbers[static_cast<std::size_t>(i)].begin(), numbers[static_cast<std::size_t>(i)].end(), 100 * i);
            regions.back().track("numbers", numbers[static_cast<std::size_t>(i)]);
            regions.back().publish(1);
        }
        const auto usage = pool.usage();
        CHECK(usage.bytes == std::uint64_t{1024} << 20 && usage.regions_max == 100 && usage.regions.size() == 10);
        CHECK(usage.tables_bytes > 0 && usage.free_bytes > 0 && usage.free_chunks > 0 && usage.small_chunks > 0);
        CHECK(usage.regions[3].name == "r3" && usage.regions[3].bytes > 0 && !usage.regions[3].removed);
    }
    for (std::size_t i = 0; i < 10; ++i) {
        numbers[i][99] = -1;
        regions[i].publish(2);
        const auto snapshot = sf::observer(regions[i].name()).newest();
        const auto view = snapshot.view<int>("numbers");
        CHECK(std::equal(view.begin(), view.end(), numbers[i].begin(), numbers[i].end()));
    }
    regions.clear();
    const auto pool = sf::arena::open("pool");
    for (int i = 0; i < 10; ++i) {
        sf::region region("r" + std::to_string(i), sf::options().arena(pool));
        CHECK(region.recovered() == std::uint64_t{2});
        THROWS(in_use, "living producer", sf::region("r" + std::to_string(i), sf::options().arena(pool)));
        region.unlink();
    }
    CHECK(pool.usage().regions.empty());
}

TEST(an_arena_that_is_full_says_who_has_how_much) {
    const sf::arena pool("full", of(16));
    sf::region region("big", sf::options().arena(pool).rule(sf::rule::fail));
    std::vector<char> mine(3 << 20, 1);
    region.track("mine", mine);
    region.publish(1);
    const sf::observer observer("full/big");
    std::vector<sf::snapshot> held;
    sf::result<sf::published> outcome = region.try_publish(2);
    for (char version = 3; outcome && version < 20; ++version) {
        held.push_back(observer.newest());
        std::fill(mine.begin(), mine.end(), version);
        outcome = region.try_publish(static_cast<std::uint64_t>(version));
    }
    FAILS(arena_full, "arena 'full'", outcome);
    FAILS(arena_full, "'big' has", outcome);
    CHECK(held.front().view<char>("mine")[0] == 1);
    held.clear();
    region.publish(100);
    CHECK(first<char>(observer, "mine") == mine[0]);
    region.unlink();
}

TEST(an_arena_may_be_handed_in) {
    const int file = memfd_create("stillframe-test", MFD_CLOEXEC);
    CHECK(file >= 0);
    const auto vm = sf::arena::from_descriptor(file, "vm", of(16));
    const int read_only = open(("/proc/self/fd/" + std::to_string(file)).c_str(), O_RDONLY | O_CLOEXEC);
    const auto look = sf::arena::from_descriptor(read_only, "vm");
    close(read_only);
    close(file);
    sf::region region("u", sf::options().arena(vm));
    double x = 5;
    region.track("x", x);
    region.publish(1);
    for (const auto* arena : {&vm, &look}) {
        const sf::observer observer("u", sf::observer_options().arena(*arena));
        CHECK(observer.name() == "vm/u");
        CHECK(first<double>(observer, "x") == 5);
        THROWS(no_region, "'v'", sf::observer("v", sf::observer_options().arena(*arena)));
    }
    THROWS(bad_option, "opened to look only", sf::region("v", sf::options().arena(look)));
    THROWS(bad_argument, "-1 is none", sf::arena::from_descriptor(-1, "vm", of(16)));
    region.unlink();
}

static sf::arena handed_in(const std::string& name) {
    const int file = memfd_create("stillframe-test", MFD_CLOEXEC);
    CHECK(file >= 0);
    auto arena = sf::arena::from_descriptor(file, name, of(64));
    close(file);
    return arena;
}

TEST(a_group_in_an_arena_that_was_handed_in_is_observed_as_one) {
    const auto vm = handed_in("vm"), other = handed_in("other");
    std::vector<sf::region> ranks;
    double x[2];
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
        ranks.emplace_back("g", sf::options().arena(vm).rank(rank, 2).keep(2).threads(1));
        CHECK(ranks.back().name() == "vm/g/" + std::to_string(rank));
        ranks.back().track("x", x[rank]);
        // Rank 0 is a version ahead.
        for (std::uint64_t version = 1; version <= 3 - rank; ++version) {
            x[rank] = static_cast<double>(10 * version + rank);
            ranks.back().publish(version);
        }
    }
    const sf::group group("g", sf::observer_options().arena(vm));
    CHECK(group.name() == "vm/g" && group.size() == 2);
    for (std::uint64_t version = 1; version <= 2; ++version) {
        const auto all = group.version(version);
        CHECK(all.version() == version && all.size() == 2);
        for (std::size_t rank = 0; rank < 2; ++rank)
            CHECK(all[rank].view<double>("x")[0] == static_cast<double>(10 * version + rank));
    }
    CHECK(group.newest().version() == 2);
    THROWS(version_gone, "'vm/g/1'", group.version(3));
    THROWS(timeout, "'vm/g'", group.next_after(2, std::chrono::milliseconds(1)));
    // Nobody finds it by a name, nor in another arena.
    THROWS(no_region, "'vm/g'", sf::group("vm/g"));
    THROWS(no_region, "'g'", sf::group("g", sf::observer_options().arena(other)));
    THROWS(not_group, "'g/0'", sf::group("g/0", sf::observer_options().arena(vm)));
    for (auto& rank : ranks) rank.unlink();
}

TEST(what_cannot_be_is_refused) {
    THROWS(no_arena, "there is no arena 'none'", sf::arena::open("none"));
    THROWS(bad_option, "bytes", sf::arena("none", sf::arena_options()));
    THROWS(bad_option, "locks the owner out", sf::arena("none", of(16).mode(0070)));
    sf::arena pool("once", of(16).large_pages());
    THROWS(bad_option, "'once' is there already", sf::arena("once", of(32)));
    const auto look = sf::arena::open("once", sf::arena_options().look());
    CHECK(look.usage().regions.empty());
    THROWS(bad_option, "opened to look only", sf::region("r", sf::options().arena(look)));
    THROWS(bad_argument, "no meaning beside", sf::region("r", sf::options().arena(pool).dir("/dev/shm")));
    const auto options = sf::options().arena(pool);
    sf::arena moved = std::move(pool);
    CHECK(moved.usage().regions_max == 100);
    sf::region("r", options).unlink();
    moved.close();
    THROWS(bad_handle, "arena", moved.usage());
    THROWS(bad_handle, "this arena has ended", sf::region("r", options));
    // Without an arena the region would lie where everybody finds it.
    THROWS(bad_handle, "arena", sf::region("r", sf::options().arena(moved)));
    THROWS(bad_handle, "arena", sf::observer("r", sf::observer_options().arena(moved)));
    THROWS(bad_handle, "arena", sf::group("r", sf::observer_options().arena(moved)));
}

TEST(threads_make_regions_in_one_arena) {
    const sf::arena pool("threads", of(1024));
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&pool, i] {
            for (int round = 0; round < 10; ++round) {
                sf::region region("r" + std::to_string(i), sf::options().arena(pool).threads(1));
                region.track("round", round);
                region.publish(1);
                CHECK(first<int>(sf::observer(region.name()), "round") == round);
                region.unlink();
            }
        });
    }
    for (auto& thread : threads) thread.join();
    CHECK(pool.usage().regions.empty());
}

TEST(a_child_of_fork_opens_its_own_arena) {
    const sf::arena pool("forked", of(16));
    int one = 1;
    sf::region region("parent", sf::options().arena(pool).threads(1));
    region.track("one", one);
    region.publish(1);
    CHECK(check::in_child([&] {
              FAILS(forked, "fork", pool.try_usage());
              FAILS(forked, "fork", sf::region::try_create("other", sf::options().arena(pool)));
              const auto own = sf::arena::open("forked");
              FAILS(in_use, "parent", sf::region::try_create("parent", sf::options().arena(own)));
              return first<int>(sf::observer("forked/parent"), "one") == 1 ? 0 : 1;
          }) == 0);
    region.publish(2);
    region.unlink();
}
