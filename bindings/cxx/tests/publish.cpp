// Arrays of all kinds, published by a program and seen by an observer.
#include "check.hpp"

#include <algorithm>
#include <array>
#include <complex>
#include <cstdint>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <sys/uio.h>

namespace sf = stillframe;

struct cell {
    double rho;
    std::int32_t id;
    float x[3];
    char tag[4];
};

struct pair_of_cells {
    std::uint8_t which;
    cell left, right;
};

template <>
struct stillframe::element<cell> {
    static std::string dtype() {
        return stillframe::record<cell>({{"rho", &cell::rho}, {"id", &cell::id}, {"x", &cell::x}, {"tag", &cell::tag}});
    }
};

template <>
struct stillframe::element<pair_of_cells> {
    static std::string dtype() {
        return stillframe::record<pair_of_cells>({{"right", &pair_of_cells::right}, {"which", &pair_of_cells::which}});
    }
};

template <class View, class Elements>
static bool same(const View& view, const Elements& elements) {
    return view.bytes() == elements.size() * sizeof(*elements.data()) &&
           std::memcmp(view.data(), elements.data(), view.bytes()) == 0;
}

TEST(four_lines_publish_a_vector) {
    std::vector<double> u(1000, 1.5);
    stillframe::region heat("four");
    heat.track("u", u);
    heat.publish(1);
    const auto snapshot = sf::observer("four").newest();
    CHECK(snapshot.version() == 1 && snapshot.region() == "four");
    CHECK(same(snapshot.view<double>("u"), u));
    CHECK(snapshot.view<double>("u").shape() == sf::shape(1000));
}

TEST(a_vector_that_reallocates_is_followed) {
    std::vector<int> u{1, 2, 3};
    sf::region region("follow");
    region.track("u", u);
    const sf::observer observer("follow");
    for (std::uint64_t version = 1; version < 30; ++version) {
        u.resize(u.size() * 3 / 2 + 1, static_cast<int>(version));
        region.publish(version);
        const auto snapshot = observer.newest();
        CHECK(same(snapshot.view<int>("u"), u));
    }
    u = {};
    region.publish(30);
    const auto snapshot = observer.newest();
    CHECK(snapshot.view<int>("u").empty() && snapshot.view<int>("u").shape() == sf::shape(0));
}

TEST(containers_swapped_by_the_program_keep_their_names) {
    std::vector<double> u(5000, 1.0), next(5000, 2.0);
    sf::region region("swap");
    region.track("u", u);
    const sf::observer observer("swap");
    for (std::uint64_t version = 1; version < 10; ++version) {
        std::swap(u, next);
        u[version] = static_cast<double>(version);
        region.publish(version);
        const auto snapshot = observer.newest();
        CHECK(same(snapshot.view<double>("u"), u));
    }
}

