// SPDX-License-Identifier: Apache-2.0
#include "checkpoints.hpp"

#include <ATen/ops/empty.h>

#include <ATen/core/grad_mode.h>
#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <tw/base/contract.hpp>
#include <tw/tensor/on_cpu.hpp>
#include <tw/tensor/tensor_spec.hpp>
#include <utility>

#include "bytes.hpp"

namespace tw::search {
namespace {

constexpr auto a_while = std::chrono::seconds(1);

/// The number of bytes; the number of tensors; the name, type and shape of each tensor; the elements of all tensors.
Bytes packed(const std::vector<NamedTensor>& tensors) {
  Bytes bytes;
  put(bytes, uint64_t{0});
  put(bytes, static_cast<uint32_t>(tensors.size()));
  for (const auto& [name, tensor] : tensors) {
    put(bytes, name);
    put(bytes, static_cast<int8_t>(tensor.scalar_type()));
    put(bytes, tensor.sizes().vec());
  }
  for (const auto& [name, tensor] : tensors) {
    expect_dense_on_cpu(tensor, concat("a checkpoint of a trial's ", name));
    const auto* begin = static_cast<const std::byte*>(tensor.const_data_ptr());
    bytes.insert(bytes.end(), begin, begin + tensor.nbytes());
  }
  const uint64_t size = bytes.size();
  std::memcpy(bytes.data(), &size, sizeof size);
  return bytes;
}

std::vector<NamedTensor> unpacked(const Bytes& bytes) {
  ByteReader reading(bytes.data(), bytes.size());
  reading.get<uint64_t>();
  std::vector<NamedTensor> tensors(reading.get<uint32_t>());
  for (auto& [name, tensor] : tensors) {
    name = reading.get<std::string>();
    const auto type = static_cast<at::ScalarType>(reading.get<int8_t>());
    tensor = at::empty(reading.get<std::vector<int64_t>>(), type);
  }
  for (auto& [name, tensor] : tensors) reading.get_bytes(tensor.mutable_data_ptr(), tensor.nbytes());
  TW_ASSERT(reading.is_good() && reading.at_end());
  return tensors;
}

}  // namespace

void Checkpoints::connect(const Communicator& all, size_t letter_bytes) {
  mailbox_.emplace(all);
  letter_bytes_ = letter_bytes;
}

void Checkpoints::capture(int64_t trial, const Attachment& attachment) {
  auto tensors = std::make_shared<std::vector<NamedTensor>>();
  for (const NamedShard& shard : attachment.shards())
    tensors->push_back({shard.name, shard.tensor.detach().to(at::kCPU, shard.tensor.scalar_type(), /*non_blocking=*/false, /*copy=*/true,
                                                             at::MemoryFormat::Contiguous)});
  kept_[trial] = std::move(tensors);
}

void Checkpoints::restore(int64_t trial, const Attachment& attachment) const {
  const std::vector<NamedTensor>& tensors = *kept_.at(trial);
  std::vector<std::string> names;
  for (const NamedTensor& each : tensors) names.push_back(each.name);
  if (attachment.prepare) attachment.prepare(names);
  const std::vector<NamedShard> shards = attachment.shards();
  TW_EXPECTS(shards.size() == tensors.size(), "trial ", trial, " attaches ", shards.size(), " tensors when it resumes; expected ", tensors.size());
  const at::NoGradGuard no_gradients;
  std::map<std::string, int64_t> seen;  // a rank may hold several slices of a tensor, always in the same order
  for (const NamedShard& shard : shards) {
    auto found = std::ranges::find(tensors, shard.name, &NamedTensor::name);
    for (int64_t before = seen[shard.name]++; before > 0 && found != tensors.end(); --before) {
      found = std::ranges::find(found + 1, tensors.end(), shard.name, &NamedTensor::name);
    }
    TW_EXPECTS(found != tensors.end(), "trial ", trial, " attaches ", shard.name, ", which is not among its stored tensors");
    const at::Tensor& tensor = found->tensor;
    const bool fits = shard.tensor.sizes() == tensor.sizes() && shard.tensor.scalar_type() == tensor.scalar_type();
    TW_EXPECTS(fits, "trial ", trial, " attaches ", shard.name, " with shape ", shape_text(shard.tensor.sizes().vec()),
               ", but its stored tensor has shape ", shape_text(tensor.sizes().vec()),
               " or another type; list the parameters that determine shapes in population_training.frozen");
    shard.tensor.copy_(tensor);
  }
  if (attachment.apply) attachment.apply(shards);
}

void Checkpoints::send(int64_t trial, int rank) {
  const Bytes bytes = packed(*kept_.at(trial));
  for (size_t at = 0; at < bytes.size(); at += letter_bytes_) {
    const auto begin = bytes.begin() + static_cast<int64_t>(at);
    mailbox_->send({begin, begin + static_cast<int64_t>(std::min(letter_bytes_, bytes.size() - at))}, Rank(rank));
  }
}

void Checkpoints::receive(int rank, int64_t trial) {
  Bytes bytes = letter_from(rank).bytes;
  const auto size = ByteReader(bytes.data(), bytes.size()).get<uint64_t>();
  while (bytes.size() < size) {
    const Bytes more = letter_from(rank).bytes;
    bytes.insert(bytes.end(), more.begin(), more.end());
  }
  if (trial >= 0) kept_[trial] = std::make_shared<const std::vector<NamedTensor>>(unpacked(bytes));
}

mpi::Mailbox::Message Checkpoints::letter_from(int rank) {
  auto& messages = waiting_[rank];
  while (messages.empty()) {
    if (auto message = mailbox_->take_within(a_while)) waiting_[static_cast<int>(message->from)].push_back(std::move(*message));
  }
  mpi::Mailbox::Message first = std::move(messages.front());
  messages.erase(messages.begin());
  return first;
}

}  // namespace tw::search
