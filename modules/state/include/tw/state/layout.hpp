// SPDX-License-Identifier: Apache-2.0
// Plans which rank writes which piece of a checkpoint, and which pieces a rank reads to fill its slices. Pure functions.
#pragma once
#include <cstdint>
#include <string>
#include <tw/tensor/shard_kind.hpp>
#include <tw/tensor/tensor_spec.hpp>
#include <vector>

namespace tw {

/// A part of a tensor: one offset and one length per dimension.
struct Box {
  std::vector<int64_t> offsets;
  std::vector<int64_t> lengths;

  int64_t numel() const noexcept;
  bool operator==(const Box&) const = default;
  auto operator<=>(const Box&) const = default;
  /// The box as text, such as "[0:4, 2:3]".
  std::string describe() const;
};

/// The box of a whole tensor.
Box whole_box(const std::vector<int64_t>& shape);

/// A NamedShard without its values.
struct ShardSpec {
  TensorSpec global;  ///< name, shape and dtype of the global tensor
  std::vector<std::string> aliases;
  Box box;
  ShardKind kind = ShardKind::parameter;
  OnReshard on_reshard = OnReshard::shard;
  std::string layers = {};

  bool operator==(const ShardSpec&) const = default;
};

/// A piece of a tensor in a checkpoint.
struct StoredPiece {
  int64_t file = 0;  ///< the rank that wrote it
  std::string key;   ///< its name in that file
  Box box;           ///< in the global tensor

  bool operator==(const StoredPiece&) const = default;
};

/// A tensor in a checkpoint. For OnReshard::shard and replicate, the pieces tile the tensor. For sum and drop, each piece is the whole tensor of one
/// rank. For mean, each piece is what one rank held: the whole tensor or a slice.
struct StoredTensor {
  TensorSpec spec;
  std::vector<std::string> aliases;
  ShardKind kind = ShardKind::parameter;
  OnReshard on_reshard = OnReshard::shard;
  std::vector<StoredPiece> pieces = {};
  std::string layers = {};  ///< as in NamedShard
};

/// Why `tensor` cannot be a stack whose layers are named by `layers`; empty if it can, or if `layers` is empty.
std::string stack_problem(const TensorSpec& tensor, const std::string& layers);

/// Why `boxes` do not cover each element of a tensor of `shape` exactly once; empty if they do.
std::string tiling_problem(const std::vector<int64_t>& shape, const std::vector<Box>& boxes);

/// A piece that a rank writes.
struct SavePiece {
  int64_t shard = 0;  ///< index of the rank's shard from which the piece is cut
  std::string key;    ///< its name in the rank's file
  Box box;            ///< in the global tensor
};

struct SavePlan {
  std::vector<StoredTensor> tensors;            ///< in the order in which ranks 0, 1, ... first name them
  std::vector<std::vector<SavePiece>> by_rank;  ///< the pieces that each rank writes
};

/// Plans a save. With OnReshard::shard and replicate, elements that several ranks hold are written once, divided so that the ranks write about the
/// same number of bytes. Elements of a buffer are all written by the first rank that holds them.
/// @param by_rank the shards of every rank. @param smallest_cut_bytes smaller slices are not cut to balance the ranks.
/// @throws ContractError listing every problem, such as repeated names, ranks that disagree, or slices that do not tile their tensor.
SavePlan plan_save(const std::vector<std::vector<ShardSpec>>& by_rank, int64_t smallest_cut_bytes = int64_t{1} << 20);

/// A part of a stored piece, and the place in a shard that this part fills.
struct Read {
  int64_t file = 0;              ///< the rank that wrote it
  std::string key;               ///< the stored piece's name in that file
  std::vector<int64_t> from;     ///< offsets in the stored piece
  std::vector<int64_t> to;       ///< offsets in the shard
  std::vector<int64_t> lengths;  ///< lengths in both
};

/// How one shard is filled.
struct ShardReads {
  enum class Combine {
    copy,  ///< the reads together cover the shard, each element once
    sum,   ///< each read covers the shard, which becomes their sum (zeros if there are none)
    mean,  ///< reads of the same part of the shard are consecutive; this part becomes their mean
    keep,  ///< nothing is read: the shard keeps its values
  };
  Combine combine = Combine::copy;
  std::vector<Read> reads = {};
};

/// Why `stored` cannot fill `by_rank`, the shards of every loading rank: one line per problem, such as a tensor that is missing, extra, or has a
/// different shape or dtype. Empty if it can. A name may match one of a stored tensor's aliases and vice versa. Tensors with OnReshard::drop may be
/// missing or extra if the number of ranks differs from `stored_ranks`.
std::vector<std::string> load_problems(const std::vector<StoredTensor>& stored, int64_t stored_ranks,
                                       const std::vector<std::vector<ShardSpec>>& by_rank);

/// Plans a load. @return for each rank, how its shards are filled, in their order. With the same number of ranks and the same slices as before, sum,
/// mean and drop restore each rank's own values. A rank that had none gets zeros (sum) or the mean of the others (mean), or keeps its values (drop).
/// @param stored_ranks, by_rank as for load_problems(), which must have returned no line.
std::vector<std::vector<ShardReads>> plan_load(const std::vector<StoredTensor>& stored, int64_t stored_ranks,
                                               const std::vector<std::vector<ShardSpec>>& by_rank);

}  // namespace tw
