// A reader of an object in C++: read DIR OBJECT VERSION. See ../objects.py for what it prints.
#include <stillframe.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace sf = stillframe;

int main(int argc, char** argv) try {
    if (argc != 4) return 2;
    const auto patience = std::chrono::seconds(20);
    const auto object = sf::object::open(argv[2], sf::object_options().dir(argv[1]).wait(patience).look());
    const auto options = sf::read_options().version(std::strtoull(argv[3], nullptr, 10), patience);
    const auto print = [&](const char* name, const char* text) {
        const auto fragment = object.read(text, options);
        const auto numbers = fragment.view<double>();
        std::printf("%s", name);
        if (numbers.rank() == 1)
            for (std::size_t x = 0; x < numbers.extent(0); ++x) std::printf(" %d", static_cast<int>(numbers(x)));
        else
            for (std::size_t x = 0; x < numbers.extent(0); ++x)
                for (std::size_t y = 0; y < numbers.extent(1); ++y) std::printf(" %d", static_cast<int>(numbers(x, y)));
        std::putchar('\n');
    };
    // In the order of their indices, whatever that of memory is.
    print("turned", "view columnmajor { var t [y:10,x:12] = grid[x,y] }");
    print("coarse", "view columnmajor { var c [i,j] = grid[i*4,j*3] }");
    print("column", "{ var c [x] = grid[11-x,7] }");
    print("ghosts", "view columnmajor clipped { var u [x:14,y:3] = grid[x-1,y+8] }");
    const auto cells = object.read("view aligned { var rho [i:20] = cells[i+5].rho; var id [i:20] = cells[i+5].id }", options);
    const auto rho = cells.view<float>("rho");
    const auto id = cells.view<std::int64_t>("id");
    std::printf("cells");
    for (std::size_t i = 0; i < 20; ++i) std::printf(" %d %d", static_cast<int>(rho(i)), static_cast<int>(id(i)));
    std::putchar('\n');
} catch (const sf::error& error) {
    std::fprintf(stderr, "read: %s\n", error.what());
    return 1;
}
