// SPDX-License-Identifier: Apache-2.0
#include "server_state.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <cstring>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>

namespace tw::parameter_server {
namespace {

struct Pieces {
  std::vector<NamedShard> all;   ///< slices of the runs, then the counts
  std::vector<at::Tensor> runs;  ///< the values, then each slot
};

Pieces empty_pieces(const ServerSlice& slice, const std::string& name) {
  Pieces pieces;
  const auto add = [&](const std::string& of, ShardKind kind, c10::ScalarType dtype) {
    pieces.runs.push_back(at::empty({slice.extent.size()}, at::TensorOptions().dtype(dtype)));
    for (NamedShard& each : slices_of_run(of, slice.shape, pieces.runs.back(), slice.extent.begin, kind)) pieces.all.push_back(std::move(each));
  };
  add(name, ShardKind::parameter, slice.dtype);
  const c10::ScalarType dtype_of_state = dtype_of(state_type(element_type(slice.dtype)));
  for (const Rule& rule : slice.rules) {
    for (int slot = 0; slot < rule.slots; ++slot) add(concat(name, '.', rule.name, '.', slot), ShardKind::optimizer, dtype_of_state);
  }
  pieces.all.push_back(whole(name + ".updates", at::zeros({static_cast<int64_t>(slice.rules.size())}, at::kDouble), ShardKind::counter));
  pieces.all.back().on_reshard = OnReshard::mean;  // servers receive a push at different times
  return pieces;
}

}  // namespace

std::vector<NamedShard> named_shards_of(const Shard::Snapshot& snapshot, const ServerSlice& slice, const std::string& name) {
  const auto [all, runs] = empty_pieces(slice, name);
  for (size_t plane = 0; plane < runs.size(); ++plane) {
    const std::vector<std::byte>& bytes = plane == 0 ? snapshot.values : snapshot.state[plane - 1];
    if (!bytes.empty()) std::memcpy(runs[plane].data_ptr(), bytes.data(), bytes.size());
  }
  for (size_t rule = 0; rule < snapshot.updates.size(); ++rule) {
    all.back().tensor[static_cast<int64_t>(rule)] = static_cast<double>(snapshot.updates[rule]);
  }
  return all;
}

Shard::Snapshot snapshot_of(const std::vector<NamedShard>& given, const ServerSlice& slice) {
  TW_EXPECTS(!given.empty(), "a server needs at least one shard to restore from, got none");
  const std::string& counts = given.back().name;
  const auto [all, runs] = empty_pieces(slice, counts.substr(0, counts.rfind('.')));
  TW_EXPECTS(all.size() == given.size(), "expected ", all.size(), " pieces of this shard, got ", given.size());
  for (size_t i = 0; i < all.size(); ++i) {
    TW_EXPECTS(all[i].name == given[i].name && all[i].offsets == given[i].offsets && all[i].tensor.sizes() == given[i].tensor.sizes(), given[i].name,
               " does not match the piece of this shard at the same place: expected the name, offsets and shape of ", all[i].name);
    all[i].tensor.copy_(given[i].tensor);
  }
  Shard::Snapshot snapshot;
  for (size_t plane = 0; plane < runs.size(); ++plane) {
    std::vector<std::byte> bytes(runs[plane].nbytes());
    if (!bytes.empty()) std::memcpy(bytes.data(), runs[plane].data_ptr(), bytes.size());
    (plane == 0 ? snapshot.values : snapshot.state.emplace_back()) = std::move(bytes);
  }
  for (size_t rule = 0; rule < slice.rules.size(); ++rule) {
    snapshot.updates.push_back(std::llround(all.back().tensor[static_cast<int64_t>(rule)].item<double>()));
  }
  return snapshot;
}

}  // namespace tw::parameter_server
