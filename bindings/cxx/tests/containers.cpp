// Containers in the memory of a region.
#include "check.hpp"

#include <deque>
#include <map>
#include <memory_resource>
#include <numeric>
#include <string>
#include <thread>

#include <sys/resource.h>

namespace sf = stillframe;

template <class T>
using managed_vector = std::vector<T, sf::allocator<T>>;

TEST(a_vector_with_the_allocator_is_published_without_further_words) {
    sf::region region("vector");
    managed_vector<double> v(1000, 2.5, sf::allocator<double>(region, "v", sf::declaration().units("K")));
    region.publish(1);
    const auto snapshot = sf::observer("vector").newest();
    const auto view = snapshot.view<double>("v");
    CHECK(view.shape() == sf::shape(1000) && view[0] == 2.5 && view[999] == 2.5 && snapshot.variable("v").units == "K");
}

TEST(growth_moves_the_variable_along_while_it_is_published_and_observed) {
    sf::region region("growth");
    managed_vector<std::uint64_t> v(sf::allocator<std::uint64_t>(region, "v"));
    const sf::observer observer("growth");
    std::vector<std::pair<sf::snapshot, std::size_t>> held;
    std::uint64_t version = 0;
    region.publish(++version);
    CHECK(observer.newest().variables().empty());
    for (std::uint64_t index = 0; index < 200000; ++index) {
        v.push_back(index);
        if (index % 9973 != 0) continue;
        region.publish(++version);
        held.emplace_back(observer.newest(), v.size());
        CHECK(held.back().first.view<std::uint64_t>("v").size() == v.capacity());
    }
    for (const auto& [snapshot, size] : held) {
        const auto view = snapshot.view<std::uint64_t>("v");
        for (std::size_t index = 0; index < size; ++index) CHECK(view[index] == index);
    }
    v.clear();
    v.shrink_to_fit();
    region.publish(++version);
    CHECK(observer.newest().variables().empty());
}

TEST(a_tracked_managed_vector_is_published_with_its_size_and_shape) {
    sf::region region("exact");
    managed_vector<int> v{sf::allocator<int>(region, "v")};
    region.track("v", v);
    const sf::observer observer("exact");
    region.publish(1);
    CHECK(observer.newest().variables().empty());
    v.reserve(10000);
    std::uint64_t version = 1;
    // Down and up again within the capacity, where what is published shrinks and grows in place.
    for (const std::size_t size : {10u, 9000u, 17u, 10000u, 0u, 5000u, 20000u}) {
        const int* const before = v.data();
        const auto capacity = v.capacity();
        v.resize(size, static_cast<int>(size));
        std::iota(v.begin(), v.end(), static_cast<int>(version));
        CHECK(size > capacity || v.data() == before);
        region.publish(++version);
        const auto snapshot = observer.newest();
        const auto view = snapshot.view<int>("v");
        CHECK(view.size() == size && std::equal(v.begin(), v.end(), view.begin()));
    }
    v.resize(12);
    region.publish(++version, sf::array("v", v, {3, 4}));
    const auto snapshot = observer.newest();
    CHECK(snapshot.view<int>("v").shape() == sf::shape(3, 4) && snapshot.view<int>("v")(2, 3) == v[11]);
    FAILS(wrong_shape, "exceeds", region.try_publish(++version, sf::array("v", v.data(), {1 << 20})));
    // Under another name it is another variable over the same memory.
    v[0] = 77;
    region.publish(++version, sf::array("w", v));
    const auto both = observer.newest();
    CHECK(both.view<int>("w")[0] == 77 && both.view<int>("v")[0] == 77 && both.view<int>("w").size() == 12);
}

TEST(a_container_is_the_part_that_its_allocator_says) {
    sf::region region("part");
    const sf::observer observer("part");
    const auto offset = [&](const char* name) { return observer.newest().variable(name).part->offset; };
    const auto at = [](std::size_t first) { return sf::declaration().part(first, 100); };
    managed_vector<int> v(4, 1, sf::allocator<int>(region, "v", at(10)));
    region.track("v", v, at(10));
    region.publish(1);
    v.resize(40);
    region.publish(2);
    CHECK(offset("v") == sf::shape(10));

    FAILS(wrong_kind, "allocator", region.try_repart<int>("v", 4, {50, 100}));
    FAILS(wrong_kind, "allocator", region.try_repart("v", {50, 100}));
    FAILS(variable_exists, "[10] in [100], and given as the one at [50]",
          region.try_publish(3, sf::array("v", v, 40, at(50))));
    region.track("v", v, at(50));
    FAILS(variable_exists, "allocator", region.try_publish(3));
    v = managed_vector<int>(4, 1, sf::allocator<int>(region, "v", at(50)));
    region.publish(3);
    v.resize(40);
    region.publish(4);
    CHECK(offset("v") == sf::shape(50) && observer.newest().variable("v").shape == sf::shape(40));

    // Under another name it is tracked.
    region.track("w", v, at(50));
    region.publish(5);
    FAILS(variable_exists, "repart", region.try_track("w", v, at(60)));
    region.repart("w", {60, 100});
    region.publish(6);
    CHECK(offset("w") == sf::shape(60));
}

