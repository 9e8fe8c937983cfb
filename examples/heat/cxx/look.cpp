// Watches a heat run: how many cells are how warm, in the newest version each time.
//
//     look [NAME]
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <stillframe.hpp>
#include <string>
#include <vector>

// The whole plate, row by row. The ranks lie row by row on as square a grid as their number allows.
static std::vector<std::vector<double>> assemble(const stillframe::group_snapshot &snapshot) {
    std::size_t columns = 1;
    for (std::size_t divisor = 1; divisor * divisor <= snapshot.size(); divisor++)
        if (snapshot.size() % divisor == 0)
            columns = divisor;
    std::vector<std::vector<double>> plate;
    std::size_t top = 0;
    for (std::size_t rank = 0; rank < snapshot.size(); rank++) {
        // Axes are (y, x) with a frame of ghost cells; the view knows C order from Fortran order.
        const auto u = snapshot[rank].view<double>("u");
        if (rank % columns == 0) {
            top = plate.size();
            plate.resize(top + u.extent(0) - 2);
        }
        for (std::size_t y = 1; y + 1 < u.extent(0); y++)
            for (std::size_t x = 1; x + 1 < u.extent(1); x++)
                plate[top + y - 1].push_back(u(y, x));
    }
    return plate;
}

static void show(const stillframe::group_snapshot &snapshot) {
    constexpr double class_width = 10;
    constexpr int bar_width = 50;
    double heat = 0;
    std::uint64_t bits = 0, cell;
    std::size_t count = 0;
    std::array<std::size_t, 10> classes{};
    for (const auto &row : assemble(snapshot))
        for (const double value : row) {
            std::memcpy(&cell, &value, sizeof cell);
            bits ^= cell;
            heat += value;
            count++;
            const auto found = static_cast<std::size_t>(value / class_width);
            classes[found < classes.size() ? found : classes.size() - 1]++;
        }
    std::printf("version %llu: heat %.4f, bits %016llx\n", static_cast<unsigned long long>(snapshot.version()), heat,
                static_cast<unsigned long long>(bits));
    for (std::size_t at = 0; at < classes.size(); at++) {
        const double share = count ? double(classes[at]) / double(count) : 0;
        const std::string bar(static_cast<std::size_t>(share * bar_width + 0.5), '#');
        std::printf("%4.0f to %3.0f %6.2f %% %s\n", double(at) * class_width, double(at + 1) * class_width, 100 * share,
                    bar.c_str());
    }
    std::fflush(stdout);
}

int main(int argc, char **argv) {
    try {
        const stillframe::group group(argc > 1 ? argv[1] : "heat",
                                      stillframe::observer_options().wait(std::chrono::seconds(30)).polite());
        // Ends when all ranks have ended; that one died while others go on is an error.
        for (const auto &snapshot : group.snapshots())
            show(snapshot);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "look: %s\n", error.what());
        return 1;
    }
}
