// `boost` and `boost-inplace`: Boost.Interprocess, two buffers in a shared_memory_object, guarded by an
// interprocess_mutex and two interprocess_conditions. `boost` copies the producer's own array in;
// `boost-inplace` fills the shared buffer itself.
//
// boost <producer|observer> <copy|inplace> <control file> <name> <elements> <steps>
//
// The control page and its protocol are described in src/control.rs, the arithmetic in src/work.rs.

#include <boost/interprocess/file_mapping.hpp>
#include <boost/interprocess/mapped_region.hpp>
#include <boost/interprocess/shared_memory_object.hpp>
#include <boost/interprocess/sync/interprocess_condition.hpp>
#include <boost/interprocess/sync/interprocess_mutex.hpp>
#include <boost/interprocess/sync/scoped_lock.hpp>

#include <atomic>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <linux/futex.h>
#include <new>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

namespace ipc = boost::interprocess;
using Lock = ipc::scoped_lock<ipc::interprocess_mutex>;

constexpr std::size_t block = 1024;

static void fill(std::uint64_t step, double *out, std::size_t n) {
    double ramp[block];
    for (std::size_t i = 0; i < block; ++i) ramp[i] = double(i) * 0.25;
    for (std::size_t b = 0; b < n / block; ++b, out += block) {
        const double base = double(step + b);
        for (std::size_t i = 0; i < block; ++i) out[i] = base + ramp[i];
    }
}

static double sum(const double *data, std::size_t n) {
    double acc[16] = {};
    for (std::size_t i = 0; i < n; i += 16)
        for (std::size_t j = 0; j < 16; ++j) acc[j] += data[i + j];
    double total = 0;
    for (double a : acc) total += a;
    return total;
}

struct alignas(64) ControlHead {
    std::atomic<std::uint32_t> created, ready, summed;
};
struct alignas(64) Row {
    std::uint64_t begin, fill_start, fill_end, published, summed;
    double sum;
};

static std::uint64_t now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return std::uint64_t(t.tv_sec) * 1000000000u + std::uint64_t(t.tv_nsec);
}
static void raise_to(std::atomic<std::uint32_t> &word, std::uint32_t value) {
    word.store(value, std::memory_order_release);
    syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX);
}
static void wait_for(std::atomic<std::uint32_t> &word, std::uint64_t at_least) {
    for (std::uint32_t v; (v = word.load(std::memory_order_acquire)) < at_least;)
        syscall(SYS_futex, &word, FUTEX_WAIT, v, nullptr);
}

// The head of the shared memory; the buffers follow at the next page.
struct Channel {
    ipc::interprocess_mutex mutex;
    ipc::interprocess_condition became_full, became_empty;
    unsigned full = 0;
};
constexpr std::size_t buffers_at = 4096;
static_assert(sizeof(Channel) <= buffers_at);

int main(int argc, char **argv) {
    if (argc != 7) return std::fputs("not to be started by hand\n", stderr), 2;
    const bool producer = std::strcmp(argv[1], "producer") == 0;
    const bool copy = std::strcmp(argv[2], "copy") == 0;
    const std::string name = argv[4];
    const std::size_t n = std::strtoull(argv[5], nullptr, 10);
    const std::uint64_t steps = std::strtoull(argv[6], nullptr, 10);

    ipc::file_mapping file(argv[3], ipc::read_write);
    ipc::mapped_region control_page(file, ipc::read_write);
    auto &control = *static_cast<ControlHead *>(control_page.get_address());
    auto *rows = reinterpret_cast<Row *>(&control + 1);

    if (!producer) wait_for(control.created, 1);
    ipc::shared_memory_object shm(ipc::open_or_create, name.c_str(), ipc::read_write);
    if (producer) shm.truncate(ipc::offset_t(buffers_at + 2 * n * sizeof(double)));
    ipc::mapped_region region(shm, ipc::read_write);
    auto *base = static_cast<char *>(region.get_address());
    double *buffers[2];
    for (std::size_t i = 0; i < 2; ++i)
        buffers[i] = reinterpret_cast<double *>(base + buffers_at) + i * n;

    if (producer) {
        auto &channel = *new (base) Channel;
        std::memset(base + buffers_at, 0, 2 * n * sizeof(double)); // touch every page
        std::vector<double> own(copy ? n : 0, 1.0);
        raise_to(control.created, 1);
        wait_for(control.ready, 1);
        const auto wait_empty = [&] {
            Lock lock(channel.mutex);
            while (channel.full == 2) channel.became_empty.wait(lock);
        };
        for (std::uint64_t step = 0; step < steps; ++step) {
            wait_for(control.summed, step ? step - 1 : 0);
            Row &row = rows[step];
            double *const buffer = buffers[step % 2];
            row.begin = now();
            if (!copy) wait_empty();
            row.fill_start = now();
            fill(step, copy ? own.data() : buffer, n);
            row.fill_end = now();
            if (copy) {
                wait_empty();
                std::memcpy(buffer, own.data(), n * sizeof(double));
            }
            {
                Lock lock(channel.mutex);
                ++channel.full;
            }
            channel.became_full.notify_one();
            row.published = now();
        }
        wait_for(control.summed, steps);
    } else {
        auto &channel = *reinterpret_cast<Channel *>(base);
        raise_to(control.ready, 1);
        for (std::uint64_t step = 0; step < steps; ++step) {
            {
                Lock lock(channel.mutex);
                while (channel.full == 0) channel.became_full.wait(lock);
            }
            const double total = sum(buffers[step % 2], n);
            rows[step].summed = now();
            rows[step].sum = total;
            {
                Lock lock(channel.mutex);
                --channel.full;
            }
            channel.became_empty.notify_one();
            raise_to(control.summed, std::uint32_t(step + 1));
        }
    }
}
