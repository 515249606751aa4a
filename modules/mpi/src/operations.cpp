// SPDX-License-Identifier: Apache-2.0
#include "operations.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "runtime.hpp"

namespace tw::mpi {
namespace {

// Bitwise symmetric, because ranks may combine in a different order: any NaN becomes the one quiet NaN, and of two zeros the correctly signed one
// wins.
template <ReduceOp op, class T>
T extreme(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
  if (a == b) return std::signbit(a) == (op == ReduceOp::min) ? a : b;
  return (op == ReduceOp::min) == (a < b) ? a : b;
}

// Unsigned arithmetic wraps around. Types narrower than 32 bits would be promoted to int, whose products overflow. Higher bits of the operands do not
// reach the bits of the result.
template <ReduceOp op, class T>
T wrapped(T a, T b) {
  using Wide = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  const Wide x = static_cast<std::make_unsigned_t<T>>(a);
  const Wide y = static_cast<std::make_unsigned_t<T>>(b);
  return static_cast<T>(op == ReduceOp::sum ? x + y : x * y);
}

// The signature that MPI calls.
template <class T, T (*combine)(T, T)>
void run(void* in, void* in_and_out, int* count, MPI_Datatype*) {
  const T* from = static_cast<const T*>(in);
  T* to = static_cast<T*>(in_and_out);
  for (int i = 0; i < *count; ++i) to[i] = combine(from[i], to[i]);
}

MPI_Op make(MPI_User_function* function) {
  MPI_Op op = MPI_OP_NULL;
  check(MPI_Op_create(function, /*commute=*/1, &op), "MPI_Op_create", "world");
  return op;
}

MPI_Op of_mpi(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average: return MPI_SUM;
    case ReduceOp::min: return MPI_MIN;
    case ReduceOp::max: return MPI_MAX;
    case ReduceOp::product: return MPI_PROD;
    case ReduceOp::logical_and: return MPI_LAND;
    case ReduceOp::logical_or: return MPI_LOR;
    case ReduceOp::logical_xor: return MPI_LXOR;
    case ReduceOp::bitwise_and: return MPI_BAND;
    case ReduceOp::bitwise_or: return MPI_BOR;
    case ReduceOp::bitwise_xor: return MPI_BXOR;
  }
  return MPI_OP_NULL;
}

}  // namespace

Operations::Operations() {
  const auto add_real = [this]<class T>(ElementType type, T /*of*/) {
    own_[{ReduceOp::min, type}] = make(run<T, extreme<ReduceOp::min, T>>);
    own_[{ReduceOp::max, type}] = make(run<T, extreme<ReduceOp::max, T>>);
  };
  const auto add_integer = [this]<class T>(ElementType type, T /*of*/) {
    own_[{ReduceOp::sum, type}] = make(run<T, wrapped<ReduceOp::sum, T>>);
    own_[{ReduceOp::product, type}] = make(run<T, wrapped<ReduceOp::product, T>>);
  };
  add_real(ElementType::float32, float{});
  add_real(ElementType::float64, double{});
  add_integer(ElementType::uint8, uint8_t{});
  add_integer(ElementType::int8, int8_t{});
  add_integer(ElementType::int16, int16_t{});
  add_integer(ElementType::int32, int32_t{});
  add_integer(ElementType::int64, int64_t{});
}

MPI_Op Operations::find(ReduceOp op, ElementType type) const {
  const auto own = own_.find({op, type});
  return own == own_.end() ? of_mpi(op) : own->second;
}

void Operations::free() {
  for (auto& [key, op] : own_) MPI_Op_free(&op);
  own_.clear();
}

}  // namespace tw::mpi
