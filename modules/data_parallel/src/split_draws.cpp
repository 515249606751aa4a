// SPDX-License-Identifier: Apache-2.0
#include "split_draws.hpp"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>
#include <tw/autograd/generator.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/random.hpp>
#include <tw/graph/draws.hpp>
#include <tw/tensor/content_hash.hpp>
#include <tw/tensor/tensor_spec.hpp>

#include "tolerance.hpp"

namespace tw {
namespace {

using Arguments = std::vector<c10::IValue>;

constexpr uint64_t elements_of_draw = 8;
constexpr size_t max_draws = 10'000;  // further draws are not compared; this many are a message of 2 MB

/// Whether values can be read: not inside a transform of functorch, and not those of a sharded parameter, which reading would gather.
bool is_comparable(const at::Tensor& tensor) {
  constexpr c10::DispatchKeySet others{c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper,
                                       c10::DispatchKey::TESTING_ONLY_GenericWrapper};
  return !tensor.key_set().has_any(others) && tensor.layout() == at::kStrided && !tensor.is_meta() && tensor.has_storage() && tensor.numel() > 0;
}

/// The first floating-point tensor whose values the operator reads. Undefined: there is none, as for normal_(), which overwrites its tensor.
at::Tensor tensor_of(const c10::OperatorHandle& op, const Arguments& arguments) {
  const std::string& name = op.operator_name().name;
  const bool reads_all = name.find("dropout") != std::string::npos || name.find("rrelu") != std::string::npos;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::AliasInfo* alias = op.schema().arguments()[i].alias_info();
    if (!arguments[i].isTensor() || (alias != nullptr && alias->isWrite() && !reads_all)) continue;
    const at::Tensor& tensor = arguments[i].toTensor();
    if (tensor.defined() && tensor.is_floating_point()) return tensor;
  }
  return {};
}

/// The generator that an operator draws from.
at::Generator generator_of(const Arguments& arguments, const at::Tensor& tensor) {
  const auto passed = std::ranges::find_if(arguments, [](const c10::IValue& each) { return each.isGenerator(); });
  return passed == arguments.end() ? at::globalContext().defaultGenerator(tensor.device()) : passed->toGenerator();
}

std::vector<double> values_of(const at::Tensor& tensor) {
  std::vector<int64_t> places;
  for (uint64_t i = 0; i < elements_of_draw; ++i) places.push_back(static_cast<int64_t>(derived_seed(i, 0) % static_cast<uint64_t>(tensor.numel())));
  const at::Tensor some = tensor.take(at::tensor(places, at::kLong).to(tensor.device())).to(at::kCPU, at::kDouble);
  std::vector<double> values(some.const_data_ptr<double>(), some.const_data_ptr<double>() + elements_of_draw);
  values.push_back(tensor.abs().mean().to(at::kDouble).item<double>());
  return values;
}

/// Under autocast, the tensor may come from operators in a lower precision than its own.
double tolerance_for(const at::Tensor& tensor) {
  return tolerance_of(at::autocast::is_autocast_enabled(tensor.device().type()) ? at::kBFloat16 : tensor.scalar_type());
}

/// Whether two draws of one operator are for the same tensor, to rounding.
bool are_alike(const Draw& a, const Draw& b) {
  if (a.shape != b.shape) return false;
  const double mean = std::max(a.values.back(), b.values.back());
  return std::ranges::equal(a.values, b.values, [&](double x, double y) { return !(std::abs(x - y) > a.tolerance * std::max(mean, std::abs(x))); });
}

}  // namespace

void SplitDraws::call(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, torch::jit::Stack& stack) {
  if (!paused_ && op.hasTag(at::Tag::nondeterministic_seeded)) {
    const Arguments arguments = torch::jit::last(stack, op.schema().arguments().size()).vec();
    if (graph::draws(op, arguments)) {
      add(op, arguments, [&](const at::Tensor& tensor) { return content_hash(states_of({generator_of(arguments, tensor)}).front()); });
    }
  }
  execute(op, stack);
}

void SplitDraws::draw(const c10::OperatorHandle& op, const torch::jit::Stack& arguments, uint64_t seed) {
  if (!paused_) add(op, arguments, [&](const at::Tensor& /*tensor*/) { return seed; });
}

void SplitDraws::add(const c10::OperatorHandle& op, const Arguments& arguments, const std::function<uint64_t(const at::Tensor&)>& generator) {
  const at::Tensor tensor = tensor_of(op, arguments);
  if (draws_.size() >= max_draws || !tensor.defined() || !is_comparable(tensor)) return;
  without_listening([&] {
    const at::NoGradGuard no_grad;
    draws_.push_back({op.operator_name().name, tensor.sizes().vec(), values_of(tensor), tolerance_for(tensor), generator(tensor)});
  });
}

std::string problem_of(const std::vector<std::vector<Draw>>& of_ranks) {
  const std::vector<Draw>& first = of_ranks.front();
  for (size_t rank = 1; rank < of_ranks.size(); ++rank) {
    for (size_t i = 0; i < std::min(first.size(), of_ranks[rank].size()); ++i) {
      const Draw& a = first[i];
      const Draw& b = of_ranks[rank][i];
      if (a.op != b.op || a.generator != b.generator || are_alike(a, b)) continue;
      // Short, since other ranks' errors quote its beginning.
      return concat(a.op, " draws the same random numbers for different slices, of shapes ", shape_text(a.shape), " and ", shape_text(b.shape),
                    ", on ranks 0 and ", rank,
                    " along `tensor`: use tensor_parallel::SplitDropout, or draw while a tensor_parallel::SplitRandom exists");
    }
  }
  return "";
}

}  // namespace tw
