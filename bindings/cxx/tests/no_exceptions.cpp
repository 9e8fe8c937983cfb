// The same without exceptions: compiled with -fno-exceptions.
#include <stillframe.hpp>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <vector>

#if STILLFRAME_EXCEPTIONS
#error "this is to be compiled with -fno-exceptions"
#endif

static int look(const char* dir) {
    namespace sf = stillframe;
    std::vector<double> u(1000, 1.5);
    auto region = sf::region::try_create("plain", sf::options().dir(dir));
    if (!region || !region->try_track("u", u)) return 1;
    if (auto published = region->try_publish(1); !published || published->version != 1) return 2;
    if (auto again = region->try_publish(1); again || again.error().status() != sf::status::not_increasing) return 3;
    auto observer = sf::observer::try_open("plain", sf::observer_options().dir(dir));
    if (!observer) return 4;
    auto snapshot = observer->try_newest();
    if (!snapshot) return 5;
    auto view = snapshot->try_view<double>("u");
    if (!view || view->size() != 1000 || (*view)[999] != 1.5) return 6;
    std::size_t seen = 0;
    auto visited = snapshot->try_chunks("u", [&](std::size_t, sf::span<const std::byte> chunk) { seen += chunk.size(); });
    if (!visited || seen != 8000) return 7;
    if (auto none = snapshot->try_view<double>("v"); none) return 8;
    auto regions = sf::try_regions(dir);
    if (!regions || regions->size() != 1 || !region->try_unlink()) return 9;
    auto arena = sf::arena::try_create("pool", sf::arena_options().dir(dir).bytes(64 << 20));
    if (!arena || sf::arena::try_open("none", sf::arena_options().dir(dir))) return 10;
    auto light = sf::region::try_create("light", sf::options().arena(*arena));
    auto usage = arena->try_usage();
    return light && usage && usage->regions.size() == 1 && light->try_unlink() && arena->try_close() ? 0 : 11;
}

int main() {
    char dir[] = "/dev/shm/stillframe-cxx-XXXXXX";
    if (!mkdtemp(dir)) return 12;
    const int status = look(dir);
    std::filesystem::remove_all(dir);
    if (status) std::fprintf(stderr, "step %d failed\n", status);
    return status;
}
