// SPDX-License-Identifier: Apache-2.0
#include <tw/state/checkpoint.hpp>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <mutex>
#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>
#include <tw/base/file.hpp>
#include <utility>

#include "boxes.hpp"
#include "step_directory.hpp"

namespace tw {
namespace {

at::Tensor part_of(const at::Tensor& tensor, const std::vector<int64_t>& offsets, const std::vector<int64_t>& lengths) {
  at::Tensor part = tensor;
  for (size_t i = 0; i < offsets.size(); ++i) part = part.narrow(static_cast<int64_t>(i), offsets[i], lengths[i]);
  return part;
}

// A type wide enough that sums over ranks are rounded only once.
c10::ScalarType accumulator(c10::ScalarType dtype) {
  if (c10::isComplexType(dtype)) return c10::ScalarType::ComplexDouble;
  return c10::isFloatingType(dtype) ? c10::ScalarType::Double : c10::ScalarType::Long;
}

}  // namespace

CheckpointFiles::CheckpointFiles(std::filesystem::path step_directory) : directory_(std::move(step_directory)) {}

const SafetensorsFile& CheckpointFiles::file(int64_t rank) {
  auto found = open_.find(rank);
  if (found == open_.end()) found = open_.emplace(rank, SafetensorsFile(directory_ / file_name(rank))).first;
  return found->second;
}

void CheckpointFiles::fill(const std::vector<NamedShard>& shards, const std::vector<ShardReads>& plan) {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < shards.size(); ++i) {
    switch (plan[i].combine) {
      case ShardReads::Combine::copy:
        for (const Read& read : plan[i].reads)
          file(read.file).read_into(read.key, read.from, part_of(shards[i].tensor.detach(), read.to, read.lengths));
        break;
      case ShardReads::Combine::sum:
      case ShardReads::Combine::mean: combine(shards[i], plan[i]); break;
      case ShardReads::Combine::keep: break;
    }
  }
}

void CheckpointFiles::combine(const NamedShard& shard, const ShardReads& reads) {
  const at::Tensor destination = shard.tensor.detach();
  if (reads.reads.empty()) destination.zero_();
  for (auto first = reads.reads.begin(); first != reads.reads.end();) {
    const auto last =
        std::find_if(first, reads.reads.end(), [&](const Read& each) { return each.to != first->to || each.lengths != first->lengths; });
    const at::Tensor part = part_of(destination, first->to, first->lengths);
    const at::Tensor total = at::zeros(part.sizes(), at::TensorOptions().dtype(accumulator(part.scalar_type())));
    const at::Tensor one = at::empty(part.sizes(), at::TensorOptions().dtype(part.scalar_type()));
    for (auto read = first; read != last; ++read) {
      file(read->file).read_into(read->key, read->from, one);
      total.add_(one);
    }
    if (reads.combine == ShardReads::Combine::mean) total.div_(static_cast<double>(last - first));
    part.copy_(total);
    first = last;
  }
}

struct Checkpoint::Open {
  std::mutex mutex;
  CheckpointFiles files;
};

Checkpoint::Checkpoint(std::filesystem::path directory, CheckpointIndex index)
    : directory_(std::move(directory)), index_(std::move(index)), open_(new Open{.mutex = {}, .files = CheckpointFiles(directory_)}) {
  for (size_t i = 0; i < index_.tensors.size(); ++i) places_.emplace(index_.tensors[i].spec.name, i);
  for (size_t i = 0; i < index_.tensors.size(); ++i) {
    for (const std::string& alias : index_.tensors[i].aliases) places_.emplace(alias, i);
  }
}

Checkpoint Checkpoint::open(const std::filesystem::path& directory) {
  std::filesystem::path step = absolute_path(directory);
  if (!std::filesystem::exists(step / index_name)) {
    const std::vector<int64_t> steps = list_steps(directory);
    if (steps.empty()) throw FileError(directory, 0, "holds no checkpoint");
    step = step_directory(directory, steps.back());
  }
  const std::filesystem::path index = step / index_name;
  return {step, parse_index(read_file(index, max_index_bytes), index)};
}

const StoredTensor& Checkpoint::find(const std::string& name) const {
  const auto place = places_.find(name);
  TW_EXPECTS(place != places_.end(), directory_.string(), " holds no tensor ", name);
  const StoredTensor& found = index_.tensors[place->second];
  TW_EXPECTS(found.on_reshard != OnReshard::drop, name, " in ", directory_.string(),
             " was saved with OnReshard::drop: it belongs to the rank that saved it and cannot be read here");
  return found;
}

at::Tensor Checkpoint::read(const std::string& name) const { return read(name, whole_box(find(name).spec.shape)); }

at::Tensor Checkpoint::read(const std::string& name, const Box& part) const {
  const StoredTensor& found = find(name);
  TW_EXPECTS(lies_in(part, found.spec.shape), name, " in ", directory_.string(), " has the shape ", shape_text(found.spec.shape),
             ", which has no part ", part.describe());
  const at::Tensor tensor = at::empty(part.lengths, at::TensorOptions().dtype(found.spec.dtype));
  const NamedShard shard = whole(found.spec.name, tensor, found.kind);
  const ShardSpec spec{found.spec, {}, part, found.kind, OnReshard::replicate};
  const auto plan = plan_load({found}, static_cast<int64_t>(index_.files.size()), {{spec}});
  const std::lock_guard lock(open_->mutex);
  open_->files.fill({shard}, plan.front());
  return tensor;
}

std::vector<std::string> Checkpoint::verify() const {
  std::vector<std::string> problems;
  for (size_t rank = 0; rank < index_.files.size(); ++rank) {
    std::string problem = damage(directory_, static_cast<int64_t>(rank), index_.files[rank]);
    if (!problem.empty()) problems.push_back(std::move(problem));
  }
  return problems;
}

}  // namespace tw