TEST(everything_contiguous_can_be_tracked) {
    sf::region region("kinds");
    std::array<float, 4> array{1, 2, 3, 4};
    double matrix[3][4] = {};
    double cube[2][3][4] = {};
    std::vector<std::array<double, 3>> positions(5, {1, 2, 3});
    std::vector<std::uint16_t> numbers{7, 8, 9};
    const std::vector<std::uint16_t> constant{1, 2};
    double scalar = 2.5;
    char text[8] = "abc";
    char names[2][6] = {"left", "right"};
    std::string string = "hello";
    const int ny = 3, nx = 2;
    const std::vector<double> flat{0, 1, 2, 3, 4, 5};
    matrix[2][1] = 6;
    cube[1][2][3] = 7;
    region.track("array", array);
    region.track("matrix", matrix);
    region.track("cube", cube);
    region.track("positions", positions);
    region.track("grid", flat, {ny, nx});
    region.track("fortran", flat, {ny, nx}, sf::declaration().order(sf::order::fortran).units("K").attribute("level", 3));
    region.track("constant", constant);
    region.track("scalar", scalar);
    region.track("text", text);
    region.track("names", names);
    region.track("string", string);
    region.track("span", sf::span<const std::uint16_t>(numbers));
    region.track("pointer", numbers.data() + 1, {2});
    region.track("rows", &matrix[1], {2});
    region.track("view", std::string_view("view"));
    region.publish(1);

    const auto snapshot = sf::observer("kinds").newest();
    CHECK(same(snapshot.view<float>("array"), array));
    CHECK(snapshot.view<double>("matrix").shape() == sf::shape(3, 4));
    CHECK(snapshot.view<double>("matrix")(2, 1) == 6);
    CHECK(snapshot.view<double>("cube").shape() == sf::shape(2, 3, 4) && snapshot.view<double>("cube")(1, 2, 3) == 7);
    CHECK(snapshot.view<double>("positions").shape() == sf::shape(5, 3));
    const auto points = snapshot.view<std::array<double, 3>>("positions");
    CHECK(points.shape() == sf::shape(5) && points(4)[2] == 3);
    CHECK(snapshot.view<double>("grid")(2, 1) == 5 && snapshot.view<double>("grid").stride(0) == 2);
    const auto fortran = snapshot.view<double>("fortran");
    CHECK(fortran.order() == sf::order::fortran && fortran(2, 1) == 5 && fortran(1, 0) == 1 && fortran.stride(1) == 3);
    CHECK(snapshot.variable("fortran").units == "K");
    CHECK(snapshot.variable("fortran").strides == (std::vector<std::ptrdiff_t>{8, 24}));
    CHECK(std::get<std::int64_t>(snapshot.attributes("fortran").at("level")) == 3);
    CHECK(same(snapshot.view<std::uint16_t>("constant"), constant));
    CHECK(snapshot.view<double>("scalar").rank() == 0 && snapshot.view<double>("scalar")() == 2.5);
    CHECK(snapshot.variable("text").dtype == "bytes8" && snapshot.variable("text").shape.rank() == 0);
    CHECK(snapshot.variable("names").dtype == "bytes6" && std::strcmp(snapshot.view<char[6]>("names")[1], "right") == 0);
    CHECK(same(snapshot.view<char>("string"), string));
    CHECK(same(snapshot.view<std::uint16_t>("span"), numbers));
    CHECK(snapshot.view<std::uint16_t>("pointer")[1] == 9);
    CHECK(snapshot.view<double>("rows").shape() == sf::shape(2, 4) && snapshot.view<double>("rows")(1, 1) == 6);
    CHECK(snapshot.view<char>("view")[0] == 'v');
    CHECK(snapshot.variables().size() == 15 && snapshot.variables()[1].name == "matrix");
}

template <class T>
static void check_dtype(const char* dtype, const std::vector<T>& values) {
    sf::region region("dtype");
    region.track("tracked", values);
    auto managed = region.array<T>("managed", {values.size()});
    std::copy(values.begin(), values.end(), managed.begin());
    region.publish(1);
    {
        const auto snapshot = sf::observer("dtype").newest();
        CHECK(snapshot.variable("tracked").dtype == dtype && snapshot.variable("tracked").item_bytes == sizeof(T));
        CHECK(same(snapshot.view<T>("tracked"), values) && same(snapshot.view<T>("managed"), values));
        std::vector<T> copy(2);
        snapshot.read("managed", sf::span<T>(copy), 1);
        CHECK(std::memcmp(copy.data(), values.data() + 1, 2 * sizeof(T)) == 0);
    }
    region.unlink();
}

enum class phase : std::int16_t { solid = -1, liquid, gas };

