// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/arange.h>

#include <algorithm>
#include <set>
#include <tw/base/contract.hpp>
#include <tw/comm/whole_tensors.hpp>
#include <tw/layer_parallel/nested_iteration.hpp>
#include <tw/mpi/releasing_others.hpp>
#include <tw/state/optimizer_state.hpp>

namespace tw::layer_parallel {
namespace {

/// The values of layers `first` to `first` + `count` of a block with `factor` times as many layers as `coarse` has.
at::Tensor refined(const at::Tensor& coarse, int64_t factor, int64_t first, int64_t count, Refinement refinement) {
  const at::Tensor fine = at::arange(first, first + count, at::kLong);
  if (refinement == Refinement::constant || !coarse.is_floating_point()) return coarse.index_select(0, fine.floor_divide(factor));
  // The middle of fine layer k is at (k + 1/2) / factor - 1/2, in coarse layers from the middle of the first; beyond the ends, constant.
  const at::Tensor place = fine.to(at::kDouble).add(0.5).div(static_cast<double>(factor)).sub(0.5).clamp(0, static_cast<double>(coarse.size(0) - 1));
  const at::Tensor left = place.floor().to(at::kLong);
  const at::Tensor right = left.add(1).clamp_max(coarse.size(0) - 1);
  std::vector<int64_t> shape(static_cast<size_t>(coarse.dim()), 1);
  shape[0] = count;
  const at::Tensor share = place.sub(left).to(coarse.scalar_type()).view(shape);
  const at::Tensor from = coarse.index_select(0, left);
  return from.add(coarse.index_select(0, right).sub(from).mul(share));
}

/// Whether `name` is of an ODE block's parameter or buffer, or of what an optimizer remembers of one, such as "optimizer/1.weight/exp_avg".
bool is_of_layers(const LayerParallel& net, const std::string& name) {
  const auto blocks = net.report().blocks;
  const std::string parameter = name.substr(name.find('/') == std::string::npos ? 0 : name.find('/') + 1);
  return std::any_of(blocks.begin(), blocks.end(), [&](const auto& block) { return parameter.starts_with(block.name + '.'); });
}

/// Fills `shards` of `fine` from the tensors of the same names that ranks hold in `coarse`.
void refine_shards(const LayerParallel& fine, const std::vector<NamedShard>& coarse, const std::vector<NamedShard>& shards, Refinement refinement) {
  size_t filled = 0;
  visit_whole_tensors(fine.comm(), coarse, [&](const std::string& name, const at::Tensor& whole) {
    for (const NamedShard& shard : shards) {
      if (shard.name != name) continue;
      ++filled;
      at::Tensor values = whole;
      if (at::IntArrayRef(shard.global_shape) != whole.sizes()) {
        const bool same_but_for_layers = is_of_layers(fine, name) && !shard.global_shape.empty() && whole.dim() > 0 &&
                                         at::IntArrayRef(shard.global_shape).slice(1) == whole.sizes().slice(1);
        TW_EXPECTS(same_but_for_layers && shard.global_shape[0] % whole.size(0) == 0, "'", name, "' of shape ", at::IntArrayRef(shard.global_shape),
                   " is no refinement of one of shape ", whole.sizes());
        const int64_t factor = shard.global_shape[0] / whole.size(0);
        values = refined(whole, factor, shard.offsets[0], shard.tensor.size(0), refinement);
      } else {
        for (size_t d = 0; d < shard.offsets.size(); ++d) {
          values = values.narrow(static_cast<int64_t>(d), shard.offsets[d], shard.tensor.size(static_cast<int64_t>(d)));
        }
      }
      shard.tensor.copy_(values);
    }
  });
  TW_EXPECTS(filled == shards.size(), "the smaller network has only ", filled, " of the ", shards.size(), " tensors of this rank");
  fine.comm().barrier();  // none goes on if one cannot
}

}  // namespace

void refine(const LayerParallel& coarse, LayerParallel& fine, Refinement refinement) {
  releasing_others(fine.comm(), [&] { refine_shards(fine, coarse.shards(), fine.shards(), refinement); });
  coarse.comm().barrier();
}

void refine(const LayerParallel& coarse, torch::optim::Optimizer& coarse_optimizer, LayerParallel& fine, torch::optim::Optimizer& fine_optimizer,
            Refinement refinement) {
  refine(coarse, fine, refinement);
  const std::vector<NamedShard> coarse_shards = OptimizerState(coarse_optimizer, coarse.optimized_tensors()).shards();
  std::vector<std::string> names;
  visit_whole_tensors(coarse.comm(), coarse_shards, [&](const std::string& name, const at::Tensor&) { names.push_back(name); });
  OptimizerState state(fine_optimizer, fine.optimized_tensors());
  state.prepare(names);
  const std::vector<NamedShard> fine_shards = state.shards();
  releasing_others(fine.comm(), [&] { refine_shards(fine, coarse_shards, fine_shards, refinement); });
  state.apply(fine_shards);
}

}  // namespace tw::layer_parallel
