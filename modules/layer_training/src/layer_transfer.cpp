// SPDX-License-Identifier: Apache-2.0
#include "layer_transfer.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/floor_divide.h>

#include <algorithm>
#include <tw/base/contract.hpp>

namespace tw::layer_training {

using layer_parallel::LayerParallel;

namespace {

/// Number of rows of `fine` for one row of `coarse`, if one is a refinement of the other.
int64_t factor_of(const RowPart& fine, const RowPart& coarse) { return fine.shape == coarse.shape ? 1 : fine.shape[0] / coarse.shape[0]; }

}  // namespace

bool is_of_layers(const LayerParallel& net, const std::string& name) {
  const auto blocks = net.report().blocks;
  const std::string parameter = name.substr(name.find('/') == std::string::npos ? 0 : name.find('/') + 1);
  return std::any_of(blocks.begin(), blocks.end(), [&](const auto& block) { return parameter.starts_with(block.name + '.'); });
}

int64_t layers_for_one(const RowPart& fine, const RowPart& coarse, bool of_layers) {
  if (fine.shape == coarse.shape) return 1;
  const bool same_but_for_layers =
      of_layers && !fine.shape.empty() && !coarse.shape.empty() && at::IntArrayRef(fine.shape).slice(1) == at::IntArrayRef(coarse.shape).slice(1);
  TW_EXPECTS(same_but_for_layers && fine.shape[0] % coarse.shape[0] == 0, "'", fine.name, "' of shape ", at::IntArrayRef(fine.shape),
             " is not a refinement, by a whole number of layers per layer, of the coarse tensor of shape ", at::IntArrayRef(coarse.shape));
  return factor_of(fine, coarse);
}

RowPart coarse_rows(const RowPart& fine, const RowPart& coarse, Refinement refinement) {
  RowPart rows = coarse;
  const int64_t factor = factor_of(fine, coarse);
  rows.begin = fine.begin / factor;
  rows.end = (fine.end - 1) / factor + 1;
  if (factor > 1 && refinement == Refinement::linear) {  // linear refinement also reads the neighbours
    rows.begin = std::max<int64_t>(rows.begin - 1, 0);
    rows.end = std::min(rows.end + 1, coarse.shape[0]);
  }
  return rows;
}

RowPart fine_rows(const RowPart& coarse, const RowPart& fine) {
  RowPart rows = fine;
  const int64_t factor = factor_of(fine, coarse);
  rows.begin = coarse.begin * factor;
  rows.end = coarse.end * factor;
  return rows;
}

at::Tensor refined(const at::Tensor& rows, const RowPart& coarse, const RowPart& fine, Refinement refinement) {
  const int64_t factor = factor_of(fine, coarse);
  if (factor == 1) return rows;
  const at::Tensor layers = at::arange(fine.begin, fine.end, rows.options().dtype(at::kLong));
  if (refinement == Refinement::constant || !rows.is_floating_point()) {
    return rows.index_select(0, at::floor_divide(layers, factor).sub(coarse.begin));
  }
  // The middle of fine layer k is at (k + 1/2) / factor - 1/2, measured in coarse layers from the middle of the first one; constant beyond the ends.
  const int64_t last = coarse.shape[0] - 1;
  const at::Tensor place = layers.to(at::kDouble).add(0.5).div(static_cast<double>(factor)).sub(0.5).clamp(0, static_cast<double>(last));
  const at::Tensor left = place.floor().to(at::kLong);
  const at::Tensor right = left.add(1).clamp_max(last);
  std::vector<int64_t> shape(static_cast<size_t>(rows.dim()), 1);
  shape[0] = layers.size(0);
  const at::Tensor share = place.sub(left).to(rows.scalar_type()).view(shape);
  const at::Tensor from = rows.index_select(0, left.sub(coarse.begin));
  return from.add(rows.index_select(0, right.sub(coarse.begin)).sub(from).mul(share));
}

}  // namespace tw::layer_training