TEST(every_dtype_has_a_type) {
    check_dtype<std::int8_t>("int8", {-1, 2, 3});
    check_dtype<std::int16_t>("int16", {-1, 2, 3});
    check_dtype<std::int32_t>("int32", {-1, 2, 3});
    check_dtype<std::int64_t>("int64", {-1, 2, 3});
    check_dtype<std::uint8_t>("uint8", {1, 2, 3});
    check_dtype<std::uint16_t>("uint16", {1, 2, 3});
    check_dtype<std::uint32_t>("uint32", {1, 2, 3});
    check_dtype<std::uint64_t>("uint64", {1, 2, 3});
    check_dtype<long>("int64", {1, 2, 3});
    check_dtype<long long>("int64", {1, 2, 3});
    check_dtype<float>("float32", {1, 2, 3});
    check_dtype<double>("float64", {1, 2, 3});
    check_dtype<std::complex<float>>("complex64", {{1, 2}, {3, 4}, {5, 6}});
    check_dtype<std::complex<double>>("complex128", {{1, 2}, {3, 4}, {5, 6}});
    check_dtype<std::byte>("uint8", {std::byte{1}, std::byte{2}, std::byte{3}});
    check_dtype<char>("bytes1", {'a', 'b', 'c'});
    check_dtype<std::array<char, 5>>("bytes5", {{{'a'}}, {{'b'}}, {{'c'}}});
    check_dtype<phase>("int16", {phase::solid, phase::liquid, phase::gas});
    check_dtype<cell>(
        R"({"fields":[{"name":"rho","dtype":"float64","offset":0},{"name":"id","dtype":"int32","offset":8},)"
        R"({"name":"x0","dtype":"float32","offset":12},{"name":"x1","dtype":"float32","offset":16},)"
        R"({"name":"x2","dtype":"float32","offset":20},{"name":"tag","dtype":"bytes4","offset":24}],"bytes":32})",
        {{1.5, 2, {3, 4, 5}, "abc"}, {}, {}});
    bool flags[3] = {true, false, true};
    sf::region region("flags");
    region.track("flags", flags);
    region.publish(1);
    const auto snapshot = sf::observer("flags").newest();
    CHECK(snapshot.variable("flags").dtype == "bool" && snapshot.view<bool>("flags")[2]);
}

TEST(records_nest) {
    std::vector<pair_of_cells> pairs(4);
    pairs[3].right.rho = 9;
    sf::region region("nested");
    region.track("pairs", pairs);
    region.publish(1);
    const auto snapshot = sf::observer("nested").newest();
    CHECK(snapshot.view<pair_of_cells>("pairs")[3].right.rho == 9);
    FAILS(wrong_dtype, "not float64", snapshot.try_view<double>("pairs"));
}

TEST(managed_arrays_are_zero_and_resized_and_recovered) {
    {
        sf::region region("managed");
        CHECK(!region.recovered() && !region.newest());
        auto u = region.array<double>("u", {3, 4}, sf::declaration().units("m"));
        CHECK(u.size() == 12 && u(2, 3) == 0 && u.at(2, 3) == 0);
        THROWS(out_of_range, "[2, 4] is outside an array of shape [3, 4]", u.at(2, 4));
        THROWS(out_of_range, "[1] is outside", u.at(1));
        for (std::size_t i = 0; i < 3; ++i)
            for (std::size_t j = 0; j < 4; ++j) u(i, j) = static_cast<double>(10 * i + j);
        sf::array_view<const double> read_only = u;
        CHECK(read_only(2, 3) == 23 && read_only.elements().size() == 12);
        auto columns = region.array<int>("columns", {2, 3}, sf::declaration().order(sf::order::fortran));
        columns(1, 2) = 5;
        CHECK(columns[5] == 5 && columns[3] == 0);
        region.publish(7);
        u = region.resize<double>("u", {6, 4});
        CHECK(u(2, 3) == 23 && u(5, 3) == 0);
        region.publish(8);
        CHECK(region.newest() == 8u);
        const auto snapshot = sf::observer("managed").newest();
        CHECK(snapshot.view<double>("u").shape() == sf::shape(6, 4) && snapshot.variable("u").units == "m");
        CHECK(snapshot.view<int>("columns")(1, 2) == 5);
        FAILS(wrong_dtype, "holds float64, not int32", region.try_resize<int>("u", {3}));
        FAILS(unknown_variable, "w", region.try_resize<int>("w", {3}));
    }
    sf::region region("managed");
    CHECK(region.recovered() == 8u);
    auto u = region.array<double>("u", {6, 4});
    CHECK(u(2, 3) == 23);
}

