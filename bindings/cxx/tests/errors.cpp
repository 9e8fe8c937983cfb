// What goes wrong, and that handles are owned once.
#include "check.hpp"

#include <limits>
#include <thread>
#include <type_traits>

namespace sf = stillframe;

static_assert(!std::is_copy_constructible_v<sf::region> && std::is_nothrow_move_constructible_v<sf::region>);
static_assert(!std::is_copy_constructible_v<sf::observer> && std::is_nothrow_move_assignable_v<sf::observer>);
static_assert(!std::is_copy_constructible_v<sf::snapshot> && std::is_nothrow_move_assignable_v<sf::snapshot>);
static_assert(!std::is_copy_constructible_v<sf::loan<double>> && std::is_nothrow_move_assignable_v<sf::loan<double>>);
static_assert(std::is_base_of_v<std::runtime_error, sf::error> && std::is_base_of_v<std::bad_alloc, sf::bad_alloc>);

TEST(a_region_has_one_producer_and_ends_with_its_object) {
    {
        sf::region first("raii");
        THROWS(in_use, "raii", sf::region("raii"));
    }
    sf::region second("raii");
    second.publish(1);
    CHECK(sf::observer("raii").producer_alive());
    second.close();
    second.close();
    CHECK(!sf::observer("raii").producer_alive());
    THROWS(bad_handle, "NULL", second.publish(2));
    sf::region third("raii");
    CHECK(third.recovered() == 1u);
    third.unlink();
    FAILS(no_region, "raii", sf::observer::try_open("raii"));
}

TEST(regions_move_with_what_they_follow) {
    std::vector<int> u{1, 2, 3};
    sf::region first("moves");
    first.track("u", u);
    sf::region second(std::move(first));
    second.publish(1);
    THROWS(bad_handle, "", first.publish(2));
    FAILS(bad_handle, "", first.try_track("v", u));
    sf::region third("moved-onto");
    third = std::move(second);
    // The region that was there before is closed.
    sf::region again("moved-onto");
    u.push_back(4);
    third.publish(2);
    const auto snapshot = sf::observer("moves").newest();
    CHECK(snapshot.view<int>("u").size() == 4 && third.name() == "moves");
    auto other = std::move(third);
    CHECK(other.newest() == 2u);
}

TEST(errors_have_status_family_and_text) {
    const sf::error misuse(sf::status::not_increasing, "text");
    CHECK(misuse.family() == sf::family::misuse && std::strcmp(misuse.what(), "text") == 0);
    CHECK(sf::family_of(sf::status::timeout) == sf::family::environment);
    CHECK(sf::family_of(sf::status::corrupt) == sf::family::corrupt);
    CHECK(sf::family_of(sf::status::internal) == sf::family::internal);
    CHECK(std::strcmp(sf::name(sf::status::not_increasing), "NOT_INCREASING") == 0);
    sf::region region("errors");
    region.publish(5);
    THROWS(not_increasing, "publish a higher number", region.publish(5));
    auto result = region.try_publish(4);
    CHECK(!result && !result.has_value() && result.error().status() == sf::status::not_increasing);
    THROWS(bad_option, "take 18446744073709551614 at most", region.publish(std::numeric_limits<std::uint64_t>::max()));
    auto fine = region.try_publish(6);
    CHECK(fine && fine->version == 6 && (*fine).version == 6 && std::move(fine).value().version == 6);
    THROWS(bad_name, "cannot name a region", sf::region("a b"));
    THROWS(bad_option, "wp_async", sf::region("tracker", sf::options().tracker("none")));
}