TEST(copies_live_in_ordinary_memory_and_moves_take_the_name_along) {
    sf::region region("copies");
    const sf::observer observer("copies");
    managed_vector<int> v({1, 2, 3}, sf::allocator<int>(region, "v"));
    managed_vector<int> copy = v;
    CHECK(!copy.get_allocator().is_managed() && copy == v && v.get_allocator().is_managed());
    copy.push_back(4);
    region.publish(1);
    {
        const auto snapshot = observer.newest();
        CHECK(snapshot.variables().size() == 1 && snapshot.view<int>("v").size() == 3);
    }
    managed_vector<int> moved = std::move(v);
    moved[0] = 9;
    region.publish(2);
    {
        const auto snapshot = observer.newest();
        CHECK(snapshot.view<int>("v")[0] == 9);
    }
    managed_vector<int> w({7, 8}, sf::allocator<int>(region, "w"));
    swap(moved, w);
    CHECK(moved.size() == 2 && w[0] == 9);
    // Assignment of a copy keeps the memory, and the name.
    w = copy;
    CHECK(w.get_allocator().is_managed() && w.size() == 4);
    region.publish(3);
    {
        const auto snapshot = observer.newest();
        CHECK(snapshot.view<int>("v")[3] == 4 && snapshot.view<int>("w")[0] == 7);
    }
    // Memory of the one variable is given back, and that of the other stays.
    w = std::move(moved);
    region.publish(4);
    CHECK(observer.newest().variables().size() == 1 && w[1] == 8);
    managed_vector<int> ordinary;
    ordinary.resize(100);
    CHECK(!ordinary.get_allocator().is_managed());
}

TEST(two_containers_of_one_name_are_refused_at_publish) {
    sf::region region("two");
    const sf::allocator<int> allocator(region, "v");
    managed_vector<int> first(10, 1, allocator);
    {
        managed_vector<int> second(10, 2, allocator);
        FAILS(variable_exists, "the memory of two containers", region.try_publish(1));
        first = managed_vector<int>();
        region.publish(1);
        const auto snapshot = sf::observer("two").newest();
        CHECK(snapshot.view<int>("v")[0] == 2);
    }
    region.array<int>("taken", {1});
    bool threw = false;
    try {
        managed_vector<int> third(10, 3, sf::allocator<int>(region, "taken"));
    } catch (const sf::error& error) {
        threw = error.status() == sf::status::variable_exists;
    }
    CHECK(threw);
}

// Whether the vector cannot have so many elements, and what is thrown says so.
template <class T>
static bool is_refused(managed_vector<T>& v, std::size_t count) {
    try {
        v.reserve(count);
    } catch (const sf::bad_alloc& error) {
        return error.cause().family() == sf::family::environment && std::strlen(error.what()) > 0;
    } catch (const sf::error& error) {
        // More than any variable can have is the program's mistake, not a lack of memory.
        return error.status() == sf::status::wrong_shape;
    }
    return false;
}

static void check_that_it_stays_published(std::size_t count) {
    sf::region region("full");
    managed_vector<double> v(1000, 1.0, sf::allocator<double>(region, "v"));
    const sf::observer observer("full");
    region.publish(1);
    for (std::size_t turn = 0; turn < 2; ++turn) {
        CHECK(is_refused(v, count) && v.size() == 1000 && v[999] == 1.0);
        v[turn] = 7.0;
        region.publish(turn + 2);
        const auto snapshot = observer.newest();
        CHECK(snapshot.view<double>("v").size() == 1000 && snapshot.view<double>("v")[turn] == 7.0);
    }
    v.resize(5000, 2.0);
    region.publish(4);
    {
        const auto snapshot = observer.newest();
        CHECK(snapshot.view<double>("v")[0] == 7.0 && snapshot.view<double>("v")[4999] == 2.0);
    }
    CHECK(is_refused(v, count));
    v = managed_vector<double>();
    region.publish(5);
    CHECK(observer.newest().variables().empty());
    region.unlink();
}

