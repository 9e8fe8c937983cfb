// The producer in C++: produce DIR REGION CASES [ARENA]. See ../run.py for what it has to do.
#include <cstddef>
#include <exception>
#include <fstream>
#include <functional>
#include <iostream>
#include <limits>
#include <list>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <stillframe.hpp>

#include "elements.hpp"
#include "sections.hpp"

namespace {

void fill(void* out, std::size_t bytes, bool is_bool, std::size_t number, std::size_t step) {
    for (std::size_t i = 0; i < bytes; ++i) {
        const std::size_t value = 31 * i + i / 256 + 17 * number + step * (number % 2);
        static_cast<unsigned char*>(out)[i] = static_cast<unsigned char>(is_bool ? value & 1 : value & 255);
    }
}

// Declares the variable of a line and returns what gives it the content of a step.
std::function<void(std::size_t)> declare(stillframe::region& region, const std::string& line, std::size_t number,
                                         std::list<std::vector<std::byte>>& buffers) {
    std::istringstream words(line);
    std::string name, kind, order, dtype;
    std::size_t bytes = 0;
    words >> name >> kind >> order >> dtype >> bytes;
    stillframe::shape shape;
    for (std::size_t extent; words >> extent; bytes *= extent) shape.append(extent);
    const auto about = stillframe::declaration()
                           .units("m/s")
                           .attribute("case", number)
                           .order(order == "F" ? stillframe::order::fortran : stillframe::order::c);
    const bool is_bool = dtype == "bool";
    std::function<void(std::size_t)> write;
    with_element(dtype, [&](auto value) {
        using element = decltype(value);
        if (kind == "loaned") {
            const auto loaned = region.loaned<element>(name, shape, about);
            write = [=, &region](std::size_t step) {
                auto loan = region.loan(loaned);
                fill(loan.data(), loan.view().bytes(), is_bool, number, step);
                loan.submit();
            };
            return;
        }
        element* memory = nullptr;
        if (kind == "managed") {
            memory = region.array<element>(name, shape, about).data();
        } else {
            const std::size_t offset = 16 * (number % 7) + 16;
            memory = reinterpret_cast<element*>(buffers.emplace_back(bytes + offset).data() + offset);
            region.track(name, memory, shape, about);
        }
        write = [=](std::size_t step) { fill(memory, bytes, is_bool, number, step); };
    });
    return write;
}

}  // namespace

int main(int argc, char** argv) try {
    if (argc != 4 && argc != 5) return 2;
    std::list<std::vector<std::byte>> buffers;
    std::optional<stillframe::arena> arena;
    auto options = stillframe::options().keep(2);
    if (argc == 5)
        options.arena(arena.emplace(argv[4], stillframe::arena_options().dir(argv[1]).bytes(std::uint64_t(32) << 30)));
    else
        options.dir(argv[1]);
    stillframe::region region(argv[2], options);
    std::vector<std::function<void(std::size_t)>> variables;
    std::ifstream table(argv[3]);
    for (std::string line; std::getline(table, line);)
        variables.push_back(declare(region, line, variables.size(), buffers));
    sections sections(region);
    for (const std::size_t step : {0, 1}) {
        sections.fill(step);
        for (const auto& write : variables) write(step);
        region.publish(step == 0 ? 5 : 8, sections.once(), stillframe::attribute("flag", true),
                       stillframe::attribute("integer", -(std::int64_t(1) << 40)), stillframe::attribute("real", 0.1),
                       stillframe::attribute("text", "Grüße"));
    }
    std::cout << "ready" << std::endl;
    std::cin.ignore(std::numeric_limits<std::streamsize>::max());
    region.unlink();
    return 0;
} catch (const std::exception& error) {
    std::cerr << "produce: " << error.what() << '\n';
    return 1;
}
