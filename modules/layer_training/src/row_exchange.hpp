// SPDX-License-Identifier: Apache-2.0
// Rows of tensors that lie on ranks in parts, brought to the ranks that want them.
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
  std::vector<int64_t> shape;  // of the whole tensor
  c10::ScalarType dtype = c10::ScalarType::Float;
  int64_t begin = 0;
  int64_t end = 0;
  static constexpr auto fields = std::tuple(&RowPart::name, &RowPart::shape, &RowPart::dtype, &RowPart::begin, &RowPart::end);
};

/// What `shard` is of its tensor, of which it has whole rows. A tensor without dimensions is one row.
RowPart part_of(const NamedShard& shard);

using PartsByRank = std::vector<std::vector<RowPart>>;

/// The parts of all ranks, on every rank. Collective.
PartsByRank gather_parts(const Communicator& comm, const std::vector<RowPart>& mine);

/// The first part of tensor `name` that a rank has; null: none.
const RowPart* find_part(const PartsByRank& parts, const std::string& name);

class RowExchange {
 public:
  /// @param rank this one. @param has, wants by rank; what is wanted, some rank has. What several have comes from oneself, or from the first.
  RowExchange(int rank, const PartsByRank& has, const PartsByRank& wants);

  /// Collective; each row wanted travels once, and none that the rank has itself.
  /// @param has the tensors of this rank's parts. @param near for each part wanted, a tensor on the device where it shall lie
  /// @return the parts wanted, [end - begin, ...], in tensors of their own
  std::vector<at::Tensor> operator()(const Communicator& comm, const std::vector<at::Tensor>& has, const std::vector<at::Tensor>& near) const;

  /// This rank's.
  const std::vector<RowPart>& wants() const noexcept { return wants_; }

 private:
  /// Rows of one part that go into another.
  struct Piece {
    int source;
    int target;
    size_t has;    // at the source
    size_t want;   // at the target
    int64_t from;  // the first row, in the part at the source
    int64_t to;    // and at the target
    int64_t count;
  };

  int rank_;
  std::vector<RowPart> wants_;
  std::vector<Piece> pieces_;  // that this rank sends or gets
};

}  // namespace tw::layer_training
