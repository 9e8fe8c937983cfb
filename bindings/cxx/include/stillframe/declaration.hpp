/// What can be said of a variable beside its name, type and shape.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <stillframe.h>

#include "array_view.hpp"

namespace stillframe {
inline namespace STILLFRAME_NAMESPACE {

/// The value of an attribute.
using scalar = std::variant<bool, std::int64_t, double, std::string>;

/// Named single values of a version or a variable.
using attributes = std::map<std::string, scalar>;

/// A named single value, to be published with a version: `heat.publish(step, stillframe::attribute("time", t))`.
class attribute {
public:
    template <class Value>
    attribute(std::string name, const Value& value) : name_(std::move(name)), value_(scalar_of(value)) {}

    const std::string& name() const noexcept { return name_; }
    const scalar& value() const noexcept { return value_; }

private:
    template <class Value>
    static scalar scalar_of(const Value& value) {
        if constexpr (std::is_same_v<Value, scalar> || std::is_same_v<Value, bool>) return value;
        else if constexpr (std::is_integral_v<Value>) return static_cast<std::int64_t>(value);
        else if constexpr (std::is_arithmetic_v<Value>) return static_cast<double>(value);
        else return std::string(value);
    }

    std::string name_;
    scalar value_;
};

/// The box of a global array that a variable holds: the variable, with its own shape, begins at `offset` in an array of
/// `global_shape` that the ranks of a program have together.
struct part {
    shape offset, global_shape;
};

namespace detail {

/// The part in scalars of an array whose part in items is given: what an item has in itself is there whole.
inline part with_items(part part, const shape& item) {
    for (const std::size_t extent : item) {
        part.offset.append(0);
        part.global_shape.append(extent);
    }
    return part;
}

/// Whether a part has as many dimensions as its variable.
inline result<void> check_rank(const std::string& name, const part& part, const shape& shape) {
    if (part.offset.rank() == shape.rank() && part.global_shape.rank() == shape.rank()) return {};
    return error(status::wrong_shape, "variable '" + name + "' of shape " + shape.text() + ": offset " +
                                          part.offset.text() + " and global shape " + part.global_shape.text() +
                                          " have other numbers of dimensions");
}

}  // namespace detail

/// Order, unit and attributes of a variable, and whether it is pinned: `stillframe::declaration().units("K").attribute("level", 3)`.
class declaration {
public:
    /// Order of the elements; row-major by default.
    declaration& order(stillframe::order order) {
        order_ = order;
        return *this;
    }

    /// Unit of measurement.
    declaration& units(std::string units) {
        units_ = std::move(units);
        return *this;
    }

    /// Anything else.
    template <class Value>
    declaration& attribute(const std::string& name, const Value& value) {
        attributes_[name] = stillframe::attribute(name, value).value();
        return *this;
    }

    /// Which box of a global array it is; it counts the container's elements, as a shape does.
    declaration& part(const shape& offset, const shape& global_shape) {
        part_ = stillframe::part{offset, global_shape};
        return *this;
    }

    /// Pins a managed variable, a container's or an arena's too, from the beginning: see `region::try_pin`. A container that
    /// grows beyond its capacity gets other memory, which is pinned as well.
    declaration& pinned(bool pinned = true) {
        pinned_ = pinned;
        return *this;
    }

    stillframe::order order() const noexcept { return order_; }

    /// Its part in scalars, if it is one; `shape` as for `declare`.
    std::optional<stillframe::part> part_of(std::uint32_t kind, const stillframe::shape& shape) const {
        if (!part_) return std::nullopt;
        stillframe::shape item;
        const std::size_t outer = kind == STILLFRAME_TRACKED ? 0 : part_->offset.rank();
        for (std::size_t dimension = outer; dimension < shape.rank(); ++dimension) item.append(shape[dimension]);
        return detail::with_items(*part_, item);
    }

    /// Declares a variable in a region of the C interface. Of a tracked one, `shape` has the extents of an element.
    result<std::uint32_t> declare(stillframe_region* region, const std::string& name, const std::string& dtype,
                                  std::uint32_t kind, const stillframe::shape& shape) const {
        std::vector<stillframe_attribute> attributes;
        for (const auto& [key, value] : attributes_) {
            stillframe_attribute attribute{};
            attribute.name = key.c_str();
            attribute.type = static_cast<std::uint32_t>(value.index());
            if (const auto* truth = std::get_if<bool>(&value)) attribute.integer = *truth ? 1 : 0;
            if (const auto* integer = std::get_if<std::int64_t>(&value)) attribute.integer = *integer;
            if (const auto* real = std::get_if<double>(&value)) attribute.real = *real;
            if (const auto* text = std::get_if<std::string>(&value)) attribute.text = text->c_str();
            attributes.push_back(attribute);
        }
        stillframe_declaration given{};
        given.name = name.c_str();
        given.dtype = dtype.c_str();
        given.units = units_.empty() ? nullptr : units_.c_str();
        given.kind = kind;
        given.order = static_cast<std::uint32_t>(order_);
        given.rank = static_cast<std::uint32_t>(shape.rank());
        given.shape = shape.data();
        given.attribute_count = static_cast<std::uint32_t>(attributes.size());
        given.attributes = attributes.data();
        if (pinned_) given.flags = STILLFRAME_PINNED;
        const auto part = part_of(kind, shape);
        if (part) {
            // The shape of a tracked one comes with its array.
            const auto& whole = kind == STILLFRAME_TRACKED ? part->offset : shape;
            if (auto fits = detail::check_rank(name, *part, whole); !fits) return fits.error();
            given.rank = static_cast<std::uint32_t>(whole.rank());
            given.offset = part->offset.data();
            given.global_shape = part->global_shape.data();
        }
        std::uint32_t variable = 0;
        if (const auto status = stillframe_declare(region, &given, &variable)) return detail::failure(status);
        return variable;
    }

private:
    stillframe::order order_ = stillframe::order::c;
    std::string units_;
    stillframe::attributes attributes_;
    std::optional<stillframe::part> part_;
    bool pinned_ = false;
};

namespace detail {

inline scalar scalar_of(const stillframe_attribute& attribute) {
    switch (attribute.type) {
        case STILLFRAME_BOOL: return attribute.integer != 0;
        case STILLFRAME_INT: return attribute.integer;
        case STILLFRAME_FLOAT: return attribute.real;
        default: return std::string(attribute.text ? attribute.text : "");
    }
}

}  // namespace detail

// A type of an attribute is the index of its alternative.
static_assert(STILLFRAME_BOOL == 0 && STILLFRAME_INT == 1 && STILLFRAME_FLOAT == 2 && STILLFRAME_TEXT == 3);

}  // namespace STILLFRAME_NAMESPACE
}  // namespace stillframe
