// Beginning again from memory or checkpoints, and checkpoints while a program runs.
#include "check.hpp"

#include <chrono>
#include <numeric>

namespace sf = stillframe;
using namespace std::chrono_literals;

// A directory for checkpoints, which is not there yet.
struct store {
    store() {
        char made[] = "/tmp/stillframe-cxx-XXXXXX";
        if (!mkdtemp(made)) check::fail(__FILE__, __LINE__, "no directory");
        above = made;
        path = above + "/ckpt";
    }
    ~store() { std::filesystem::remove_all(above); }

    std::string above, path;
};

static void save(const std::string& name, const std::string& to, std::uint64_t version) {
    sf::checkpointer checkpointer(name, to, sf::checkpoint_options().once());
    CHECK(checkpointer.wait_safe(version, 60s));
    CHECK(checkpointer.stop().saved == 1);
}

TEST(a_region_begins_with_memory_or_a_checkpoint_or_nothing_and_says_which) {
    const store store;
    std::vector<double> x(12), back(12);
    std::iota(x.begin(), x.end(), 0.0);
    std::vector<std::array<float, 3>> positions(5, {1, 2, 3}), positions_back(5);
    {
        auto [region, origin] = sf::recover("heat", store.path);
        CHECK(!origin && origin.version == 0 && origin.path.empty() && origin.skipped.empty());
        THROWS(nothing_recovered, "'x'", region.read("x", x));
        CHECK(region.recovered_variables().empty());
        auto u = region.array<double>("u", {100, 50});
        u(99, 49) = 1.5;
        region.track("x", x, {3, 4});
        region.track("positions", positions);
        region.fill("u");
        region.publish(7, sf::attribute("time", 0.25));
        THROWS(bad_argument, "has published", region.read("x", x));
        FAILS(bad_argument, "has published", region.try_recovered_variables());
        save("heat", store.path, 7);
        u(99, 49) = 2.5;
        region.publish(8);
    }
    {
        auto [region, origin] = sf::recover("heat", store.path);
        CHECK(origin && origin.kind == sf::origin_kind::memory && origin.version == 8);
        CHECK((region.array<double>("u", {100, 50})(99, 49) == 2.5));
        region.unlink();
    }
    {
        auto [region, origin] = sf::recover("heat", store.path);
        CHECK(origin.kind == sf::origin_kind::checkpoint && origin.version == 7 && !origin.path.empty());
        const auto variables = region.recovered_variables();
        CHECK(variables.size() == 3 && variables[0].name == "positions" && variables[0].dtype == "float32");
        CHECK((variables[0].shape == sf::shape{5, 3} && variables[1].shape == sf::shape{100, 50}));
        CHECK((variables[2].name == "x" && variables[2].dtype == "float64" && variables[2].shape == sf::shape{3, 4}));
        CHECK(std::get<double>(region.recovered_attribute("time")) == 0.25);
        FAILS(unknown_attribute, "time", region.try_recovered_attribute("tim"));
        CHECK((region.array<double>("u", {100, 50})(99, 49) == 1.5));
        region.track("x", back, {3, 4});
        region.read("x", back, {3, 4});
        CHECK(back == x);
        region.read("positions", positions_back);
        CHECK(positions_back == positions);
        double box[2][3];
        region.read("x", box, 2, {1, 1});
        CHECK(box[0][0] == 5 && box[1][2] == 11);
        region.read("x", &box[0][0], {3, 2}, {0, 2}, sf::order::fortran);
        CHECK(box[0][0] == 2 && box[0][1] == 6 && box[1][0] == 3);
        FAILS(wrong_dtype, "int32", region.try_read("x", std::vector<int>(12)));
        FAILS(wrong_shape, "'x'", region.try_read("x", back, {3, 4}, {1, 0}));
        FAILS(wrong_shape, "[1]", region.try_read("x", back, {3, 4}, 1));
        FAILS(unknown_variable, "'y'", region.try_read("y", back, {3, 4}));
        region.unlink();
    }
    FAILS(no_such_version, "3", sf::try_recover("heat", store.path, sf::options(), 3));
    sf::region plain("plain");
    FAILS(bad_argument, "made by stillframe_create", plain.try_read("x", back));
}

