/// Loaned variables: memory that is written whole for each version.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <stillframe.h>

#include "array_view.hpp"
#include "declaration.hpp"
#include "error.hpp"

namespace stillframe {
inline namespace STILLFRAME_NAMESPACE {

template <class T>
class loan;

/// A loaned variable: its content is written whole, in place, for each version. See `region::loaned`.
template <class T>
class loaned {
public:
    const std::string& name() const noexcept { return name_; }
    const stillframe::shape& shape() const noexcept { return shape_; }

private:
    friend class region;
    loaned(std::string name, std::uint32_t variable, const stillframe::shape& shape, stillframe::order order)
        : name_(std::move(name)), variable_(variable), shape_(shape), order_(order) {}

    std::string name_;
    std::uint32_t variable_;
    stillframe::shape shape_;
    stillframe::order order_;
};

/// Memory of the next version of a loaned variable. What it holds at first is unspecified: write all of it, then `submit`.
/// Without that it is given back at the end of its life.
template <class T>
class loan {
public:
    /// The elements, until `submit` or `discard`.
    array_view<T> view() const noexcept { return view_; }
    T* data() const noexcept { return view_.data(); }
    std::size_t size() const noexcept { return view_.size(); }
    T* begin() const noexcept { return view_.begin(); }
    T* end() const noexcept { return view_.end(); }
    T& operator[](std::size_t index) const noexcept { return view_[index]; }
    template <class... Indices>
    T& operator()(Indices... indices) const noexcept {
        return view_(indices...);
    }

    /// Hands the memory to the next publish. It must not be written from then on.
    ///
    /// Errors: `bad_handle` if it was handed over or given back already, or the region closed; `forked`.
    result<void> try_submit() {
        view_ = {};
        return detail::check(stillframe_loan_submit(handle_.release()));
    }

    /// Gives the memory back: the next version shows what the last one did.
    ///
    /// Errors: `forked`.
    result<void> try_discard() {
        view_ = {};
        return detail::check(handle_.end());
    }

#if STILLFRAME_EXCEPTIONS
    /// As `try_submit`. Throws `error`.
    void submit() { try_submit().value(); }
    /// As `try_discard`. Throws `error`.
    void discard() { try_discard().value(); }
#endif

private:
    friend class region;
    loan(stillframe_loan* handle, const array_view<T>& view) : handle_(handle), view_(view) {}

    detail::handle<stillframe_loan, &stillframe_loan_discard> handle_;
    array_view<T> view_;
};

}  // namespace STILLFRAME_NAMESPACE
}  // namespace stillframe
