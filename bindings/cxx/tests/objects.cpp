// Objects: one name for data that many processes hold.
#include "check.hpp"

#include <csignal>
#include <numeric>
#include <thread>

namespace sf = stillframe;
using std::chrono::milliseconds;
using std::chrono::seconds;

static_assert(!std::is_copy_constructible_v<sf::object> && std::is_nothrow_move_assignable_v<sf::object>);
static_assert(!std::is_copy_constructible_v<sf::write_fragment> && std::is_nothrow_move_assignable_v<sf::write_fragment>);
static_assert(!std::is_copy_constructible_v<sf::read_fragment> && std::is_nothrow_move_assignable_v<sf::read_fragment>);

static const char* const grid = "var grid [8,8] float64";

// valgrind cannot map as many addresses as there are by default.
static sf::object_options small() { return sf::object_options().arena(std::uint64_t{1} << 30, 1000); }

static sf::write_fragment rows(const sf::object& object, std::uint32_t rank, std::int64_t count) {
    const auto options = sf::write_options().bind("first", rank * count).bind("rows", count).rank(rank).keep(2).wait(milliseconds(1));
    return object.write("{ var g [x:rows,y:8] = grid[x+first,y] }", options);
}

TEST(readers_get_what_writers_publish_in_any_layout) {
    const sf::object heat("layouts", grid, small());
    CHECK(heat.name() == "layouts" && heat.newest() == 0 && heat.versions().empty() && heat.writers().empty());
    auto upper = rows(heat, 0, 4), lower = rows(heat, 1, 4);
    auto turned = heat.read("view t columnmajor { var t [x:2,y:8] = grid[x+3,y] }");
    const auto t = turned.view<double>();
    CHECK(t.shape() == sf::shape(2, 8) && t.order() == sf::order::fortran && t(1, 7) == 0 && turned.version() == 0);
    std::vector<std::uint64_t> published;
    for (std::uint64_t version = 1; version <= 4; ++version) {
        for (auto* half : {&upper, &lower}) {
            const auto g = half->view<double>("g");
            CHECK(g.rank() == 2 && g.extent(0) == 4 && g.extent(1) == 8);
            std::iota(g.begin(), g.end(), half == &upper ? 0 : 32);
            g(3, 0) += static_cast<double>(version);
            CHECK(half->publish(version).version == version && half->version() == version);
        }
        turned.reattach(version, seconds(20));
        CHECK(turned.version() == version && !turned.is_shown());
        // At the same address.
        for (std::size_t y = 0; y < 8; ++y) {
            CHECK(t(0, y) == static_cast<double>(24 + y + (y == 0 ? version : 0)));
            CHECK(t(1, y) == static_cast<double>(32 + y));
        }
    }
    CHECK(heat.newest() == 4 && heat.versions().back() == 4 && heat.wait_newer(3) == 4);
    CHECK(turned.reattach_newer(1, seconds(20)) == 4 && turned.bytes().size() == 128);
    heat.wait_for(4, seconds(20));
    THROWS(timeout, "version 5", heat.wait_for(5, milliseconds(1)));
    CHECK(turned.published_ns() > 1'000'000'000'000'000'000u);
    THROWS(timeout, "rank 0", turned.reattach(5, milliseconds(1)));
    THROWS(timeout, "rank 1", heat.wait_newer(4, milliseconds(1)));
    THROWS(object_lost, "version 1", turned.reattach(1));
    THROWS(not_increasing, "does not follow 4", upper.publish(4));
    const auto writers = heat.writers();
    CHECK(writers.size() == 2 && writers[1].rank == 1u && writers[1].pid == static_cast<std::uint32_t>(getpid()));
    CHECK(writers[1].alive && writers[1].from == 1 && writers[1].newest == std::uint64_t{4} && !writers[1].left);
    CHECK(writers[1].bindings == (sf::bindings{{"first", 4}, {"rows", 4}}) && writers[1].text.find("g [x:rows") != std::string::npos);
    // The region of a fragment is a region like others.
    const auto snapshot = sf::observer(writers[1].region).newest();
    CHECK(snapshot.view<double>("g")(0, 1) == 33);
    CHECK(sf::objects() == std::vector<std::string>{"layouts"});
    THROWS(in_use, "rank 0", sf::remove_object("layouts"));
    upper.detach();
    THROWS(bad_handle, "fragment", upper.publish(5));
    lower = std::move(upper);
    sf::remove_object("layouts");
    CHECK(sf::objects().empty());
    THROWS(no_object, "'layouts'", sf::object::open("layouts"));
}

