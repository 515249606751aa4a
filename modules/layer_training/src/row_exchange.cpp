// SPDX-License-Identifier: Apache-2.0
#include "row_exchange.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <optional>
#include <tw/base/contract.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/comm/typed_objects.hpp>

namespace tw::layer_training {
namespace {

/// Index of the part that has row `row` of the tensor `name`.
std::optional<size_t> index_of(const std::vector<RowPart>& parts, const std::string& name, int64_t row) {
  const auto found =
      std::find_if(parts.begin(), parts.end(), [&](const RowPart& part) { return part.name == name && part.begin <= row && row < part.end; });
  return found == parts.end() ? std::nullopt : std::optional(static_cast<size_t>(found - parts.begin()));
}

at::Tensor in_rows(const at::Tensor& tensor) { return tensor.dim() == 0 ? tensor.unsqueeze(0) : tensor; }

}  // namespace

RowPart part_of(const NamedShard& shard) {
  const int64_t begin = shard.offsets.empty() ? 0 : shard.offsets[0];
  return {shard.name, shard.global_shape, shard.tensor.scalar_type(), begin, begin + in_rows(shard.tensor).size(0)};
}

PartsByRank gather_parts(const Communicator& comm, const std::vector<RowPart>& mine) { return allgather_objects(comm, mine); }

const RowPart* find_part(const PartsByRank& parts, const std::string& name) {
  for (const auto& of_rank : parts) {
    for (const RowPart& part : of_rank) {
      if (part.name == name) return &part;
    }
  }
  return nullptr;
}

RowExchange::RowExchange(int rank, const PartsByRank& has, const PartsByRank& wants) : rank_(rank), wants_(wants.at(static_cast<size_t>(rank))) {
  const int ranks = static_cast<int>(has.size());
  for (int target = 0; target < ranks; ++target) {
    const std::vector<RowPart>& wanted = wants[static_cast<size_t>(target)];
    for (size_t i = 0; i < wanted.size(); ++i) {
      const RowPart& want = wanted[i];
      for (int64_t row = want.begin; row < want.end;) {
        std::optional<size_t> found;
        int source = target;
        for (int k = -1; k < ranks && !found; ++k) {
          source = k < 0 ? target : k;
          found = index_of(has[static_cast<size_t>(source)], want.name, row);
        }
        TW_ASSERT(found);
        const RowPart& part = has[static_cast<size_t>(source)][*found];
        const int64_t count = std::min(want.end, part.end) - row;
        if (source == rank || target == rank) pieces_.push_back({source, target, *found, i, row - part.begin, row - want.begin, count});
        row += count;
      }
    }
  }
}

std::vector<at::Tensor> RowExchange::operator()(const Communicator& comm, const std::vector<at::Tensor>& has,
                                                const std::vector<at::Tensor>& near) const {
  const auto rows_of = [&](const Piece& piece) { return in_rows(has.at(piece.has)).detach().narrow(0, piece.from, piece.count); };
  std::vector<Work> sends;
  for (const Piece& piece : pieces_) {
    if (piece.source == rank_ && piece.target != rank_) sends.push_back(isend(comm, rows_of(piece).contiguous(), Rank(piece.target)));
  }
  std::vector<at::Tensor> wanted;
  for (size_t i = 0; i < wants_.size(); ++i) {
    std::vector<int64_t> shape = wants_[i].shape.empty() ? std::vector<int64_t>{1} : wants_[i].shape;
    shape[0] = wants_[i].end - wants_[i].begin;
    wanted.push_back(at::empty(shape, near.at(i).options().dtype(wants_[i].dtype).requires_grad(false)));
  }
  for (const Piece& piece : pieces_) {
    if (piece.target != rank_) continue;
    const at::Tensor place = wanted[piece.want].narrow(0, piece.to, piece.count);
    if (piece.source == rank_) {
      place.copy_(rows_of(piece));
    } else {
      recv(comm, place, Rank(piece.source));
    }
  }
  wait_all(sends);
  return wanted;
}

}  // namespace tw::layer_training