TEST(arrays_that_do_not_fit_are_refused_and_nothing_is_published) {
    sf::region region("fit");
    std::vector<double> u(6);
    std::vector<int> n(6);
    region.track("u", u, {2, 3});
    region.publish(1);
    u.resize(7);
    THROWS(wrong_shape, "shape [2, 3] does not fit the 7 elements", region.publish(2));
    CHECK(region.newest() == 1u);
    region.track("u", u);
    region.publish(2);
    FAILS(wrong_dtype, "declared with elements of float64, and the array given has int32", region.try_track("u", n));
    FAILS(wrong_dtype, "float64", region.try_publish(3, sf::array("u", n)));
    FAILS(wrong_shape, "give a shape", region.try_publish(3, sf::array("p", u.data())));
    FAILS(wrong_shape, "negative", region.try_publish(3, sf::array("p", u.data(), {-1})));
    FAILS(bad_argument, "NULL", region.try_publish(3, sf::array("p", static_cast<double*>(nullptr), {3})));
    FAILS(bad_name, "", region.try_track("a b", u));
    region.array<double>("managed", {3});
    FAILS(wrong_kind, "managed", region.try_publish(3, sf::array("managed", u)));
    FAILS(variable_exists, "managed", region.try_array<double>("managed", {3}));
    FAILS(wrong_shape, "", region.try_array<double>("huge", {std::size_t{1} << 40, std::size_t{1} << 40}));
    FAILS(wrong_shape, "negative", region.try_array<double>("negative", {2, -3}));
    double deep[1][1][1][1][1][1][1][1][2] = {};
    FAILS(wrong_shape, "more than 8", region.try_publish(3, sf::array("deep", deep)));
    region.publish(3);
    FAILS(unknown_variable, "none", region.try_remove("none"));
    FAILS(unknown_variable, "none", region.try_untrack("none"));
    FAILS(unknown_variable, "none", region.try_mark_dirty("none", 0, 1));
}

TEST(shapes_know_their_elements) {
    CHECK(sf::shape().elements() == 1 && sf::shape(3, 4).elements() == 12 && sf::shape(3, 0, -1).elements() == 0);
    CHECK(sf::shape(~std::size_t{0} / 2, 3).elements() == std::numeric_limits<std::size_t>::max());
    CHECK(!sf::shape(-1).is_possible() && sf::shape(1, 2).text() == "[1, 2]" && sf::shape(1) != sf::shape(1, 1));
}

TEST(a_child_of_fork_is_told_to_open_its_own) {
    std::vector<double, sf::allocator<double>> v;
    std::vector<int> u{1, 2, 3};
    // One thread: a child has no copies of the others, and what they had is lost to it.
    sf::region region("forked", sf::options().threads(1));
    region.track("u", u);
    v = std::vector<double, sf::allocator<double>>(100, 1.5, sf::allocator<double>(region, "v"));
    region.publish(1);
    sf::observer observer("forked");
    const int status = check::in_child([&] {
        FAILS(forked, "fork", region.try_publish(2));
        FAILS(forked, "fork", observer.try_newest());
        const auto own = sf::observer("forked").newest();
        CHECK(own.version() == 1);
        // Objects of the parent end here without touching what is the parent's.
        v = decltype(v)();
        sf::region ended = std::move(region);
        return 0;
    });
    CHECK(status == 0);
    region.publish(2);
    CHECK(observer.newest().version() == 2 && v[99] == 1.5);
}

TEST(threads_may_share_an_observer) {
    sf::region region("threads", sf::options().keep(8));
    std::vector<std::uint64_t> u(20000);
    region.track("u", u);
    region.publish(1);
    const sf::observer observer("threads");
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
        threads.emplace_back([&] {
            for (int turn = 0; turn < 50; ++turn) {
                const auto snapshot = observer.newest();
                const auto view = snapshot.view<std::uint64_t>("u");
                CHECK(view[0] == snapshot.version() - 1 && view[19999] == snapshot.version() - 1);
            }
        });
    }
    for (std::uint64_t version = 2; version < 60; ++version) {
        std::fill(u.begin(), u.end(), version - 1);
        region.publish(version);
    }
    for (auto& thread : threads) thread.join();
}