TEST(a_loaned_fragment_computes_the_next_from_the_previous) {
    const sf::object object("loaned", grid, small());
    auto mine = object.write("{ var g = grid }", sf::write_options().loaned());
    const auto reader = [&](std::uint64_t version) {
        return object.read("{ var g = grid }", sf::read_options().version(version, seconds(20)).threads(1));
    };
    CHECK(mine.previous<double>().empty());
    const auto first = mine.view<double>();
    std::iota(first.begin(), first.end(), 0);
    mine.publish(1);
    for (std::uint64_t version = 2; version < 10; ++version) {
        const auto previous = mine.previous<double>("g");
        const auto next = mine.view<double>("g");
        CHECK(previous.data() != next.data() && previous.size() == 64);
        for (std::size_t i = 0; i < 64; ++i) next[i] = previous[i] + 1;
        mine.publish(version);
        const auto seen = reader(version);
        CHECK(seen.view<double>()[63] == static_cast<double>(62 + version) && seen.version() == version);
    }
    mine.detach();
    auto again = object.write("{ var g = grid }", sf::write_options().zeros());
    CHECK(again.version() == 9 && again.view<double>()[63] == 0);
    again.publish(10);
    auto following = object.read("{ var g = grid }", sf::read_options().prefetch().version(10, seconds(20)));
    CHECK(following.view<double>()[63] == 0);
    again.detach();
    sf::remove_object("loaned");
}

TEST(many_kinds_of_numbers_have_their_views) {
    const sf::object object("kinds", "type Cell struct { rho float32; id int64 }\nvar mesh [N]Cell\nvar n uint16",
                            small().bind("N", 5).initial(10));
    auto mine = object.write("view aligned { var n = n; var rho [i] = mesh[i].rho; var id [i] = mesh[i].id }");
    CHECK(mine.version() == 10);
    mine.view<std::uint16_t>("n")() = 5;
    const auto id = mine.view<std::int64_t>("id");
    std::iota(id.begin(), id.end(), 100);
    THROWS(object_variable, "n, rho, id", mine.view<float>());
    THROWS(object_variable, "'e'", mine.view<float>("e"));
    THROWS(wrong_dtype, "holds float32, not float64", mine.view<double>("rho"));
    mine.publish(11);
    struct cell {
        float rho;
        std::int64_t id;
    };
    const auto cells = object.read("view aligned { var mesh = mesh }", sf::read_options().version(11, seconds(20)));
    THROWS(object_variable, "use its bytes", cells.view<float>());
    const auto bytes = cells.bytes();
    CHECK(bytes.size() == 5 * sizeof(cell));
    cell last;
    std::memcpy(&last, bytes.data() + 4 * sizeof(cell), sizeof last);
    CHECK(last.id == 104 && last.rho == 0);
    mine.detach();
    sf::remove_object("kinds");
}

TEST(what_cannot_be_is_refused) {
    THROWS(no_object, "'refused'", sf::object::open("refused"));
    THROWS(timeout, "'refused'", sf::object::open("refused", sf::object_options().wait(milliseconds(5))));
    THROWS(drepl_text, "gird", sf::object("refused", "var gird [M] float64"));
    FAILS(bad_name, "", sf::object::try_create("a b", grid));
    const sf::object object("refused", grid, small());
    const auto again = sf::object::open("refused", sf::object_options().look());
    THROWS(object_other_text, "another text", sf::object("refused", "var grid [9,9] float64"));
    FAILS(drepl_text, "gird", object.try_write("{ var g = gird }"));
    FAILS(object_not_writable, "readonly", object.try_write("view readonly { var g = grid }"));
    auto mine = rows(object, 0, 4);
    FAILS(object_overlap, "rank 0", object.try_write("{ var g [x:2,y:8] = grid[x+3,y] }", sf::write_options().rank(7).wait({})));
    mine.publish(1);
    FAILS(timeout, "version 1", object.try_read("{ var g = grid }", sf::read_options().version(1)));
    sf::object closed = sf::object::open("refused");
    closed.close();
    FAILS(bad_handle, "object", closed.try_newest());
    CHECK(sf::family_of(sf::status::object_overlap) == sf::family::misuse);
    CHECK(sf::family_of(sf::status::object_lost) == sf::family::environment);
    mine.detach();
    sf::remove_object("refused");
}

TEST(a_writer_that_is_killed_is_named) {
    const sf::object object("killed", grid, small());
    auto mine = rows(object, 0, 4);
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        FAILS(forked, "forked this one", mine.try_publish(1));
        FAILS(forked, "forked this one", object.try_newest());
        const auto own = sf::object::open("killed", small());
        auto lower = rows(own, 1, 4);
        lower.view<double>()(3, 7) = 63;
        lower.publish(1);
        pause();
    }
    auto all = object.read("{ var u = grid }");
    mine.publish(1);
    all.reattach(1, seconds(20));
    CHECK(all.view<double>()(7, 7) == 63);
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, nullptr, 0) == child);
    mine.publish(2);
    THROWS(object_lost, "rank 1", all.reattach(2, seconds(20)));
    CHECK(all.view<double>()(7, 7) == 63 && all.version() == 1);
    mine.detach();
    sf::remove_object("killed", true);
}