TEST(a_vector_that_can_grow_no_more_keeps_what_it_has_and_stays_published) {
    check_that_it_stays_published(std::size_t{1} << 44);
}

#if !defined(__SANITIZE_ADDRESS__)
TEST(a_vector_that_finds_no_memory_keeps_what_it_has_and_stays_published) {
    rlimit before{};
    CHECK(getrlimit(RLIMIT_AS, &before) == 0);
    const rlimit less{std::min<rlim_t>(before.rlim_max, rlim_t{1} << 40), before.rlim_max};
    CHECK(setrlimit(RLIMIT_AS, &less) == 0);
    check_that_it_stays_published(std::size_t{1} << 39);
    CHECK(setrlimit(RLIMIT_AS, &before) == 0);
}
#endif

TEST(containers_outlive_their_region) {
    managed_vector<int> v, w;
    {
        sf::region region("outlived");
        v = managed_vector<int>(3000, 5, sf::allocator<int>(region, "v"));
        w = managed_vector<int>({1}, sf::allocator<int>(region, "w"));
        region.publish(1);
        w.push_back(2);
    }
    CHECK(v[2999] == 5 && w[1] == 2);
    v.push_back(6);
    CHECK(v.size() == 3001 && v[3000] == 6 && !v.get_allocator().is_managed());
    const auto snapshot = sf::observer("outlived").newest();
    CHECK(snapshot.view<int>("v")[2999] == 5);
}

// Publishes until what is not written exists once, in the region's files.
static void let_cool(sf::region& region, managed_vector<int>& v, std::uint64_t first) {
    for (std::uint64_t version = first; version < first + 120; ++version) {
        v[7] = static_cast<int>(version);
        region.publish(version);
    }
}

TEST(containers_keep_what_they_have_whatever_the_next_producer_publishes) {
    constexpr std::size_t size = 1 << 20;
    managed_vector<int> v;
    {
        sf::region region("followed");
        v = managed_vector<int>(size, 5, sf::allocator<int>(region, "v"));
        let_cool(region, v, 1);
        v[7] = 5;
    }
    {
        sf::region region("followed");
        managed_vector<int> next(size, 0, sf::allocator<int>(region, "v"));
        for (int value = 6; value < 9; ++value) {
            std::fill(next.begin(), next.end(), value);
            region.publish(1000 + static_cast<std::uint64_t>(value));
        }
    }
    CHECK(std::count(v.begin(), v.end(), 5) == size);
}

TEST(a_container_that_grows_takes_along_what_lies_in_the_region_s_files) {
    sf::region region("growing");
    managed_vector<int> v(1 << 20, 5, sf::allocator<int>(region, "v"));
    let_cool(region, v, 1);
    v.push_back(6);
    v[7] = 5;
    region.publish(200);
    let_cool(region, v, 201);
    v[7] = 5;
    CHECK(std::count(v.begin(), v.end(), 5) == 1 << 20 && v.back() == 6);
    region.publish(400);
    const auto snapshot = sf::observer("growing").newest();
    const auto view = snapshot.view<int>("v");
    CHECK(std::equal(v.begin(), v.end(), view.begin()));
}

TEST(strings_and_arrays_of_arrays_have_managed_memory) {
    sf::region region("strings");
    std::basic_string<char, std::char_traits<char>, sf::allocator<char>> text(100, 'x', sf::allocator<char>(region, "text"));
    managed_vector<std::array<double, 3>> points(5, {1, 2, 3}, sf::allocator<std::array<double, 3>>(region, "points"));
    region.track("text", text);
    region.publish(1);
    const auto snapshot = sf::observer("strings").newest();
    CHECK(snapshot.view<char>("text").size() == 100 && snapshot.view<char>("text")[99] == 'x');
    CHECK(snapshot.view<double>("points").shape() == sf::shape(5, 3));
}

