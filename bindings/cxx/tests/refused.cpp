// Programs that the compiler has to refuse, each with the words that are in its case.
#include <stillframe.hpp>

#include <list>
#include <string>
#include <vector>

[[maybe_unused]] static void refused(stillframe::region& region, const stillframe::observer& observer) {
    (void)region;
    (void)observer;
#if REFUSED == 1  // has to outlive the call
    region.track("u", std::vector<double>(3));
#elif REFUSED == 2  // has no dtype
    std::vector<std::vector<double>> u;
    region.track("u", u);
#elif REFUSED == 3  // has no dtype
    std::vector<long double> u;
    region.track("u", u);
#elif REFUSED == 4  // deleted
    (void)observer.newest().view<double>("u");
#elif REFUSED == 5  // holds bits, which have no dtype
    std::vector<bool, stillframe::allocator<bool>> u(3, true, stillframe::allocator<bool>(region, "u"));
#elif REFUSED == 6  // has no dtype
    std::list<int, stillframe::allocator<int>> u(3, 1, stillframe::allocator<int>(region, "u"));
#elif REFUSED == 7  // publish takes stillframe::array and stillframe::attribute
    region.publish(1, 2.5);
#elif REFUSED == 8  // has to be trivially copyable
    struct text {
        std::string words;
    };
    (void)stillframe::record<text>({});
#elif REFUSED == 9  // deleted
    for (auto& snapshot : stillframe::observer("u").snapshots()) (void)snapshot;
#elif REFUSED == 10  // nodiscard
    region.try_publish(1);
#elif REFUSED == 11  // has no dtype
    std::vector<bool> u(3);
    region.track("u", u);
#elif REFUSED == 12  // has to outlive the call
    region.track("u", std::vector<double>(9), stillframe::section::of({3, 3}).every({2, 2}));
#elif REFUSED == 13  // has no dtype
    double u[9] = {};
    region.track("u", u, stillframe::section::whole().as<long double>());
#endif
}
