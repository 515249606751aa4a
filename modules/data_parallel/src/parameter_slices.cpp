// SPDX-License-Identifier: Apache-2.0
#include "parameter_slices.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <tw/base/contract.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/comm/shared_tensor.hpp>
#include <tw/data_parallel/initial_values.hpp>
#include <tw/tensor/flat_buffer.hpp>

namespace tw {

ParameterSlices::~ParameterSlices() {
  for (const Share& share : shares_) share.watched->owner = nullptr;
}

void ParameterSlices::add(const std::vector<NamedTensor>& parameters, const BucketPlan& plan, const InitialValues* initial) {
  std::vector<Piece> pieces(parameters.size());
  for (const Bucket& bucket : plan.buckets) {
    const int64_t numel = bucket.numel / comm_.size();
    const size_t index = units_.size();
    const at::Tensor& first = parameters[static_cast<size_t>(bucket.gradients.front())].tensor;
    const at::TensorOptions kept_as = first.options().device(first.is_meta() ? at::kCPU : first.device()).requires_grad(false);
    Share& share = shares_.emplace_back();
    if (options_.one_copy_per_node) share.whole = node_tensor(comm_, {bucket.numel}, bucket.dtype);
    share.values = share.whole.defined() ? share.whole.narrow(0, numel * comm_.rank(), numel) : FlatBuffer(numel, kept_as).storage();
    std::vector<NamedTensor> of_unit;
    std::vector<int64_t> offsets;
    for (const int64_t id : bucket.gradients) {
      const NamedTensor& parameter = parameters[static_cast<size_t>(id)];
      const int64_t offset = plan.placements[static_cast<size_t>(id)].offset;
      const Piece& piece = pieces[static_cast<size_t>(id)] = piece_of(index, of_unit.size(), offset, parameter.tensor.numel(), numel);
      if (piece.count > 0) fill(share.values.narrow(0, piece.offset, piece.count), parameter, piece, initial);
      of_unit.push_back(parameter);
      offsets.push_back(offset);
    }
    share.watched = std::make_shared<WatchedMemory>(owner_, index, true);
    const auto keeps = std::make_shared<at::Tensor>(share.values);
    const c10::Storage storage(c10::Storage::use_byte_size_t(), share.values.nbytes(),
                               watched_pointer(share.values.data_ptr(), share.watched, keeps, kept_as.device()), nullptr, false);
    share.slices = at::empty({0}, kept_as).set_(storage, 0, {numel}, {1});
    units_.push_back(std::make_unique<ParameterUnit>(owner_, index, of_unit, offsets, bucket.numel, kept_as.dtype(bucket.dtype)));
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    pieces_.push_back(pieces[i]);
    if (!parameters[i].tensor.requires_grad()) continue;
    trained_.push_back({parameters[i].name, slice_of(pieces[i])});
    shares_[pieces[i].unit].of_parameters.push_back(trained_.back().tensor);
  }
}

ParameterSlices::Piece ParameterSlices::piece_of(size_t unit, size_t parameter, int64_t offset, int64_t numel, int64_t share) const {
  const int64_t share_begin = share * comm_.rank();
  const int64_t begin = std::clamp(share_begin - offset, int64_t{0}, numel);
  const int64_t end = std::clamp(share_begin + share - offset, int64_t{0}, numel);
  return {unit, parameter, begin, std::max<int64_t>(end - begin, 0), std::clamp(offset + begin - share_begin, int64_t{0}, share)};
}

// Copies or computes this rank's elements of `parameter`.
void ParameterSlices::fill(const at::Tensor& place, const NamedTensor& parameter, const Piece& piece, const InitialValues* initial) {
  if (parameter.tensor.is_meta()) {
    initial->fill(place, parameter.tensor, piece.begin, parameter.name);
  } else {
    place.copy_(parameter.tensor.flatten().narrow(0, piece.begin, piece.count));
  }
}

void ParameterSlices::watch_slices(size_t unit, bool watched) const {
  for (const at::Tensor& slice : shares_[unit].of_parameters) watch(slice, watched);
}

at::Tensor ParameterSlices::slice_of(const Piece& piece) const { return FlatBuffer(shares_[piece.unit].slices).view(piece.offset, {piece.count}); }

void ParameterSlices::expect_in_place() const {
  const auto storage_of = [](const at::Tensor& tensor) { return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl(); };
  for (size_t i = 0; i < trained_.size(); ++i) {
    TW_EXPECTS(storage_of(trained_[i].tensor) == storage_of(shares_[pieces_[i].unit].slices), "the slice of ", trained_[i].name,
               " was given other memory by set_data(), which the model would never see: copy values into the slice");
  }
}

at::Tensor ParameterSlices::slice_in(const at::Tensor& share, size_t trained) const {
  return FlatBuffer(share).view(pieces_[trained].offset, {pieces_[trained].count});
}

std::vector<OptimizedTensor> ParameterSlices::optimized() const {
  std::vector<OptimizedTensor> all;
  for (size_t i = 0; i < trained_.size(); ++i) {
    const Piece& piece = pieces_[i];
    OptimizedTensor& optimized = all.emplace_back(OptimizedTensor{trained_[i].tensor, {}});
    if (piece.count == 0) continue;
    const auto& [name, parameter] = parameter_of(piece);
    optimized.slices = slices_of_run(name, parameter.sizes().vec(), trained_[i].tensor, piece.begin, ShardKind::parameter);
  }
  return all;
}

std::vector<NamedShard> ParameterSlices::shards() const {
  std::vector<NamedShard> all;
  for (const Piece& piece : pieces_) {
    if (piece.count == 0) continue;
    const auto& [name, parameter] = parameter_of(piece);
    for (NamedShard& shard : slices_of_run(name, parameter.sizes().vec(), slice_of(piece), piece.begin, ShardKind::parameter)) {
      watch(shard.tensor);  // loading into it changes the slice
      all.push_back(std::move(shard));
    }
  }
  return all;
}

}  // namespace tw
