// What observers get: snapshots, iterations, pieces, changes.
#include "check.hpp"

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

namespace sf = stillframe;
using namespace std::chrono_literals;

TEST(a_loop_goes_through_versions_until_the_producer_is_gone) {
    std::atomic<bool> looking{false};
    std::thread producer([&] {
        sf::region region("loop", sf::options().keep(32));
        std::vector<std::uint64_t> u(4096);
        region.track("u", u);
        while (!looking) std::this_thread::yield();
        for (std::uint64_t version = 1; version <= 20; ++version) {
            std::fill(u.begin(), u.end(), version);
            region.publish(version);
        }
    });
    looking = true;
    const sf::observer every("loop", sf::observer_options().wait(20s));
    std::uint64_t last = 0, count = 0;
    for (auto& snapshot : every.snapshots(20s, sf::pace::every)) {
        const auto u = snapshot.view<std::uint64_t>("u");
        CHECK(snapshot.version() > last && u[0] == snapshot.version() && u[4095] == snapshot.version());
        last = snapshot.version();
        ++count;
    }
    producer.join();
    CHECK(last == 20 && count == 20 && !every.producer_alive());
    std::vector<sf::snapshot> kept;
    for (auto& snapshot : every.snapshots(0ms, sf::pace::newest, 5)) kept.push_back(std::move(snapshot));
    CHECK(kept.size() == 1 && kept[0].version() == 20 && kept[0].view<std::uint64_t>("u")[0] == 20);
}

TEST(an_iteration_ends_after_its_timeout) {
    sf::region region("quiet");
    region.publish(1);
    const sf::observer observer("quiet");
    int count = 0;
    for (const auto& snapshot : observer.snapshots(30ms)) {
        CHECK(snapshot.version() == 1);
        ++count;
    }
    CHECK(count == 1);
}

TEST(waiting_calls_say_why_they_end) {
    FAILS(no_region, "nobody", sf::observer::try_open("nobody"));
    FAILS(timeout, "nobody", sf::observer::try_open("nobody", sf::observer_options().wait(10ms)));
    auto region = std::make_unique<sf::region>("waits", sf::options().keep(4));
    const sf::observer observer("waits");
    CHECK(observer.name() == "waits" && observer.producer_alive());
    FAILS(no_version, "no version", observer.try_newest());
    FAILS(timeout, "waited", observer.try_next_after({}, 5ms));
    FAILS(timeout, "waited", observer.try_wait_newer({}, 5ms));
    for (const std::uint64_t version : {3u, 5u, 9u}) region->publish(version);
    CHECK(observer.next_after({}).version() == 3 && observer.next_after(3).version() == 5);
    CHECK(observer.newest_after(3, 1s).version() == 9 && observer.wait_newer(5) == 9);
    CHECK(observer.version(5).version() == 5);
    FAILS(version_gone, "4", observer.try_version(4));
    FAILS(timeout, "waited", observer.try_newest_after(9, 5ms));
    region.reset();
    FAILS(producer_gone, "gone", observer.try_newest_after(9));
    FAILS(producer_gone, "gone", observer.try_next_after(~std::uint64_t{0}));
}

TEST(threads_enter_what_is_viewed) {
    const std::vector<double> u(100000, 3.0);
    sf::region region("entered");
    region.track("u", u);
    region.publish(1);
    const sf::observer observer("entered", sf::observer_options().populate(3));
    const auto snapshot = observer.newest();
    const auto view = snapshot.view<double>("u");
    CHECK(view.size() == u.size() && view[0] == 3 && view[u.size() - 1] == 3);
    FAILS(bad_option, "1025", sf::observer::try_open("entered", sf::observer_options().populate(1025)));
}

TEST(who_is_trusted_is_said) {
    FAILS(bad_option, "everybody", sf::region::try_create("trusting", sf::options().trust("everybody")));
    sf::region region("trusting", sf::options().trust("own"));
    FAILS(bad_option, "group:", sf::observer::try_open("trusting", sf::observer_options().trust("group:")));
    sf::observer("trusting", sf::observer_options().trust("own"));
}

TEST(snapshots_outlive_observer_and_producer) {
    std::vector<double> u(100000, 3.0);
    auto region = std::make_unique<sf::region>("outlive");
    region->track("u", u);
    region->publish(1);
    auto observer = std::make_unique<sf::observer>("outlive");
    auto snapshot = observer->newest();
    const auto view = snapshot.view<double>("u");
    observer.reset();
    std::fill(u.begin(), u.end(), 4.0);
    region->publish(2);
    region->unlink();
    region.reset();
    CHECK(view[0] == 3.0 && view[99999] == 3.0);
    snapshot.release();
    snapshot.release();
    FAILS(bad_handle, "", snapshot.try_view<double>("u"));
}