TEST(what_a_resized_array_gets_is_zero) {
    sf::region region("resized");
    auto u = region.array<int>("u", 30000);
    std::fill(u.begin(), u.end(), 7);
    region.publish(1);
    u = region.resize<int>("u", 100);
    region.publish(2);
    u = region.resize<int>("u", 30000);
    std::vector<int> wanted(30000);
    std::fill_n(wanted.begin(), 100, 7);
    CHECK(std::equal(wanted.begin(), wanted.end(), u.begin()));
    region.publish(3);
    const auto snapshot = sf::observer("resized").newest();
    const auto view = snapshot.view<int>("u");
    CHECK(view.size() == wanted.size() && std::equal(wanted.begin(), wanted.end(), view.begin()));
}

TEST(variables_say_which_part_of_a_global_array_they_are) {
    sf::region region("parts");
    std::vector<double> u(12);
    std::vector<std::array<double, 3>> positions(5);
    region.track("u", u, {3, 4}, sf::declaration().part({3, 0}, {6, 4}));
    region.track("positions", positions, sf::declaration().part(10, 100));
    region.array<float>("managed", {2, 2}, sf::declaration().part({0, 2}, {2, 4}));
    region.loaned<std::array<float, 2>>("loaned", 7, sf::declaration().part(0, 7));
    THROWS(wrong_shape, "[1, 1]", region.array<float>("other", 3, sf::declaration().part({1, 1}, {9, 9})));
    THROWS(wrong_shape, "[4]", region.array<float>("beyond", 3, sf::declaration().part(2, 4)));
    region.publish(1);
    const auto snapshot = sf::observer("parts").newest();
    const auto part = snapshot.variable("u").part;
    CHECK(part && part->offset == sf::shape(3, 0) && part->global_shape == sf::shape(6, 4));
    CHECK(snapshot.variable("positions").part->offset == sf::shape(10, 0));
    CHECK(snapshot.variable("positions").part->global_shape == sf::shape(100, 3));
    CHECK(snapshot.variable("managed").part->offset == sf::shape(0, 2));
    positions.resize(91);
    THROWS(wrong_shape, "'positions'", region.publish(2));
    region.untrack("positions");
    region.track("v", u);
    region.publish(2);
    CHECK(!sf::observer("parts").newest().variable("v").part);
}

