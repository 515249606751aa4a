// SPDX-License-Identifier: Apache-2.0
// Moves rows of distributed tensors to the ranks that need them.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/named_shard.hpp>
#include <vector>

namespace tw::layer_training {

/// Consecutive rows of a named tensor.
struct RowPart {
  std::string name;
  std::vector<int64_t> shape;  // shape of the whole tensor
  c10::ScalarType dtype = c10::ScalarType::Float;
  int64_t begin = 0;
  int64_t end = 0;
  static constexpr auto fields = std::tuple(&RowPart::name, &RowPart::shape, &RowPart::dtype, &RowPart::begin, &RowPart::end);
};

/// The rows that `shard` has of its tensor; it must have whole rows. A tensor without dimensions is one row.
RowPart part_of(const NamedShard& shard);

using PartsByRank = std::vector<std::vector<RowPart>>;

/// The parts of all ranks, on every rank. Collective.
PartsByRank gather_parts(const Communicator& comm, const std::vector<RowPart>& mine);

/// The first part of tensor `name` on any rank; null: none.
const RowPart* find_part(const PartsByRank& parts, const std::string& name);

class RowExchange {
 public:
  /// @param rank this rank. @param has, wants by rank; each wanted row is on at least one rank. If several ranks have a row, the receiver uses its
  /// own copy, or else that of the first of these ranks.
  RowExchange(int rank, const PartsByRank& has, const PartsByRank& wants);

  /// Collective. Each wanted row is sent once, and none that the rank already has.
  /// @param has the tensors of this rank's parts. @param near for each wanted part, a tensor on the target device
  /// @return the wanted parts, [end - begin, ...], in new tensors
  std::vector<at::Tensor> operator()(const Communicator& comm, const std::vector<at::Tensor>& has, const std::vector<at::Tensor>& near) const;

  /// The parts that this rank wants.
  const std::vector<RowPart>& wants() const noexcept { return wants_; }

 private:
  /// Rows of one part that are copied to another.
  struct Piece {
    int source;
    int target;
    size_t has;    // index of the part at the source
    size_t want;   // index of the part at the target
    int64_t from;  // first row in the source's part
    int64_t to;    // first row in the target's part
    int64_t count;
  };

  int rank_;
  std::vector<RowPart> wants_;
  std::vector<Piece> pieces_;  // pieces that this rank sends or receives
};

}  // namespace tw::layer_training