TEST(pieces_and_changes_come_to_callables) {
    std::vector<std::uint32_t> u(64 * 1024);
    for (std::size_t index = 0; index < u.size(); ++index) u[index] = static_cast<std::uint32_t>(index);
    sf::region region("pieces", sf::options().keep(4));
    region.track("u", u);
    region.publish(1);
    const sf::observer observer("pieces");
    const auto old = observer.newest();
    u[30000] = 0;
    region.publish(2);
    const auto snapshot = observer.newest();
    std::vector<std::byte> bytes;
    snapshot.chunks("u", [&](std::size_t offset, sf::span<const std::byte> chunk) {
        CHECK(offset == bytes.size());
        bytes.insert(bytes.end(), chunk.begin(), chunk.end());
    });
    CHECK(bytes.size() == u.size() * 4 && std::memcmp(bytes.data(), u.data(), bytes.size()) == 0);
    CHECK(snapshot.bytes("u").size() == bytes.size());
    std::size_t seen = 0;
    snapshot.chunks("u", {4000, 9000}, [&](std::size_t offset, sf::span<const std::byte> chunk) {
        CHECK(std::memcmp(chunk.data(), bytes.data() + offset, chunk.size()) == 0);
        seen += chunk.size();
    });
    CHECK(seen == 9000);

    const auto ranges = snapshot.changed(old, "u");
    CHECK(!ranges.empty());
    std::size_t changed = 0;
    bool has = false;
    for (const auto& range : ranges) {
        changed += range.bytes;
        has |= range.offset <= 120000 && 120000 < range.offset + range.bytes;
    }
    CHECK(has && changed < bytes.size());
    auto followed = observer.version(old.version());
    CHECK(followed.view<std::uint32_t>("u").size() == u.size());
    followed.advance(observer.newest());
    CHECK(followed.version() == snapshot.version());
    CHECK(std::memcmp(followed.bytes("u").data(), u.data(), bytes.size()) == 0);
    int calls = 0;
    snapshot.changed(old, "u", [&](std::size_t, std::size_t) { return ++calls < 1; });
    CHECK(calls == 1);
    int stopped = 0;
    snapshot.chunks("u", [&](std::size_t, const auto&) {
        ++stopped;
        return false;
    });
    CHECK(stopped == 1);
    FAILS(unknown_variable, "w", snapshot.try_chunks("w", [](std::size_t, const auto&) {}));
    FAILS(out_of_range, "u", snapshot.try_chunks("u", {1, bytes.size()}, [](std::size_t, const auto&) {}));
}

TEST(what_a_callable_throws_comes_out_and_the_snapshot_stays_usable) {
    std::vector<int> u(10000, 1);
    sf::region region("throws");
    region.track("u", u);
    region.publish(1);
    const auto snapshot = sf::observer("throws").newest();
    bool caught = false;
    try {
        snapshot.chunks("u", [](std::size_t, const auto&) { throw std::runtime_error("mine"); });
    } catch (const std::runtime_error& error) {
        caught = std::strcmp(error.what(), "mine") == 0;
    }
    CHECK(caught && snapshot.view<int>("u")[5] == 1);
    snapshot.chunks("u", [&](std::size_t, const auto&) { CHECK(snapshot.view<int>("u")[9999] == 1); });
}

TEST(views_are_of_the_right_type_and_shape) {
    std::vector<std::array<float, 2>> pairs(3);
    sf::region region("types");
    region.track("pairs", pairs);
    region.track("columns", pairs, sf::declaration().order(sf::order::fortran));
    region.publish(1);
    const auto snapshot = sf::observer("types").newest();
    THROWS(wrong_dtype, "'pairs' holds float32, not float64", snapshot.view<double>("pairs"));
    FAILS(wrong_shape, "[3, 2]", (snapshot.try_view<std::array<float, 3>>("pairs")));
    FAILS(wrong_shape, "row-major", (snapshot.try_view<std::array<float, 2>>("columns")));
    FAILS(unknown_variable, "pairs", snapshot.try_view<float>("pair"));
    std::vector<float> copy(7);
    FAILS(out_of_range, "pairs", snapshot.try_read("pairs", sf::span<float>(copy)));
    std::vector<int> wrong(2);
    FAILS(wrong_dtype, "int32", snapshot.try_read("pairs", sf::span<int>(wrong)));
}

TEST(regions_are_listed_removed_and_collected) {
    const std::string dir = std::string(std::getenv("STILLFRAME_DIR")) + "/inspected";
    const auto options = sf::options().dir(dir);
    sf::region living("living", options);
    living.publish(4);
    sf::region("dead", options).publish(2);
    sf::region("other", options).publish(3);
    auto regions = sf::regions(dir);
    CHECK(regions.size() == 3 && regions[0].name == "dead" && regions[0].state == sf::region_state::dead);
    CHECK(regions[1].name == "living" && regions[1].state == sf::region_state::live && regions[1].newest == 4u);
    CHECK(regions[1].pid == static_cast<std::uint32_t>(getpid()) && regions[1].published == 1);
    THROWS(in_use, "living", sf::remove_region("living", false, dir));
    FAILS(no_region, "none", sf::try_remove_region("none", false, dir));
    CHECK(sf::remove_region("dead", false, dir) > 0);
    CHECK(sf::collect(dir) == 1 && sf::regions(dir).size() == 1);
    CHECK(sf::regions(dir + "/nothing").empty());
    CHECK(sf::verify("living", dir).empty() && !sf::diagnose(dir).empty());
    const sf::observer observer("living", sf::observer_options().dir(dir));
    CHECK(sf::holders("living", dir).empty());
    const auto held = observer.newest();
    const auto holders = sf::holders("living", dir);
    CHECK(holders.size() == 1 && holders[0].pid == getpid() && holders[0].version == 4u && !holders[0].command.empty() &&
          holders[0].enclave.empty());
    CHECK(!sf::library_version().empty());
}