TEST(variables_become_other_parts) {
    sf::region region("repart");
    const sf::observer observer("repart");
    auto u = region.array<double>("u", {4, 6}, sf::declaration().part({3, 0}, {9, 6}));
    u(3, 5) = 1;
    std::vector<std::array<double, 3>> positions(5);
    region.track("positions", positions, sf::declaration().part(10, 100));
    std::vector<int> x(8);
    region.track("x", x, {4, 2}, sf::declaration().part({0, 0}, {9, 2}));
    auto w = region.loaned<std::array<float, 2>>("w", 7, sf::declaration().part(0, 20));
    region.publish(1);
    const auto old = observer.newest();

    FAILS(wrong_shape, "'u'", region.try_repart<double>("u", {5, 6}, {{5, 0}, {9, 6}}));
    FAILS(wrong_shape, "other numbers of dimensions", region.try_repart<double>("u", {5, 6}, {5, 9}));
    FAILS(wrong_shape, "'w'", region.try_repart(w, 8, {13, 20}));
    FAILS(wrong_shape, "'positions'", region.try_repart("positions", {101, 100}));
    FAILS(wrong_shape, "other numbers of dimensions", region.try_repart("positions", {1, {100, 3}}));
    FAILS(wrong_dtype, "holds float64, not int32", region.try_repart<int>("u", 3, {0, 3}));
    FAILS(wrong_kind, "tracked", region.try_repart<int>("x", {4, 2}, {{0, 0}, {9, 2}}));
    FAILS(wrong_kind, "loaned", (region.try_repart<std::array<float, 2>>("w", 7, {0, 20})));
    FAILS(wrong_kind, "loaned", (region.try_resize<std::array<float, 2>>("w", 3)));
    FAILS(wrong_kind, "not tracked", region.try_repart("u", {{0, 0}, {9, 6}}));
    FAILS(unknown_variable, "'v'", region.try_repart("v", {0, 3}));
    region.publish(2);
    {
        const auto snapshot = observer.newest();
        CHECK(snapshot.variable("u").part->offset == sf::shape(3, 0) && snapshot.view<double>("u")(3, 5) == 1);
        CHECK(snapshot.variable("positions").part->offset == sf::shape(10, 0) && w.shape() == sf::shape(7));
    }

    u = region.repart<double>("u", {7, 6}, {{2, 0}, {9, 6}});
    CHECK(u.shape() == sf::shape(7, 6) && u(3, 5) == 1 && u(6, 5) == 0);
    u(6, 5) = 2;
    positions.resize(9);
    region.repart("positions", {91, 100});
    region.repart("x", {{8, 0}, {9, 2}});
    THROWS(wrong_shape, "'x'", region.publish(3));
    x.resize(2);
    region.track("x", x, {1, 2});
    region.repart(w, 9, {11, 20});
    auto loan = region.loan(w);
    CHECK(loan.size() == 9);
    for (auto& item : loan) item = {1, 2};
    loan.submit();
    region.publish(3);
    const auto snapshot = observer.newest();
    const auto is = [&](const char* name, const sf::shape& shape, const sf::part& part) {
        const auto variable = snapshot.variable(name);
        return variable.shape == shape && variable.part && variable.part->offset == part.offset &&
               variable.part->global_shape == part.global_shape;
    };
    CHECK(is("u", {7, 6}, {{2, 0}, {9, 6}}) && snapshot.view<double>("u")(6, 5) == 2);
    CHECK(is("positions", {9, 3}, {{91, 0}, {100, 3}}) && is("x", {1, 2}, {{8, 0}, {9, 2}}));
    CHECK(is("w", {9, 2}, {{11, 0}, {20, 2}}));
    u = region.repart<double>("u", {1, 6}, {{8, 0}, {9, 6}});
    region.publish(4);
    CHECK(observer.newest().variable("u").shape == sf::shape(1, 6));
    CHECK(old.variable("u").part->offset == sf::shape(3, 0) && old.view<double>("u")(3, 5) == 1);
}

