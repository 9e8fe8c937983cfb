// A variable that is followed and one that is given once: what each version shows. The same scene is in the tests of the other
// languages.
#include "check.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sf = stillframe;

// Whether u has this many elements in the newest version, all of this value.
static bool shows(const sf::observer& observer, double value, std::size_t count) {
    const auto snapshot = observer.newest();
    const auto u = snapshot.view<double>("u");
    return u.size() == count && std::all_of(u.begin(), u.end(), [&](double found) { return found == value; });
}

TEST(what_is_given_once_is_shown_once_and_what_is_followed_again) {
    sf::region region("given-beside-followed");
    const sf::observer observer("given-beside-followed");
    std::vector<double> a(3000, 1), b(5000, 20);
    region.track("u", a);
    region.publish(1);
    CHECK(shows(observer, 1, 3000));
    std::fill(a.begin(), a.end(), 2);
    region.publish(2, sf::array("u", b));
    CHECK(shows(observer, 20, 5000));
    std::fill(b.begin(), b.end(), 21);
    std::fill(a.begin(), a.end(), 3);
    region.publish(3);
    CHECK(shows(observer, 3, 3000));
    std::fill(a.begin(), a.end(), 4);
    FAILS(not_increasing, "version", region.try_publish(3, sf::array("u", b)));
    CHECK(shows(observer, 3, 3000));
    region.publish(4);
    CHECK(shows(observer, 4, 3000));
    std::fill(a.begin(), a.end(), 5);
    region.publish(5, sf::array("u", std::vector<double>()));
    CHECK(shows(observer, 0, 0));
    region.publish(6);
    CHECK(shows(observer, 5, 3000));
    region.untrack("u");
    std::fill(a.begin(), a.end(), 6);
    region.publish(7);
    CHECK(shows(observer, 5, 3000));
    std::fill(b.begin(), b.end(), 22);
    region.publish(8, sf::array("u", b));
    CHECK(shows(observer, 22, 5000));
    std::fill(b.begin(), b.end(), 23);
    region.publish(9);
    CHECK(shows(observer, 22, 5000));
}

TEST(what_was_given_once_can_be_followed_later) {
    sf::region region("given-first");
    const sf::observer observer("given-first");
    std::vector<double> a(3000, 1), b(5000, 20);
    region.publish(1, sf::array("u", b));
    CHECK(shows(observer, 20, 5000));
    std::fill(b.begin(), b.end(), 21);
    region.publish(2);
    CHECK(shows(observer, 20, 5000));
    region.track("u", a);
    region.publish(3);
    CHECK(shows(observer, 1, 3000));
    std::fill(a.begin(), a.end(), 2);
    region.publish(4);
    CHECK(shows(observer, 2, 3000));
}

TEST(an_array_without_elements_takes_the_place_of_the_former_one) {
    sf::region region("given-empty");
    const sf::observer observer("given-empty");
    std::vector<double> a(3000, 1);
    const double* const nowhere = nullptr;
    std::uint64_t version = 0;
    for (int way = 0; way < 4; ++way) {
        a.assign(3000, way);
        region.track("u", a);
        region.publish(++version);
        CHECK(shows(observer, way, 3000));
        if (way == 0) a = std::vector<double>();
        if (way == 1) region.track("u", nowhere, {0});
        if (way == 2) region.track("u", nowhere, {0, 7});
        if (way == 3)
            region.publish(++version, sf::array("u", nowhere, {0}));
        else
            region.publish(++version);
        CHECK(shows(observer, 0, 0));
    }
    region.publish(++version);
    CHECK(shows(observer, 3, 3000));
    region.track("u", nowhere, {3000});
    FAILS(bad_argument, "'u': the address of its array is NULL", region.try_publish(++version));
}

TEST(a_publish_that_refuses_one_of_its_arrays_leaves_none_behind) {
    sf::region region("given-in-vain");
    const sf::observer observer("given-in-vain");
    std::vector<double> a(3000, 1), b(5000, 20);
    const std::vector<int> numbers(5);
    region.track("u", a);
    region.publish(1, sf::array("n", numbers));
    FAILS(wrong_dtype, "'n'", region.try_publish(2, sf::array("u", b), sf::array("n", b)));
    FAILS(wrong_shape, "'u': it was given twice", region.try_publish(2, sf::array("u", b), sf::array("u", a)));
    std::fill(a.begin(), a.end(), 2);
    region.publish(2);
    CHECK(shows(observer, 2, 3000));
}
