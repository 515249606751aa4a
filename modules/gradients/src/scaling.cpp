// SPDX-License-Identifier: Apache-2.0
#include "scaling.hpp"

#include <ATen/ops/isfinite.h>
#include <ATen/ops/mul.h>

#include <cstring>
#include <tw/comm/pending_scalar.hpp>
#include <type_traits>

#include "scaling_loops.hpp"

// Hand-written loops for contiguous memory of the host: for small gradients ATen's dispatch takes longer than the work.
namespace tw {
namespace {

// Calls `call` with pointer and number of elements of a contiguous tensor, if its type has built-in arithmetic; a complex number counts as two
// elements. @return false otherwise
template <class Call>
bool on_elements(const at::Tensor& tensor, Call call) {
  switch (tensor.scalar_type()) {
    case at::kFloat: call(tensor.mutable_data_ptr<float>(), tensor.numel()); return true;
    case at::kDouble: call(tensor.mutable_data_ptr<double>(), tensor.numel()); return true;
    case at::kComplexFloat: call(static_cast<float*>(tensor.mutable_data_ptr()), 2 * tensor.numel()); return true;
    case at::kComplexDouble: call(static_cast<double*>(tensor.mutable_data_ptr()), 2 * tensor.numel()); return true;
    default: return false;
  }
}

bool halves_finite(const at::Tensor& tensor) {
  const uint16_t exponent = tensor.scalar_type() == at::kHalf ? 0x7C00 : 0x7F80;
  return scaling_loops::halves_finite(static_cast<const uint16_t*>(tensor.const_data_ptr()), exponent, tensor.numel());
}

// For CPU memory.
bool scale_finite(const at::Tensor& tensor, double factor) {
  bool finite = true;
  const bool done = on_elements(tensor, [&](auto* values, int64_t n) {
    using Element = std::remove_pointer_t<decltype(values)>;
    finite = scaling_loops::multiply_finite(values, static_cast<Element>(factor), n);
  });
  if (done) return finite;
  scale(tensor, factor);
  return halves_finite(tensor);
}

}  // namespace

void scaled_copy(const at::Tensor& from, double factor, const at::Tensor& to) {
  const bool plain = from.is_contiguous() && !from.is_conj() && !from.is_neg() && from.is_cpu();
  if (plain && factor == 1) {
    if (to.numel() > 0) std::memmove(to.mutable_data_ptr(), from.const_data_ptr(), to.nbytes());
    return;
  }
  const bool done = plain && on_elements(to, [&](auto* out, int64_t n) {
                      using Element = std::remove_pointer_t<decltype(out)>;
                      const auto* in = static_cast<const Element*>(from.const_data_ptr());
                      scaling_loops::multiply(in, static_cast<Element>(factor), out, n);
                    });
  if (done) return;
  at::Tensor out = to;
  if (factor == 1) {
    out.copy_(from);
  } else {
    at::mul_outf(from, factor, out);
  }
}

void scale(const at::Tensor& tensor, double factor) {
  if (factor != 1) scaled_copy(tensor, factor, tensor);
}

void FiniteCheck::scale(const at::Tensor& tensor, double factor) {
  if (tensor.is_cpu()) {
    on_host_ = scale_finite(tensor, factor) && on_host_;
    return;
  }
  tw::scale(tensor, factor);
  const at::Tensor finite = at::isfinite(tensor).all();
  on_device_ = on_device_.defined() ? on_device_.logical_and(finite) : finite;
}

bool FiniteCheck::passed(const Communicator& comm) const { return on_host_ && (!on_device_.defined() || PendingScalar(on_device_).value(comm) != 0); }

}  // namespace tw