TEST(a_part_that_is_given_anew_has_to_be_the_one_that_the_variable_is) {
    sf::region region("anew");
    const sf::observer observer("anew");
    const auto offset = [&](const char* name) { return observer.newest().variable(name).part->offset; };
    const auto at = [](std::size_t top) { return sf::declaration().part({top, 0}, {9, 2}); };
    std::vector<int> x(4), y(4), flat(4);
    std::vector<std::array<double, 3>> positions(5);
    region.track("x", x, {2, 2}, at(0));
    region.track("flat", flat);
    region.track("positions", positions, sf::declaration().part(10, 100));
    region.publish(1, sf::array("y", y, {2, 2}, at(0)));

    FAILS(variable_exists, "the part at [0, 0] in [9, 2], and given as the one at [5, 0] in [9, 2]: repart",
          region.try_track("x", x, {2, 2}, at(5)));
    FAILS(variable_exists, "[9, 3]", region.try_track("x", x, {2, 2}, sf::declaration().part({0, 0}, {9, 3})));
    FAILS(variable_exists, "no part", region.try_track("flat", flat, sf::declaration().part(0, 4)));
    FAILS(variable_exists, "[50, 0] in [100, 3]", region.try_track("positions", positions, sf::declaration().part(50, 100)));
    FAILS(variable_exists, "'y'", region.try_publish(2, sf::array("y", y, {2, 2}, at(5))));
    region.track("x", x, {2, 2}, at(0));
    region.track("positions", &positions[0][0], {5, 3}, sf::declaration().part({10, 0}, {100, 3}));
    region.publish(2, sf::array("y", y, {2, 2}));
    CHECK(offset("x") == sf::shape(0, 0) && offset("y") == sf::shape(0, 0) && offset("positions") == sf::shape(10, 0));

    // What is followed was given before, and stays so.
    region.repart("x", {{5, 0}, {9, 2}});
    region.repart("y", {{5, 0}, {9, 2}});
    region.repart("flat", {0, 4});
    FAILS(variable_exists, "the part at [5, 0]", region.try_track("x", x, {2, 2}, at(0)));
    region.publish(3, sf::array("y", y, {2, 2}, at(5)));
    region.track("x", x, {2, 2}, at(5));
    region.track("flat", flat, sf::declaration().part(0, 4));
    region.publish(4, sf::array("y", y, {2, 2}));
    CHECK(offset("x") == sf::shape(5, 0) && offset("y") == sf::shape(5, 0) && offset("flat") == sf::shape(0));
    region.remove("x");
    region.track("x", x, {2, 2}, at(0));
}

TEST(loans_are_written_in_place) {
    sf::region region("loans");
    const auto w = region.loaned<float>("w", {2, 3});
    CHECK(w.name() == "w" && w.shape() == sf::shape(2, 3));
    const sf::observer observer("loans");
    for (std::uint64_t version = 1; version < 5; ++version) {
        auto loan = region.loan(w);
        CHECK(loan.size() == 6);
        for (float& value : loan) value = static_cast<float>(version);
        loan(1, 2) = -1;
        auto moved = std::move(loan);
        moved.submit();
        FAILS(bad_handle, "", moved.try_submit());
        region.publish(version);
        const auto snapshot = observer.newest();
        CHECK(snapshot.view<float>("w")(0, 1) == static_cast<float>(version) && snapshot.view<float>("w")(1, 2) == -1);
    }
    {
        auto loan = region.loan(w);
        loan[0] = 99;
    }
    region.publish(5);
    const auto snapshot = observer.newest();
    CHECK(snapshot.view<float>("w")[0] == 4);
}

TEST(arrays_and_attributes_come_with_a_publish) {
    sf::region region("with", sf::options().keep(2));
    const sf::observer observer("with");
    {
        std::vector<float> u(6, 1.0f);
        const auto done = region.publish(1, sf::array("u", u, {2, 3}), sf::array("t", 0.5), sf::attribute("time", 0.25),
                                         sf::attribute("step", 1), sf::attribute("converged", false),
                                         sf::attribute("what", "first"));
        CHECK(done.version == 1 && !done.skipped && done.total_pages >= 1 && done.seconds > 0);
    }
    region.set("big", std::uint32_t{7});
    region.set("text", std::string("x"));
    region.publish(2, sf::array("s", std::vector<int>{1, 2, 3}));
    const auto first = observer.version(1);
    CHECK(std::get<double>(first.attribute("time")) == 0.25 && std::get<std::int64_t>(first.attribute("step")) == 1);
    CHECK(!std::get<bool>(first.attribute("converged")) && std::get<std::string>(first.attribute("what")) == "first");
    CHECK(first.attributes().size() == 4);
    FAILS(unknown_attribute, "nothing", first.try_attribute("nothing"));
    const auto second = observer.newest();
    // The array of the first version is gone, and what it held is still there.
    CHECK(second.view<float>("u")(1, 2) == 1.0f && second.view<float>("u").shape() == sf::shape(2, 3));
    CHECK(second.view<double>("t")() == 0.5 && second.view<int>("s")[2] == 3);
    CHECK(second.attributes() == (sf::attributes{{"big", std::int64_t{7}}, {"text", std::string("x")}}));
}

