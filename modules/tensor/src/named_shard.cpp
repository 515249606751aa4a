// SPDX-License-Identifier: Apache-2.0
#include <tw/tensor/named_shard.hpp>

namespace tw {

std::string name_of(ShardKind kind) {
  switch (kind) {
    case ShardKind::parameter: return "parameter";
    case ShardKind::buffer: return "buffer";
    case ShardKind::optimizer: return "optimizer";
    case ShardKind::counter: return "counter";
  }
  return "?";
}

std::string name_of(OnReshard on_reshard) {
  switch (on_reshard) {
    case OnReshard::shard: return "shard";
    case OnReshard::replicate: return "replicate";
    case OnReshard::sum: return "sum";
    case OnReshard::mean: return "mean";
    case OnReshard::drop: return "drop";
  }
  return "?";
}

NamedShard whole(std::string name, at::Tensor tensor, ShardKind kind) {
  std::vector<int64_t> shape = tensor.sizes().vec();
  std::vector<int64_t> offsets(shape.size(), 0);
  return {std::move(name), {}, std::move(shape), std::move(tensor), std::move(offsets), kind, OnReshard::replicate};
}

}  // namespace tw
