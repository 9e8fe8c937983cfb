// Sections: what versions show of arrays, and with how many bits.
#include "check.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

namespace sf = stillframe;

// Numbers that tell where they are.
static std::vector<double> numbered(std::size_t count) {
    std::vector<double> numbers(count);
    std::iota(numbers.begin(), numbers.end(), 0.0);
    return numbers;
}

template <class View, class Wanted>
static bool holds(const View& view, const sf::shape& shape, const Wanted& wanted) {
    return view.shape() == shape && std::equal(view.begin(), view.end(), std::begin(wanted), std::end(wanted));
}

// Whether the newest version shows these.
template <class T, class Wanted>
static bool shows(const sf::observer& observer, const std::string& name, const sf::shape& shape, const Wanted& wanted) {
    const auto snapshot = observer.newest();
    return holds(snapshot.view<T>(name), shape, wanted);
}

TEST(a_section_is_shown_without_ghosts_and_follows_the_container) {
    constexpr std::size_t ny = 130, nx = 90;
    std::vector<double> u = numbered(ny * nx), next(ny * nx, -1);
    sf::region region("ghosts");
    const sf::observer observer("ghosts");
    region.track("inner", u, sf::section::of({ny, nx}).inside({1, 1}, {ny - 1, nx - 1}), sf::declaration().units("K"));
    for (std::uint64_t version = 1; version <= 4; ++version) {
        u[version * nx + 7] += 0.5;
        u[version * nx] = -1;
        region.publish(version);
        const auto snapshot = observer.newest();
        const auto inner = snapshot.view<double>("inner");
        CHECK(inner.shape() == sf::shape(ny - 2, nx - 2));
        for (std::size_t y = 1; y + 1 < ny; ++y)
            for (std::size_t x = 1; x + 1 < nx; ++x) CHECK(inner(y - 1, x - 1) == u[y * nx + x]);
        CHECK(snapshot.variable("inner").units == "K");
        // Where its elements are now, the container says.
        std::swap(u, next);
    }
    u.resize(5);
    FAILS(wrong_shape, "'inner': a section of shape [130, 90] does not fit the 5 elements", region.try_publish(5));
}

TEST(every_nth_element_of_a_container_that_grows_is_shown) {
    std::vector<double> u;
    sf::region region("grows");
    const sf::observer observer("grows");
    region.track("third", u, sf::section::whole().every(3));
    region.publish(1);
    CHECK(shows<double>(observer, "third", 0, u));
    for (std::size_t count : {1u, 3u, 4u, 3000u}) {
        u = numbered(count);
        region.publish(count + 1);
        std::vector<double> wanted;
        for (std::size_t i = 0; i < count; i += 3) wanted.push_back(u[i]);
        CHECK(shows<double>(observer, "third", wanted.size(), wanted));
    }
}

TEST(numbers_are_rounded_to_what_the_section_says) {
    const double third = 1.0 / 3;
    std::vector<double> u{0, third, -1e300, std::numeric_limits<double>::quiet_NaN(), 65504, 1e-7};
    std::vector<float> v{1.0f, 1.00390625f, -0.1f};
    std::vector<std::complex<double>> z{{third, -third}, {1, 2}};
    sf::region region("rounded");
    const sf::observer observer("rounded");
    region.track("single", u, sf::section::whole().as<float>());
    region.track("half", u, sf::section::whole().as<sf::float16>());
    region.track("brain", u, sf::section::whole().as<sf::bfloat16>());
    region.track("v", v, sf::section::whole().as<sf::bfloat16>());
    region.track("z", z, sf::section::whole().as<std::complex<float>>());
    region.publish(1);
    const auto snapshot = observer.newest();
    const auto single = snapshot.view<float>("single");
    for (std::size_t i : {0u, 1u, 4u, 5u}) CHECK(single[i] == static_cast<float>(u[i]));
    CHECK(std::isinf(single[2]) && single[2] < 0 && std::isnan(single[3]));
    const auto half = snapshot.view<sf::float16>("half");
    const float wanted[] = {0, 0.333251953125f, -INFINITY, NAN, 65504, 0x1p-23f};
    for (std::size_t i : {0u, 1u, 2u, 4u}) CHECK(static_cast<float>(half[i]) == wanted[i]);
    CHECK(std::isnan(static_cast<float>(half[3])));
    CHECK(static_cast<float>(half[5]) == 0x1p-23f);
    const auto brain = snapshot.view<sf::bfloat16>("brain");
    CHECK(static_cast<float>(brain[1]) == 0.333984375f && std::isinf(static_cast<float>(brain[2])));
    // Of two that are as near, the even one.
    const auto rounded = snapshot.view<sf::bfloat16>("v");
    CHECK(rounded[0].bits == 0x3f80 && rounded[1].bits == 0x3f80 && rounded[2].bits == 0xbdcd);
    const auto seen = snapshot.view<std::complex<float>>("z");
    CHECK(seen[0] == std::complex<float>(static_cast<float>(third), static_cast<float>(-third)) && seen[1] == std::complex<float>(1, 2));
    FAILS(wrong_dtype, "float16", snapshot.try_view<float>("half"));
    region.track("none", v, sf::section::whole().as<std::int32_t>());
    FAILS(wrong_shape, "float32 cannot be shown as int32", region.try_publish(2));
}