TEST(an_array_given_for_once_is_not_followed) {
    std::vector<int> followed{1, 2}, once{5, 6, 7};
    sf::region region("once");
    region.track("u", followed);
    const sf::observer observer("once");
    region.publish(1, sf::array("u", once), sf::array("w", once));
    once[0] = 50;
    {
        const auto snapshot = observer.newest();
        CHECK(snapshot.view<int>("u")[0] == 5 && snapshot.view<int>("u").size() == 3);
    }
    region.publish(2);
    const auto snapshot = observer.newest();
    CHECK(same(snapshot.view<int>("u"), followed) && snapshot.view<int>("w")[0] == 5);
}

TEST(what_is_untracked_keeps_its_last_content_and_may_go) {
    sf::region region("untrack");
    const sf::observer observer("untrack");
    {
        std::vector<double> u(3000, 4.0);
        region.track("u", u);
        region.publish(1);
        region.untrack("u");
    }
    region.publish(2);
    CHECK(observer.newest().variables().size() == 1);
    const auto snapshot = observer.newest();
    CHECK(snapshot.view<double>("u")[2999] == 4.0);
    std::vector<double> other(2, 5.0);
    region.track("u", other);
    region.publish(3);
    const auto third = observer.newest();
    CHECK(same(third.view<double>("u"), other));
    region.remove("u");
    region.publish(4);
    CHECK(observer.newest().variables().empty());
    FAILS(unknown_variable, "u", region.try_untrack("u"));
}

TEST(without_room_a_publish_waits_and_is_then_left_out) {
    using namespace std::chrono_literals;
    std::vector<double> u(100000, 1.0);
    for (const auto rule : {sf::rule::wait_then_skip, sf::rule::wait}) {
        sf::region region("crowded", sf::options().fresh().bound_bytes(2 << 20).rule(rule).wait(200ms));
        const auto publish = [&](std::uint64_t version) {
            u.assign(u.size(), static_cast<double>(version));
            return region.try_publish(version, sf::array("u", u));
        };
        CHECK(!publish(1).value().skipped);
        const sf::observer observer("crowded");
        auto held = observer.newest();
        CHECK(!publish(2).value().skipped);
        const auto begin = std::chrono::steady_clock::now();
        const bool skips = rule == sf::rule::wait_then_skip;
        if (skips) CHECK(publish(3).value().skipped);
        else FAILS(bound, "bound", publish(3));
        CHECK(std::chrono::steady_clock::now() - begin >= 200ms);
        for (const auto& info : sf::regions())
            if (info.name == "crowded") CHECK(info.skipping == (skips ? 1u : 0u) && info.waiting_ns == 0);
        CHECK(sf::holders("crowded").at(0).versions == 1u);
        held = observer.newest();
        CHECK(!publish(4).value().skipped);
        region.close();
    }
}

/// A device that knows pages, not addresses: a pipe that vmsplice gave one.
class device {
public:
    explicit device(const void* page) {
        int ends[2];
        CHECK(pipe(ends) == 0);
        const iovec vector{const_cast<void*>(page), 4096};
        CHECK(vmsplice(ends[1], &vector, 1, 0) == 4096);
        close(ends[1]);
        end_ = ends[0];
    }
    device(const device&) = delete;
    ~device() { close(end_); }

    /// Once only.
    bool sees(const void* page) const {
        std::array<unsigned char, 4096> seen;
        CHECK(read(end_, seen.data(), seen.size()) == 4096);
        return std::memcmp(seen.data(), page, seen.size()) == 0;
    }

private:
    int end_;
};

