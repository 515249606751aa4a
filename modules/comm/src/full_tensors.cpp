// SPDX-License-Identifier: Apache-2.0
#include <tw/comm/full_tensors.hpp>

#include <ATen/ops/empty.h>

#include <map>
#include <tw/comm/collectives.hpp>
#include <tw/comm/typed_objects.hpp>

namespace tw {
namespace {

/// A slice that one rank holds.
struct Slice {
  std::string name;
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::vector<int64_t> global_shape = {};
  std::vector<int64_t> offsets = {};
  std::vector<int64_t> sizes = {};
  int rank = 0;
  size_t index = 0;  // among the slices of that rank
  std::string layers = {};
  static constexpr auto fields =
      std::tuple(&Slice::name, &Slice::dtype, &Slice::global_shape, &Slice::offsets, &Slice::sizes, &Slice::rank, &Slice::index, &Slice::layers);
};

/// @param visit called with the name of a tensor, the name of its layers, and the tensor
void assemble(const Communicator& comm, const std::vector<NamedShard>& shards,
              const std::function<void(const std::string& name, const std::string& layers, const at::Tensor& whole)>& visit) {
  std::vector<Slice> mine;
  for (const NamedShard& shard : shards) {
    mine.push_back({shard.name, shard.tensor.scalar_type(), shard.global_shape, shard.offsets, shard.tensor.sizes().vec(), comm.rank(), mine.size(),
                    shard.layers});
  }
  std::map<std::string, std::vector<Slice>> slices;
  for (const std::vector<Slice>& of_rank : allgather_objects(comm, mine)) {
    for (const Slice& slice : of_rank) slices[slice.name].push_back(slice);
  }
  for (const auto& [name, parts] : slices) {
    const at::Tensor whole = at::empty(parts.front().global_shape, parts.front().dtype);
    for (const Slice& slice : parts) {
      const bool is_mine = slice.rank == comm.rank();
      const at::Tensor values = is_mine ? shards[slice.index].tensor.detach().cpu().contiguous() : at::empty(slice.sizes, slice.dtype);
      broadcast(comm, values, Rank(slice.rank));
      at::Tensor place = whole;
      for (size_t d = 0; d < slice.sizes.size(); ++d) place = place.narrow(static_cast<int64_t>(d), slice.offsets[d], slice.sizes[d]);
      place.copy_(values);
    }
    visit(name, parts.front().layers, whole);
  }
}

}  // namespace

void for_each_full_tensor(const Communicator& comm, const std::vector<NamedShard>& shards,
                          const std::function<void(const std::string& name, const at::Tensor& whole)>& visit) {
  assemble(comm, shards, [&](const std::string& name, const std::string&, const at::Tensor& whole) { visit(name, whole); });
}

std::vector<NamedTensor> full_tensors_on_root(const Communicator& comm, const std::vector<NamedShard>& shards) {
  std::vector<NamedTensor> all;
  assemble(comm, shards, [&](const std::string& name, const std::string& layers, const at::Tensor& whole) {
    if (comm.rank() != 0) return;
    for (NamedTensor& each : unstacked({name, whole}, layers)) all.push_back(std::move(each));
  });
  return all;
}

}  // namespace tw
