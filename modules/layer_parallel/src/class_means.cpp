// SPDX-License-Identifier: Apache-2.0
#include "class_means.hpp"

#include <ATen/ops/bincount.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "states.hpp"

namespace tw::layer_parallel {
namespace {

/// How much of a mean a new batch makes up.
constexpr double weight_of_new = 0.3;

/// [classes] as [classes, 1, 1, ...].
at::Tensor beside(const at::Tensor& of_classes, const at::Tensor& like) {
  std::vector<int64_t> shape(static_cast<size_t>(like.dim()), 1);
  shape[0] = of_classes.size(0);
  return of_classes.view(shape);
}

/// With zeros for the classes that are new.
at::Tensor grown(const at::Tensor& tensor, int64_t classes) {
  auto shape = tensor.sizes().vec();
  shape[0] = classes - shape[0];
  return shape[0] <= 0 ? tensor : at::cat({tensor, at::zeros(shape, tensor.options())});
}

}  // namespace

bool ClassMeans::know(const State& like, const at::Tensor& classes) const {
  if (!seen_.defined() || means_.size() != like.size()) return false;
  for (size_t i = 0; i < like.size(); ++i) {
    if (means_[i].sizes().slice(2) != like[i].sizes().slice(1) || means_[i].scalar_type() != like[i].scalar_type()) return false;
  }
  return classes.max().item<int64_t>() < seen_.size(0) && seen_.index_select(0, classes).all().item<bool>();
}

State ClassMeans::of(const at::Tensor& classes) const {
  return each(means_, [&](const at::Tensor& t) { return t.index_select(0, classes.to(t.device())).transpose(0, 1); });
}

void ClassMeans::add(const State& states, const at::Tensor& classes) {
  const int64_t count = std::max(classes.max().item<int64_t>() + 1, seen_.defined() ? seen_.size(0) : 0);
  const auto is_of = [&](const at::Tensor& mean, const at::Tensor& state) {
    return mean.size(1) == state.size(0) && mean.sizes().slice(2) == state.sizes().slice(2) && mean.scalar_type() == state.scalar_type();
  };
  bool fits = means_.size() == states.size();
  for (size_t i = 0; fits && i < states.size(); ++i) fits = is_of(means_[i], states[i]);
  if (!fits) {
    seen_ = at::zeros({count}, at::kBool);
    means_ = each(states, [&](const at::Tensor& t) {
      auto shape = t.transpose(0, 1).sizes().vec();
      shape[0] = count;
      return at::zeros(shape, t.options());
    });
  }
  seen_ = grown(seen_, count);
  const at::Tensor samples = at::bincount(classes, {}, count);
  const at::Tensor here = samples > 0;
  for (size_t i = 0; i < states.size(); ++i) {
    const at::Tensor old = grown(means_[i], count);
    const auto on_device = [&](const at::Tensor& t) { return beside(t.to(old.device()), old); };
    const at::Tensor sums = at::zeros_like(old).index_add_(0, classes.to(old.device()), states[i].transpose(0, 1));
    const at::Tensor now = sums / on_device(samples.clamp_min(1).to(old.scalar_type()));
    const at::Tensor mean = at::where(on_device(seen_), old.lerp(now, weight_of_new), now);
    means_[i] = at::where(on_device(here), mean, old);
  }
  seen_ = seen_.logical_or(here);
}

}  // namespace tw::layer_parallel
