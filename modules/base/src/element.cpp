// SPDX-License-Identifier: Apache-2.0
#include <tw/base/element.hpp>

#include <array>

namespace tw {
namespace {

enum class Kind { boolean, integer, real, complex };

struct Description {
  std::string_view name;
  int64_t bytes;
  Kind kind;
};

// By ElementType.
constexpr std::array<Description, element_types> descriptions{{{"bool", 1, Kind::boolean},
                                                               {"uint8", 1, Kind::integer},
                                                               {"int8", 1, Kind::integer},
                                                               {"int16", 2, Kind::integer},
                                                               {"int32", 4, Kind::integer},
                                                               {"int64", 8, Kind::integer},
                                                               {"float16", 2, Kind::real},
                                                               {"bfloat16", 2, Kind::real},
                                                               {"float32", 4, Kind::real},
                                                               {"float64", 8, Kind::real},
                                                               {"complex64", 8, Kind::complex},
                                                               {"complex128", 16, Kind::complex}}};

constexpr std::array<std::string_view, reduce_ops> op_names{"sum",        "average",     "min",         "max",        "product",    "logical_and",
                                                            "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor"};

const Description& describe(ElementType type) noexcept { return descriptions[static_cast<size_t>(type)]; }

}  // namespace

int64_t element_bytes(ElementType type) noexcept { return describe(type).bytes; }
std::string_view name_of(ElementType type) noexcept { return describe(type).name; }
std::string_view name_of(ReduceOp op) noexcept { return op_names[static_cast<size_t>(op)]; }

std::string_view why_undefined(ReduceOp op, ElementType type) noexcept {
  const Kind kind = describe(type).kind;
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::product: return kind == Kind::boolean ? "use logical_or or logical_and, or convert to an integer type" : "";
    case ReduceOp::average: return kind == Kind::boolean || kind == Kind::integer ? "it would be rounded; convert to a floating-point type" : "";
    case ReduceOp::min:
    case ReduceOp::max: return kind == Kind::complex ? "complex numbers have no order" : "";
    default: return kind == Kind::real || kind == Kind::complex ? "only integers and bool support it" : "";
  }
}

}  // namespace tw