// A run of so many ranks that checks what it begins with, and goes one version on. Those of odd versions balance their load
// before they begin: the first rank has one row more, the last one less.
static sf::origin_kind run(int ranks, std::uint64_t version, const std::string& store) {
    std::vector<sf::recovery> all;
    for (int rank = 0; rank < ranks; ++rank) all.push_back(sf::recover("plate", store, sf::options().rank(rank, ranks)));
    std::vector<std::vector<double>> x(static_cast<std::size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
        auto& [region, origin] = all[static_cast<std::size_t>(rank)];
        CHECK(origin.version == version - 1);
        int top = rank * 13 / ranks, rows = (rank + 1) * 13 / ranks - top;
        auto& block = x[static_cast<std::size_t>(rank)];
        const auto part = sf::declaration().part({top, 0}, {13, 6});
        auto u = region.array<double>("u", {rows, 6}, part);
        region.track("x", block, {rows, 6}, part);
        region.fill("u");
        if (version % 2 == 1) {
            const int bottom = top + rows + (rank < ranks - 1);
            top += rank > 0;
            rows = bottom - top;
            u = region.repart<double>("u", {rows, 6}, {{top, 0}, {13, 6}});
            region.fill("u");
            region.repart("x", {{top, 0}, {13, 6}});
            region.track("x", block, {rows, 6});
        }
        block.resize(static_cast<std::size_t>(rows * 6));
        if (origin) region.read("x", block, {rows, 6});
        for (std::size_t cell = 0; cell < block.size(); ++cell) {
            const double was = origin ? top * 6 + static_cast<double>(cell + 1000 * origin.version) : 0;
            CHECK(block[cell] == was && u[cell] == was);
            block[cell] = u[cell] = top * 6 + static_cast<double>(cell + 1000 * version);
        }
    }
    for (auto& [region, origin] : all) region.publish(version);
    save("plate", store, version);
    return all[0].origin.kind;
}

TEST(a_group_goes_on_with_any_number_of_ranks) {
    const store store;
    CHECK(run(4, 1, store.path) == sf::origin_kind::fresh);
    CHECK(run(3, 2, store.path) == sf::origin_kind::memory);
    sf::remove_region("plate");
    CHECK(run(6, 3, store.path) == sf::origin_kind::checkpoint);
    CHECK(run(6, 4, store.path) == sf::origin_kind::memory);
}

TEST(a_checkpointer_saves_what_is_published_and_says_what_is_safe) {
    const store store;
    sf::region region("saved");
    std::vector<int> u(5000);
    region.track("u", u);
    region.publish(1);
    CHECK(!sf::newest_safe(store.path) && !sf::is_safe(store.path, 1) && !sf::wait_safe(store.path, 1, 10ms));
    sf::checkpointer checkpointer("saved", store.path, sf::checkpoint_options().every(10).keep(2).keep_every(20).nice(0));
    THROWS(locked, "writes checkpoints into", sf::checkpointer("saved", store.path));
    for (std::uint64_t version = 2; version <= 50; ++version) {
        u[version] = static_cast<int>(version);
        region.publish(version);
        if (version % 10 == 0) CHECK(checkpointer.wait_safe(version, 60s));
    }
    CHECK(!checkpointer.wait_safe(51, 10ms) && !checkpointer.wait_safe_from(51, 10ms));
    CHECK(checkpointer.wait_safe_from(31, 10ms) == 50u);
    const auto status = checkpointer.status();
    CHECK(status.state == sf::checkpoint_state::running && status.newest_safe == 50u && status.error.empty());
    CHECK(checkpointer.stop().state == sf::checkpoint_state::ended);
    THROWS(bad_handle, "checkpointer", checkpointer.status());
    CHECK(sf::is_safe(store.path, 20) && !sf::is_safe(store.path, 30) && sf::newest_safe(store.path) == 50u);
    CHECK(sf::wait_safe_from(store.path, 31, 10ms) == 50u && !sf::wait_safe_from(store.path, 51, 10ms));
    FAILS(expression, "u >", sf::checkpointer::try_start("saved", store.path, sf::checkpoint_options().when("u >")));
    FAILS(bad_option, "nice", sf::checkpointer::try_start("saved", store.path, sf::checkpoint_options().nice(20)));
    FAILS(bad_option, "everybody",
          sf::checkpointer::try_start("saved", store.path, sf::checkpoint_options().trust("everybody")));
    FAILS(no_region, "none", sf::checkpointer::try_start("none", store.path));
    CHECK(sf::family_of(sf::status::locked) == sf::family::environment);
    CHECK(sf::family_of(sf::status::damaged) == sf::family::corrupt);
}
