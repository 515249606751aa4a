// SPDX-License-Identifier: Apache-2.0
#include <torch/nn/modules/container/sequential.h>

#include <algorithm>
#include <tw/base/contract.hpp>
#include <tw/data_parallel/sync_batch_norm.hpp>

#include "batch_norm_reductions.hpp"

namespace tw {
namespace {

using torch::nn::BatchNorm1dImpl;
using torch::nn::BatchNorm2dImpl;
using torch::nn::BatchNorm3dImpl;

/// Calls `visit` with `module` as its concrete type if it is a batch normalisation. @return whether it is
template <class Visit>
bool visit_batch_norm(const torch::nn::Module& module, const Visit& visit) {
  const auto visit_as = [&](const auto* norm) {
    if (norm != nullptr) visit(*norm);
    return norm != nullptr;
  };
  return visit_as(module.as<BatchNorm1dImpl>()) || visit_as(module.as<BatchNorm2dImpl>()) || visit_as(module.as<BatchNorm3dImpl>());
}

/// Whether `net` runs `module`; a class derived from Sequential may hold further modules.
bool runs(const torch::nn::SequentialImpl& net, const torch::nn::Module& module) {
  return std::any_of(net.begin(), net.end(), [&](const torch::nn::AnyModule& entry) { return entry.ptr().get() == &module; });
}

void expect_all_can_be_replaced(const torch::nn::SequentialImpl& net, const std::string& prefix) {
  for (const auto& child : net.named_children()) {
    const std::string name = prefix + child.key();
    if (const auto* nested = child.value()->as<torch::nn::SequentialImpl>()) {
      expect_all_can_be_replaced(*nested, name + ".");
      continue;
    }
    for (const auto& inner : child.value()->named_modules(name, !runs(net, *child.value()))) {
      const bool is_norm = visit_batch_norm(*inner.value(), [](const auto&) {});
      TW_EXPECTS(!is_norm, inner.key(), " cannot be replaced, because a member of a module holds it: make it a SyncBatchNorm there");
    }
  }
}

int64_t replace(torch::nn::SequentialImpl& net, const Communicator& comm, Reduction reduction) {
  int64_t replaced = 0;
  for (torch::nn::AnyModule& entry : net) {
    const std::shared_ptr<torch::nn::Module> old = entry.ptr();
    if (auto* nested = old->as<torch::nn::SequentialImpl>()) {
      replaced += replace(*nested, comm, reduction);
      continue;
    }
    const bool is_norm = visit_batch_norm(*old, [&](const auto& norm) {
      const SyncBatchNorm synchronised(comm, norm, reduction);
      for (const auto& child : net.named_children()) {
        if (child.value() == old) net.replace_module(child.key(), synchronised);
      }
      entry = torch::nn::AnyModule(synchronised);
    });
    replaced += is_norm ? 1 : 0;
  }
  return replaced;
}

}  // namespace

void expect_batch_norms_for(const torch::nn::Module& module, Reduction reduction) {
  expect_chosen(reduction);
  for (const auto& each : module.named_modules("", /*include_self=*/false)) {
    const auto* norm = dynamic_cast<const SyncBatchNormImpl*>(each.value().get());
    if (norm == nullptr) continue;
    const bool fits = (norm->reduction() == Reduction::sample_weighted) == (reduction == Reduction::sample_weighted);
    TW_EXPECTS(fits, "SyncBatchNorm ", each.key(), " was made for Reduction::", name_of(norm->reduction()), ", but the gradients are reduced by ",
               "Reduction::", name_of(reduction), ": make it for that reduction");
  }
}

int64_t synchronize_batch_norms(torch::nn::SequentialImpl& net, const Communicator& comm, Reduction reduction) {
  expect_all_can_be_replaced(net, "");
  return replace(net, comm, reduction);
}

}  // namespace tw
