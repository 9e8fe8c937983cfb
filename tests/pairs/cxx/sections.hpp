// Sections of arrays, and numbers rounded to fewer bits. See ../run.py for which.
#pragma once

#include <complex>
#include <cstddef>
#include <vector>

#include <stillframe.hpp>

class sections {
public:
    explicit sections(stillframe::region& region) {
        using stillframe::section;
        region.track("interior", w_, interior(), fortran());
        region.track("backwards", &w_.back(), section::of({4, columns}).strides(-3, -rows), fortran());
        region.track("single", w_, whole().as<float>(), fortran());
        region.track("half", w_, interior().as<stillframe::float16>(), fortran());
        region.track("brain", w_, whole().as<stillframe::bfloat16>(), fortran());
        region.track("pairs", z_, section::whole().inside({1}, {10}).every({2}).as<std::complex<float>>(), fortran());
        region.track("once", unused_, stillframe::shape(0, 0), fortran());
        region.untrack("once");
    }

    void fill(std::size_t step) {
        for (std::size_t n = 0; n < w_.size(); ++n)
            w_[n] = (static_cast<double>(37 * n % 1000) - 499.5) / 7 + static_cast<double>(step);
        for (std::size_t n = 0; n < z_.size(); ++n) z_[n] = {w_[2 * n], w_[2 * n + 1]};
    }

    // What each version is given.
    stillframe::array once() const { return {"once", w_, whole().inside({2, 0}, {10, columns}).every({2, 1}), fortran()}; }

private:
    static constexpr int rows = 12, columns = 9;
    static stillframe::declaration fortran() { return stillframe::declaration().order(stillframe::order::fortran); }
    static stillframe::section whole() { return stillframe::section::of({rows, columns}); }
    static stillframe::section interior() { return whole().inside({1, 0}, {11, columns}).every({1, 2}); }

    std::vector<double> w_ = std::vector<double>(rows * columns), unused_;
    std::vector<std::complex<double>> z_ = std::vector<std::complex<double>>(10);
};