TEST(strides_say_where_elements_are_that_do_not_lie_closely) {
    const std::vector<double> u = numbered(40);
    sf::region region("strides");
    const sf::observer observer("strides");
    // 4 rows of 7 of which 10 are there, without the first column.
    region.track("rows", u, sf::section::of({4, 7}).strides(10, 1).inside({0, 1}, {4, 7}).every({3, 2}));
    region.track("upwards", &u[39], sf::section::of({4}).strides(-10));
    region.track("transposed", u.data(), sf::section::of({10, 4}).strides(1, 10));
    region.track("columns", u, sf::section::of({10, 4}).every({5, 3}), sf::declaration().order(sf::order::fortran));
    region.publish(1);
    const auto snapshot = observer.newest();
    CHECK(holds(snapshot.view<double>("rows"), {2, 3}, std::array<double, 6>{1, 3, 5, 31, 33, 35}));
    CHECK(holds(snapshot.view<double>("upwards"), {4}, std::array<double, 4>{39, 29, 19, 9}));
    const auto transposed = snapshot.view<double>("transposed");
    CHECK(transposed.shape() == sf::shape(10, 4) && transposed(3, 2) == 23);
    const auto columns = snapshot.view<double>("columns");
    CHECK(columns.order() == sf::order::fortran);
    CHECK(holds(columns, {2, 2}, std::array<double, 4>{0, 5, 30, 35}));
    const std::array<double, 6> wanted{1, 3, 5, 31, 33, 35};
    FAILS(wrong_shape, "elements that are not in the array", region.try_track("v", u, sf::section::of({4, 11}).strides(10, 1)));
    FAILS(wrong_shape, "elements that are not in the array", region.try_track("v", u, sf::section::of({4}).strides(-10)));
    CHECK(shows<double>(observer, "rows", {2, 3}, wanted));
}

TEST(elements_that_are_arrays_are_shown_whole_and_members_by_a_pointer) {
    struct particle {
        double x[3];
        double mass;
    };
    std::vector<std::array<float, 3>> velocities{{1, 2, 3}, {4, 5, 6}, {7, 8, 9}};
    std::vector<particle> particles(500);
    for (std::size_t i = 0; i < particles.size(); ++i) particles[i].mass = static_cast<double>(i);
    float grid[3][4] = {{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}};
    sf::region region("items");
    const sf::observer observer("items");
    region.track("velocities", velocities, sf::section::whole().every(2));
    region.track("mass", &particles[0].mass, sf::section::of({particles.size()}).strides(sizeof(particle) / sizeof(double)));
    region.track("grid", grid, sf::section::whole().inside({1}, {3}));
    region.publish(1);
    const auto snapshot = observer.newest();
    CHECK(holds(snapshot.view<float>("velocities"), {2, 3}, std::array<float, 6>{1, 2, 3, 7, 8, 9}));
    const auto mass = snapshot.view<double>("mass");
    CHECK(mass.size() == 500 && mass[0] == 0 && mass[499] == 499);
    CHECK(holds(snapshot.view<float>("grid"), {2, 4}, std::array<float, 8>{4, 5, 6, 7, 8, 9, 10, 11}));
}

TEST(a_section_can_be_given_for_one_version) {
    const std::vector<double> u = numbered(12);
    std::vector<float> whole{1, 2};
    sf::region region("once");
    const sf::observer observer("once");
    region.track("u", whole);
    region.publish(1, sf::array("u", u, sf::section::of({3, 4}).inside({1, 1}, {3, 3}).as<float>()));
    CHECK(shows<float>(observer, "u", {2, 2}, std::array<float, 4>{5, 6, 9, 10}));
    region.publish(2);
    CHECK(shows<float>(observer, "u", 2, whole));
    region.publish_start(3, sf::array("u", u, sf::section::whole().every(6).as<float>()));
    region.publish_finish();
    CHECK(shows<float>(observer, "u", 2, std::array<float, 2>{0, 6}));
    FAILS(wrong_shape, "not inside", region.try_publish(4, sf::array("u", u, sf::section::of({12}).inside({1}, {13}).as<float>())));
    FAILS(wrong_dtype, "float64", region.try_publish(4, sf::array("u", u, sf::section::whole())));
}