TEST(pinned_memory_keeps_its_pages) {
    sf::region region("pinned", sf::options().tracker("private_cow"));
    const auto early = region.array<double>("early", 1000, sf::declaration().pinned());
    const auto late = region.array<double>("late", 1000);
    std::vector<double, sf::allocator<double>> grows(1000, 1.0, sf::allocator<double>(region, "grows", sf::declaration().pinned()));
    early[0] = late[0] = 1.0;
    const device knows_early(early.data()), knows_late(late.data());
    std::uint64_t version = 0;
    const auto publish = [&](const device& knows) {
        for (int times = 0; times < 5; ++times) {
            early[0] = late[0] = grows[0] = static_cast<double>(version);
            region.publish(++version);
        }
        early[0] = late[0] = grows[0] = 77.0;
        return knows.sees(grows.data());
    };
    CHECK(publish(device(grows.data())));
    CHECK(knows_early.sees(early.data()) && !knows_late.sees(late.data()));
    region.pin("late");
    grows.resize(100000);
    const device knows(late.data());
    CHECK(publish(device(grows.data())) && knows.sees(late.data()));
    FAILS(is_pinned, "'late' is pinned", region.try_resize<double>("late", 1000000));
    CHECK(region.try_resize<double>("late", 900)->data() == late.data());
    region.unpin("late");
    region.resize<double>("late", 1000000);
    const auto newest = sf::observer("pinned").newest();
    CHECK(newest.view<double>("grows")[0] == 9.0);
    FAILS(unknown_variable, "none", region.try_pin("none"));
    FAILS(unknown_variable, "none", region.try_unpin("none"));
    FAILS(wrong_kind, "loaned", region.try_loaned<double>("refused", 10, sf::declaration().pinned()));
}

TEST(a_version_is_published_in_the_background) {
    sf::region region("background");
    std::vector<double> u(200000, 1.0), given(1000, 2.0);
    region.track("u", u);
    const auto shows = [](const char* name, double value) {
        const auto newest = sf::observer("background").newest();
        return newest.view<double>(name)[7] == value;
    };
    CHECK(!region.publish_finish() && region.publish_test());
    for (std::uint64_t version = 1; version < 20; ++version) {
        u.assign(u.size(), static_cast<double>(version));
        region.publish_start(version, sf::array("given", given), sf::attribute("time", 0.5));
        if (version % 2 == 0) {
            while (!region.publish_test()) {}
        }
        CHECK(region.publish_finish()->version == version);
        CHECK(!region.publish_finish());
        CHECK(shows("u", static_cast<double>(version)) && shows("given", 2.0));
        const auto newest = sf::observer("background").newest();
        CHECK(std::get<double>(newest.attributes().at("time")) == 0.5);
    }
    region.publish_start(20);
    FAILS(not_increasing, "20", region.try_publish_start(20));
    CHECK(shows("u", 19.0) && sf::observer("background").newest().version() == 20);
    u.assign(u.size(), 21.0);
    region.publish_start_guarded(21);
    u.assign(u.size(), 22.0);
    CHECK(region.publish_finish()->version == 21 && shows("u", 21.0));
    region.publish_start(22);
    region.close();
    CHECK(shows("u", 22.0) && sf::observer("background").newest().version() == 22);
}

TEST(options_reach_the_engine) {
    sf::region region("options", sf::options().keep(3).tracker("full_copy").threads(1).rule(sf::rule::fail).bound_bytes(1 << 20)
                                     .wait(std::chrono::milliseconds(5)).mode(0700).large_pages(false).demote(false));
    CHECK(region.tracker() == "full_copy" && region.name() == "options");
    std::vector<double> u(1000);
    region.track("u", u);
    for (std::uint64_t version = 1; version < 6; ++version) region.publish(version);
    const sf::observer observer("options");
    CHECK(observer.versions().size() >= 3 && observer.versions().back().version == 5);
    CHECK(region.statistics().published == 5);
    std::vector<double> large(1 << 20);
    FAILS(bound, "bound", region.try_publish(6, sf::array("large", large)));
    region.mark_dirty("u", 8, 16);
    FAILS(out_of_range, "u", region.try_mark_dirty("u", 0, 8001));
    FAILS(bad_option, "keep", sf::region::try_create("bad", sf::options().keep(1000)));
}
