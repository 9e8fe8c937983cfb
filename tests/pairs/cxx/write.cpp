// A writer of an object in C++: write DIR OBJECT RANK RANKS. See ../objects.py for what it has to do.
#include <stillframe.hpp>

#include <cstdio>
#include <cstdlib>

namespace sf = stillframe;

int main(int argc, char** argv) try {
    if (argc != 5) return 2;
    const int rank = std::atoi(argv[3]), ranks = std::atoi(argv[4]);
    const sf::object object(argv[2], "type Cell struct { rho float32; id int64 }\nvar grid [12,10] float64\nvar cells [30]Cell",
                            sf::object_options().dir(argv[1]));
    const int first = rank * 12 / ranks, rows = (rank + 1) * 12 / ranks - first;
    const int begin = rank * 30 / ranks, count = (rank + 1) * 30 / ranks - begin;
    // Arrays of their own instead of records, and memory that is lent.
    auto fragment = object.write("view aligned { var id [i:count] = cells[i+begin].id; var grid [x:rows,y:10] = grid[x+first,y]; "
                                 "var rho [i:count] = cells[i+begin].rho }",
                                 sf::write_options()
                                     .bind("first", first)
                                     .bind("rows", rows)
                                     .bind("begin", begin)
                                     .bind("count", count)
                                     .rank(static_cast<std::uint32_t>(rank))
                                     .keep(3)
                                     .loaned());
    for (int version = 1; version <= 3; ++version) {
        const auto grid = fragment.view<double>("grid");
        const auto rho = fragment.view<float>("rho");
        const auto id = fragment.view<std::int64_t>("id");
        for (int x = 0; x < rows; ++x)
            for (int y = 0; y < 10; ++y) grid(x, y) = 10000 * version + 100 * (x + first) + y;
        for (int i = 0; i < count; ++i) {
            rho(i) = static_cast<float>(1000 * version + i + begin);
            id(i) = -(i + begin) - version;
        }
        fragment.publish(static_cast<std::uint64_t>(version));
    }
    std::puts("ready");
    std::fflush(stdout);
    while (std::getchar() != EOF) {
    }
    fragment.detach();
} catch (const sf::error& error) {
    std::fprintf(stderr, "write: %s\n", error.what());
    return 1;
}
