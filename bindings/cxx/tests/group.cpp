// The ranks of a parallel program, seen as one.
#include "check.hpp"

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include <signal.h>

namespace sf = stillframe;
using namespace std::chrono_literals;

// One rank: a region, and an array that it publishes.
struct rank {
    rank(const char* name, int number, int ranks)
        : number(number), region(name, sf::options().rank(number, ranks).drift(8).fresh()), data(1000) {
        region.track("data", data);
    }

    void publish(std::uint64_t version) {
        std::fill(data.begin(), data.end(), static_cast<double>(version) + 0.1 * number);
        region.publish(version);
    }

    int number;
    sf::region region;
    std::vector<double> data;
};

static bool is_whole(const sf::group_snapshot& all, std::uint64_t version, std::size_t ranks) {
    bool whole = all.version() == version && all.size() == ranks;
    double number = 0;
    for (const sf::snapshot& snapshot : all) {
        const auto data = snapshot.view<double>("data");
        whole = whole && snapshot.version() == version && data.size() == 1000 &&
                data[0] == static_cast<double>(version) + 0.1 * number && data[999] == data[0];
        number += 1;
    }
    return whole;
}

TEST(a_group_shows_the_newest_version_that_every_rank_has) {
    rank first("group", 0, 3), second("group", 1, 3), third("group", 2, 3);
    CHECK(second.region.name() == "group/1");
    const sf::group group("group");
    CHECK(group.name() == "group" && group.size() == 3);
    FAILS(rank_missing, "version", group.try_newest());
    for (std::uint64_t version = 1; version <= 6; ++version) first.publish(version);
    for (std::uint64_t version = 1; version <= 3; ++version) second.publish(version);
    for (std::uint64_t version = 1; version <= 4; ++version) third.publish(version);
    CHECK(is_whole(group.newest(), 3, 3) && is_whole(group.version(3), 3, 3));
    CHECK(is_whole(group.newest_after(2, 1s), 3, 3) && is_whole(group.next_after(1, 1s), 3, 3));
    CHECK(group.wait_newer(2) == 3 && group.newest()[2].region() == "group/2");
    THROWS(timeout, "rank 1", group.next_after(3, 20ms));
    FAILS(version_gone, "group/", group.try_version(4));
    const auto ranks = group.ranks();
    CHECK(ranks.size() == 3 && ranks[1].rank == 1 && ranks[1].newest == 3u && ranks[1].behind == 3);
    CHECK(ranks[0].state == sf::rank_state::live && ranks[0].pid == static_cast<std::uint32_t>(getpid()));
    THROWS(is_group, "group", sf::observer("group"));
    FAILS(not_group, "", sf::group::try_open("group/1"));
    FAILS(no_region, "none", sf::group::try_open("none"));
    FAILS(bad_option, "rank", sf::region::try_create("group", sf::options().rank(-1, 3)));
    FAILS(bad_option, "rank", sf::region::try_create("group", sf::options().rank(3, 3)));
}

TEST(a_loop_over_a_group_sees_whole_versions_of_ranks_that_drift) {
    constexpr int ranks = 3;
    constexpr std::uint64_t last = 40;
    std::atomic<int> begun{0};
    std::vector<std::thread> threads;
    for (int number = 0; number < ranks; ++number) {
        threads.emplace_back([number, &begun] {
            rank rank("drift", number, ranks);
            // One that begins when another has ended is of another run.
            for (++begun; begun < ranks;) std::this_thread::yield();
            for (std::uint64_t version = 1; version <= last; ++version) {
                rank.publish(version);
                if ((version + static_cast<unsigned>(number)) % 5 == 0) std::this_thread::sleep_for(1ms);
            }
        });
    }
    const sf::group group("drift", sf::observer_options().wait(20s));
    std::uint64_t seen = 0;
    for (const auto& all : group.snapshots(20s)) {
        CHECK(all.version() > seen && is_whole(all, all.version(), ranks));
        seen = all.version();
    }
    for (auto& thread : threads) thread.join();
    CHECK(seen == last);
}

TEST(a_rank_that_is_killed_is_named) {
    rank survivor("killed", 0, 2);
    survivor.publish(1);
    const pid_t child = fork();
    if (child == 0) {
        rank victim("killed", 1, 2);
        victim.publish(1);
        for (;;) pause();
    }
    const sf::group group("killed", sf::observer_options().wait(20s));
    CHECK(is_whole(group.newest(), 1, 2));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    survivor.publish(2);
    THROWS(rank_gone, "rank 1", group.next_after(1, 20s));
    CHECK(group.ranks()[1].state == sf::rank_state::dead && is_whole(group.newest(), 1, 2));
    int turns = 0;
    bool threw = false;
    try {
        for (const auto& all : group.snapshots(20s)) turns += all.version() == 1;
    } catch (const sf::error& error) {
        threw = error.status() == sf::status::rank_gone;
    }
    CHECK(turns == 1 && threw);
}