TEST(threads_may_grow_their_containers_at_the_same_time) {
    sf::region region("parallel");
    std::vector<managed_vector<int>> vectors;
    for (int index = 0; index < 4; ++index)
        vectors.emplace_back(sf::allocator<int>(region, "v" + std::to_string(index)));
    std::vector<std::thread> threads;
    for (auto& vector : vectors)
        threads.emplace_back([&vector] {
            for (int value = 0; value < 3000; ++value) vector.push_back(value);
        });
    for (auto& thread : threads) thread.join();
    region.publish(1);
    const auto snapshot = sf::observer("parallel").newest();
    for (int index = 0; index < 4; ++index)
        CHECK(snapshot.view<int>("v" + std::to_string(index))[2999] == 2999);
}

TEST(an_arena_takes_any_pmr_container) {
    sf::region region("arena");
    const sf::observer observer("arena");
    {
        sf::memory_resource arena(region, "arena", 4 << 20);
        std::pmr::vector<double> v(1000, 1.0, &arena);
        std::pmr::map<int, std::pmr::string> names(&arena);
        std::pmr::deque<int> numbers(5000, 3, &arena);
        region.track("v", v);
        for (int key = 0; key < 100; ++key) names[key] = "a name that is too long to be stored in place";
        for (std::uint64_t version = 1; version < 20; ++version) {
            v.resize(v.size() + 700, static_cast<double>(version));
            v[version] = -1;
            names.erase(static_cast<int>(version));
            region.publish(version);
            const auto snapshot = observer.newest();
            const auto view = snapshot.view<double>("v");
            CHECK(view.size() == v.size() && std::equal(v.begin(), v.end(), view.begin()));
            const auto bytes = snapshot.view<std::uint8_t>("arena");
            CHECK(bytes.size() == arena.capacity_bytes());
        }
        CHECK(arena.free_bytes() < arena.capacity_bytes());
        region.untrack("v");
        v = std::pmr::vector<double>(&arena);
        v.shrink_to_fit();
        names.clear();
        bool threw = false;
        const auto free = arena.free_bytes();
        try {
            v.resize(1 << 20);
        } catch (const std::bad_alloc& error) {
            threw = std::strstr(error.what(), "arena 'arena' of 4194304 bytes has no 8388608 bytes left");
        }
        CHECK(threw && arena.free_bytes() == free);
    }
    region.publish(100);
    CHECK(observer.newest().variables().size() == 1);
    THROWS(wrong_shape, "", sf::memory_resource(region, "huge", std::size_t{1} << 60));
}

TEST(an_arena_gives_each_byte_to_one_owner) {
    sf::region region("owners");
    sf::memory_resource arena(region, "arena", 1 << 20);
    struct owned {
        unsigned char* data;
        std::size_t bytes, alignment;
        unsigned char mark;
    };
    std::vector<owned> all;
    std::uint64_t state = 1;
    const auto random = [&](std::uint64_t below) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        return (state >> 33) % below;
    };
    for (int turn = 0; turn < 5000; ++turn) {
        if (all.size() > 40 || (!all.empty() && random(3) == 0)) {
            const auto index = random(all.size());
            const owned taken = all[index];
            for (std::size_t at = 0; at < taken.bytes; ++at) CHECK(taken.data[at] == taken.mark);
            arena.deallocate(taken.data, taken.bytes, taken.alignment);
            all.erase(all.begin() + static_cast<std::ptrdiff_t>(index));
        } else {
            const std::size_t bytes = random(3000), alignment = std::size_t{1} << random(8);
            auto* const data = static_cast<unsigned char*>(arena.allocate(bytes, alignment));
            CHECK(reinterpret_cast<std::uintptr_t>(data) % alignment == 0);
            const auto mark = static_cast<unsigned char>(turn);
            std::memset(data, mark, bytes);
            all.push_back({data, bytes, alignment, mark});
        }
    }
    for (const owned& taken : all) arena.deallocate(taken.data, taken.bytes, taken.alignment);
    CHECK(arena.free_bytes() == arena.capacity_bytes());
    // All of it is one piece again.
    arena.deallocate(arena.allocate(1 << 20, 1), 1 << 20, 1);
}

TEST(an_arena_outlives_its_region) {
    auto region = std::make_unique<sf::region>("arena-outlives");
    sf::memory_resource arena(*region, "arena", 1 << 16);
    std::pmr::vector<int> v({1, 2, 3}, &arena);
    // At the very beginning of the arena, and not the arena.
    region->track("v", v);
    region->publish(1);
    CHECK(sf::observer("arena-outlives").newest().variable("v").dtype == "int32");
    region.reset();
    v.push_back(4);
    CHECK(v[3] == 4 && v[0] == 1);
}
