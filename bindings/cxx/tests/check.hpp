// What the C++ tests have in common. A test is a function made with TEST; its name is a sentence.
#pragma once

#include <stillframe.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace check {

struct test {
    const char* name;
    void (*run)();
};

inline std::vector<test>& tests() {
    static std::vector<test> all;
    return all;
}

struct registered {
    registered(const char* name, void (*run)()) { tests().push_back({name, run}); }
};

// Ends the program: after a failure, objects of the test are not to be trusted.
[[noreturn]] inline void fail(const char* file, int line, const std::string& why) {
    std::fprintf(stderr, "%s:%d: %s\n", file, line, why.c_str());
    std::fflush(nullptr);
    std::filesystem::remove_all(std::getenv("STILLFRAME_DIR"));
    _exit(1);
}

inline void is_error(const char* file, int line, const stillframe::error& error, stillframe::status status,
                     const char* words) {
    if (error.status() != status)
        fail(file, line, std::string("status ") + stillframe::name(error.status()) + ", not " + stillframe::name(status) +
                             ": " + error.what());
    if (!std::strstr(error.what(), words)) fail(file, line, std::string("'") + words + "' is not in: " + error.what());
}

// Threads that copy in the background end by themselves, soon after what they worked for is closed. What valgrind finds of one
// that has not ended looks like a leak.
inline void await_threads() {
    const auto others = [] {
        const std::filesystem::directory_iterator threads("/proc/self/task");
        return std::distance(begin(threads), end(threads)) - 1;
    };
    for (int trial = 0; trial < 600 && others() > 0; ++trial) usleep(100000);
    if (others() > 0) fail("threads", 0, std::to_string(others()) + " have not ended");
}

// Runs all tests, or those named on the command line, with regions in a directory of their own.
inline int run(int argc, char** argv) {
    char dir[] = "/dev/shm/stillframe-cxx-XXXXXX";
    if (!mkdtemp(dir)) return 2;
    setenv("STILLFRAME_DIR", dir, 1);
    // Nothing here takes long; what hangs is ended by the kernel.
    alarm(300);
    // Also says what an exception was that leaves a test while it has threads.
    std::set_terminate([] {
        std::string why = "terminated";
        try {
            if (std::current_exception()) throw;
        } catch (const std::exception& error) {
            why = error.what();
        } catch (...) {
        }
        fail("terminate", 0, why);
    });
    for (const test& test : tests()) {
        bool wanted = argc < 2;
        for (int arg = 1; arg < argc; ++arg) wanted |= std::strcmp(argv[arg], test.name) == 0;
        if (!wanted) continue;
        std::printf("%s\n", test.name);
        std::fflush(stdout);
        try {
            test.run();
        } catch (const std::exception& error) {
            fail(test.name, 0, std::string("it throws: ") + error.what());
        }
    }
    await_threads();
    std::filesystem::remove_all(dir);
    return 0;
}

// What a child process returns.
template <class Work>
int in_child(Work work) {
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) _exit(work());
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace check

#define CHECK(condition)                                                        \
    do {                                                                        \
        if (!(condition)) check::fail(__FILE__, __LINE__, #condition " is false"); \
    } while (0)

// The result is an error with this status, and its text has these words.
#define FAILS(wanted, words, result)                                                          \
    do {                                                                                      \
        const auto& got_ = (result);                                                          \
        if (got_.has_value()) check::fail(__FILE__, __LINE__, #result " succeeds");           \
        check::is_error(__FILE__, __LINE__, got_.error(), stillframe::status::wanted, words); \
    } while (0)

// The expression throws an error with this status, whose text has these words.
#define THROWS(wanted, words, expression)                                                  \
    do {                                                                                   \
        bool threw_ = false;                                                               \
        try {                                                                              \
            (void)(expression);                                                            \
        } catch (const stillframe::error& got_) {                                          \
            threw_ = true;                                                                 \
            check::is_error(__FILE__, __LINE__, got_, stillframe::status::wanted, words);  \
        }                                                                                  \
        if (!threw_) check::fail(__FILE__, __LINE__, #expression " throws nothing");       \
    } while (0)

#define TEST(name)                                            \
    static void name();                                       \
    static const check::registered registered_##name{#name, name}; \
    static void name()

int main(int argc, char** argv) { return check::run(argc, argv); }