TEST(sections_that_cannot_be_are_refused_when_they_are_tracked) {
    std::vector<double> u(12);
    const double* nowhere = nullptr;
    sf::region region("refused");
    const auto of = [] { return sf::section::of({3, 4}); };
    FAILS(wrong_shape, "the box from [0, 0] to [3, 5] is not inside shape [3, 4]", region.try_track("u", u, of().inside({0, 0}, {3, 5})));
    FAILS(wrong_shape, "from [2, 0] to [1, 4]", region.try_track("u", u, of().inside({2, 0}, {1, 4})));
    FAILS(wrong_shape, "not inside", region.try_track("u", u, of().inside({-1, 0}, {3, 4})));
    FAILS(wrong_shape, "[0] does not have the dimensions of shape [3, 4]", region.try_track("u", u, of().inside({0}, {3})));
    FAILS(wrong_shape, "steps [1, 0] are not all 1 or more", region.try_track("u", u, of().every({1, 0})));
    FAILS(wrong_shape, "steps [1, ?]", region.try_track("u", u, of().every({1, -2})));
    FAILS(wrong_shape, "1 strides are not one for each dimension", region.try_track("u", u, of().strides(4)));
    FAILS(wrong_shape, "does not fit the 12 elements", region.try_track("u", u, sf::section::of({3, 5})));
    FAILS(wrong_shape, "negative extent", region.try_track("u", u, sf::section::of({3, -4})));
    FAILS(wrong_shape, "a pointer does not say", region.try_track("u", u.data(), sf::section::whole().every(2)));
    const auto huge = std::numeric_limits<std::ptrdiff_t>::max();
    FAILS(wrong_shape, "not in the array", region.try_track("u", u.data(), sf::section::of({3, 4}).strides(huge, 1)));
    FAILS(wrong_shape, "not in the array", region.try_track("u", u.data(), sf::section::of({huge, huge, 9})));
    // What one dimension leaves out of reach, another one does not bring back.
    const auto half = huge / 2 + 1;
    FAILS(wrong_shape, "not in the array",
          region.try_track("u", u, sf::section::of({8, 8}).inside({4, 2}, {5, 3}).strides(half, 1 - half)));
    FAILS(wrong_shape, "more than 8 dimensions",
          (region.try_track("u", reinterpret_cast<double(*)[2]>(u.data()), sf::section::of({1, 1, 1, 1, 1, 1, 1, 1}))));
    region.track("nothing", nowhere, sf::section::of({3, 4}).inside({1, 1}, {3, 4}));
    FAILS(bad_argument, "'nothing': the address of its array is NULL", region.try_publish(1));
    region.track("nothing", nowhere, sf::section::of({3, 4}).inside({1, 1}, {1, 4}));
    region.publish(1);
    CHECK(shows<double>(sf::observer("refused"), "nothing", {0, 3}, std::vector<double>()));
}

TEST(managed_memory_is_shown_whole_under_its_own_name) {
    sf::region region("managed");
    const sf::observer observer("managed");
    auto t = region.array<double>("t", {40, 50});
    std::vector<double, sf::allocator<double>> v(4000, 2.0, sf::allocator<double>(region, "v"));
    FAILS(wrong_kind, "'t' is not tracked", region.try_track("t", t, sf::section::of({40, 50}).every({2, 2})));
    FAILS(wrong_kind, "'v' is not tracked", region.try_track("v", v, sf::section::whole().every(2)));
    FAILS(wrong_kind, "'v' is not tracked", region.try_publish(1, sf::array("v", v, sf::section::whole().every(2))));
    region.track("t-corner", t, sf::section::of({40, 50}).inside({38, 48}, {40, 50}));
    region.track("v-few", v, sf::section::whole().every(1000));
    for (std::uint64_t version = 1; version <= 4; ++version) {
        t(39, 49) = static_cast<double>(version);
        v[3000] = static_cast<double>(version);
        region.publish(version);
        const auto snapshot = observer.newest();
        const auto last = static_cast<double>(version);
        CHECK(holds(snapshot.view<double>("t-corner"), {2, 2}, std::array<double, 4>{0, 0, 0, last}));
        CHECK(holds(snapshot.view<double>("v-few"), 4, std::array<double, 4>{2, 2, 2, last}));
        CHECK(snapshot.view<double>("t")(39, 49) == last);
    }
}

TEST(a_section_can_be_a_part_of_a_global_array) {
    std::vector<double> u = numbered(6 * 8);
    sf::region region("part");
    region.track("u", u, sf::section::of({6, 8}).inside({1, 0}, {5, 8}), sf::declaration().part({4, 0}, {20, 8}));
    region.publish(1);
    const auto snapshot = sf::observer("part").newest();
    const auto variable = snapshot.variable("u");
    CHECK(variable.shape == sf::shape(4, 8) && variable.part && variable.part->offset == sf::shape(4, 0));
    CHECK(snapshot.view<double>("u")(0, 0) == 8);
}
