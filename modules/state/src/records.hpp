// SPDX-License-Identifier: Apache-2.0
// The messages about a checkpoint that ranks send one another, as records of <tw/base/bytes.hpp>.
#pragma once
#include <tuple>
#include <tw/base/bytes.hpp>
#include <tw/state/index.hpp>

namespace tw {

template <>
struct Fields<TensorSpec> {
  static constexpr auto all = std::tuple(&TensorSpec::name, &TensorSpec::shape, &TensorSpec::dtype);
};
template <>
struct Fields<Box> {
  static constexpr auto all = std::tuple(&Box::offsets, &Box::lengths);
};
template <>
struct Fields<ShardSpec> {
  static constexpr auto all =
      std::tuple(&ShardSpec::global, &ShardSpec::aliases, &ShardSpec::box, &ShardSpec::kind, &ShardSpec::on_reshard, &ShardSpec::layers);
};
template <>
struct Fields<SavePiece> {
  static constexpr auto all = std::tuple(&SavePiece::shard, &SavePiece::key, &SavePiece::box);
};
template <>
struct Fields<Read> {
  static constexpr auto all = std::tuple(&Read::file, &Read::key, &Read::from, &Read::to, &Read::lengths);
};
template <>
struct Fields<ShardReads> {
  static constexpr auto all = std::tuple(&ShardReads::combine, &ShardReads::reads);
};
template <>
struct Fields<StoredPiece> {
  static constexpr auto all = std::tuple(&StoredPiece::file, &StoredPiece::key, &StoredPiece::box);
};
template <>
struct Fields<StoredTensor> {
  static constexpr auto all = std::tuple(&StoredTensor::spec, &StoredTensor::aliases, &StoredTensor::kind, &StoredTensor::on_reshard,
                                         &StoredTensor::pieces, &StoredTensor::layers);
};
template <>
struct Fields<CheckpointIndex> {
  static constexpr auto all = std::tuple(&CheckpointIndex::step, &CheckpointIndex::metadata, &CheckpointIndex::files, &CheckpointIndex::tensors);
};

}  // namespace tw
